//! Handling of one HTTP request, with injected faults.

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, header};

use super::accept::Form;
use super::route::{RequestParts, Route, route};
use super::{Body, form, response, stream};
use crate::Core;
use crate::call::{ApiRequest, Verb};
use crate::hooks::{self, RequestFault};

/// Processes a request. An error is a connection that broke.
pub(crate) async fn handle(
    core: Arc<Core>,
    agent: Option<Arc<str>>,
    request: Request<bytes::Bytes>,
) -> io::Result<Response<Body>> {
    let header = |name| {
        let value = request.headers().get(name);
        value.and_then(|v| v.to_str().ok()).unwrap_or_default()
    };
    let agent = agent.unwrap_or_else(|| header(header::USER_AGENT).into());
    let parts = RequestParts {
        method: request.method(),
        path: request.uri().path(),
        query: request.uri().query().unwrap_or_default(),
        content_type: header(header::CONTENT_TYPE),
        accept: header(header::ACCEPT),
        body: request.body(),
        agent: &agent,
    };
    match route(&core, &parts) {
        Err(status) => Ok(response::status(&status, None)),
        Ok(Route::Json(bytes)) => Ok(response::document(bytes)),
        Ok(Route::Text(text)) => Ok(response::text(text)),
        Ok(Route::Call(call, form)) => perform_with_faults(core, call, form, false).await,
        Ok(Route::Watch(call, form)) => perform_with_faults(core, call, form, true).await,
    }
}

async fn perform_with_faults(
    core: Arc<Core>,
    mut call: ApiRequest,
    form: Form,
    watch: bool,
) -> io::Result<Response<Body>> {
    let Some(faults) = core.faults() else {
        return Ok(perform(&core, &call, form, watch, StaleCache::default()));
    };
    faults.alter(&mut call);
    let request = hooks::RequestInfo {
        number: core.count_request(&call.agent),
        agent: call.agent.clone(),
        call,
        watch,
    };
    let fault = faults.request(&request);
    let behind = StaleCache::of(fault.as_ref(), &core, &request);
    let done = || perform(&core, &request.call, form, watch, behind);
    match fault {
        None | Some(RequestFault::StaleList(_) | RequestFault::LaggingWatch(_)) => Ok(done()),
        Some(RequestFault::Refuse {
            status,
            retry_after,
        }) => Ok(response::status(&status, retry_after)),
        Some(RequestFault::RefuseAfter {
            status,
            retry_after,
        }) => {
            done();
            Ok(response::status(&status, retry_after))
        }
        Some(RequestFault::Disconnect) => Err(stream::broken()),
        Some(RequestFault::LoseReply) => {
            done();
            Err(stream::broken())
        }
        Some(RequestFault::Delay(time)) => {
            tokio::time::sleep(time).await;
            Ok(done())
        }
        Some(RequestFault::DelayReply(time)) => {
            let response = done();
            tokio::time::sleep(time).await;
            Ok(response)
        }
        Some(RequestFault::Hang) => pending().await,
        Some(RequestFault::HangAfter) => {
            done();
            pending().await
        }
    }
}

/// The staleness of the data that a read returns.
#[derive(Clone, Copy, Default)]
struct StaleCache {
    /// The version that a list is served from.
    version: Option<u64>,
    /// The delay of each watch event.
    lag: Duration,
}

impl StaleCache {
    fn of(fault: Option<&RequestFault>, core: &Core, request: &hooks::RequestInfo) -> Self {
        let mut behind = Self::default();
        match fault {
            Some(RequestFault::StaleList(by)) if request.call.verb == Verb::List => {
                let store = core.store();
                let kind = store.registry.get(&request.call.resource);
                let then = core.now() - *by;
                behind.version = kind.map(|kind| store.version_without_newest(&kind.table(), then));
            }
            Some(RequestFault::LaggingWatch(by)) if request.watch => behind.lag = *by,
            _ => {}
        }
        behind
    }
}

fn perform(
    core: &Arc<Core>,
    call: &ApiRequest,
    form: Form,
    watch: bool,
    behind: StaleCache,
) -> Response<Body> {
    if watch {
        let mut response = match stream::start(core, call, form, behind.lag) {
            Ok(body) => response::stream(body),
            Err(status) => response::status(&status, None),
        };
        let kind = core.store().registry.get(&call.resource);
        if let Some(warning) = kind.as_ref().and_then(|kind| kind.deprecation.as_deref()) {
            response::warn(&mut response, warning);
        }
        return response;
    }
    let mut reply = core.process_at(call, behind.version);
    if form != Form::Whole && reply.code < 300 {
        let kind = core.store().registry.get(&call.resource);
        let include = call.parameter("includeObject").unwrap_or_default();
        let body = Arc::unwrap_or_clone(std::mem::take(&mut reply.body));
        let shown = kind.map(|kind| form::shown(form, &kind, body, include, core.now()));
        match shown {
            Some(Ok(body)) => reply.body = body.into(),
            Some(Err(status)) => return response::status(&status, None),
            None => {}
        }
    }
    response::of(&reply)
}
