//! The real API server, and writes to it that bypass all proxies.

use std::io;
use std::time::Duration;

use jiff::Timestamp;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use kueue_check::Clock;
use kueue_check_testenv::{CrdError, StartError};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::meter::Seconds;

/// The reason why a run can't start or continue.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The servers did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Definitions could not be installed.
    #[error(transparent)]
    Definitions(#[from] CrdError),
    /// A file, socket or process failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A request failed.
    #[error("the API server: {0}")]
    Client(#[from] kube::Error),
    /// The output of a program was invalid.
    #[error("{0}")]
    Program(String),
    /// A wait timed out.
    #[error("waited {0:?} for {1}")]
    Late(Duration, String),
}

/// The timeout of a request.
const REQUEST: Duration = Duration::from_secs(5);

/// The maximum time until the webhooks of Kueue are served.
const WEBHOOKS: Duration = Duration::from_secs(90);

/// A client of the API server with an administrator's permissions.
#[derive(Clone)]
pub(crate) struct Writer {
    client: Client,
    clock: Clock,
}

/// The kind of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// Server-side apply by this field manager, with force.
    Apply(&'static str),
    /// A merge patch.
    Merge,
}

/// Returns the name of `object`.
pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

impl Writer {
    /// Creates a writer with all permissions.
    pub(crate) fn new(client: Client) -> Self {
        let clock = Clock::system();
        Self { client, clock }
    }

    /// Returns the client.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns the current time in seconds since 1970.
    pub(crate) fn now(&self) -> Seconds {
        self.clock.now().as_duration().as_secs_f64()
    }

    /// Returns the current time, to the second.
    pub(crate) fn timestamp(&self) -> Timestamp {
        let seconds = self.clock.now().as_second();
        Timestamp::from_second(seconds).unwrap_or_default()
    }

    /// Returns the current time as Kubernetes writes it.
    pub(crate) fn time(&self) -> String {
        self.timestamp().to_string()
    }

    fn api(&self, object: &Value) -> Api<DynamicObject> {
        kueue_check_testenv::api(&self.client, object)
    }

    /// Applies `object`.
    pub(crate) async fn apply(&self, object: &Value) -> Result<(), Failure> {
        self.patch(object, How::Apply("soak"), false, object).await
    }

    /// Changes `object`, or its status, by `body`.
    pub(crate) async fn patch(
        &self,
        object: &Value,
        how: How,
        status: bool,
        body: &Value,
    ) -> Result<(), Failure> {
        let api = self.api(object);
        let (parameters, patch) = match how {
            How::Apply(manager) => (PatchParams::apply(manager).force(), Patch::Apply(body)),
            How::Merge => (PatchParams::default(), Patch::Merge(body)),
        };
        let name = name(object);
        if status {
            within(api.patch_status(name, &parameters, &patch)).await
        } else {
            within(api.patch(name, &parameters, &patch)).await
        }
    }

    /// Creates `object`. Succeeds if it exists.
    pub(crate) async fn create(&self, object: &Value) -> Result<(), Failure> {
        let new = serde_json::from_value(object.clone());
        let new: DynamicObject = new.map_err(|error| Failure::Program(error.to_string()))?;
        let parameters = PostParams::default();
        match within(self.api(object).create(&parameters, &new)).await {
            Err(Failure::Client(kube::Error::Api(status))) if status.code == 409 => Ok(()),
            other => other,
        }
    }

    /// Deletes `object`. Succeeds if it does not exist.
    pub(crate) async fn delete(&self, object: &Value) -> Result<(), Failure> {
        let (api, parameters) = (self.api(object), DeleteParams::background());
        match within(api.delete(name(object), &parameters)).await {
            Err(Failure::Client(kube::Error::Api(status))) if status.code == 404 => Ok(()),
            other => other,
        }
    }

    /// Deletes `pod` without a grace period: its process has stopped.
    pub(crate) async fn delete_now(&self, pod: &Value) -> Result<(), Failure> {
        let (api, parameters) = (self.api(pod), DeleteParams::default().grace_period(0));
        within(api.delete(name(pod), &parameters)).await
    }

    /// Binds `pod` to a node.
    pub(crate) async fn bind(&self, pod: &Value) -> Result<(), Failure> {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name(pod)},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "node"},
        });
        let (api, parameters) = (self.api(pod), PostParams::default());
        let bound = api.create_subresource::<_, Value>("binding", name(pod), &parameters, &binding);
        within(bound).await
    }

    /// Applies `object` as soon as the webhooks of Kueue accept it.
    pub(crate) async fn apply_when_taken(&self, object: &Value) -> Result<(), Failure> {
        let began = Instant::now();
        loop {
            match self.apply(object).await {
                Err(Failure::Client(error))
                    if error.to_string().contains("failed calling webhook")
                        && began.elapsed() < WEBHOOKS =>
                {
                    sleep(Duration::from_millis(300)).await;
                }
                other => return other,
            }
        }
    }

    /// Returns the object, or null if it does not exist.
    pub(crate) async fn get(&self, object: &Value) -> Result<Value, Failure> {
        let found = self.api(object).get_opt(name(object)).await?;
        Ok(json!(found))
    }

    /// Waits until `holds` returns true for `object`.
    pub(crate) async fn wait(
        &self,
        object: &Value,
        what: &str,
        patience: Duration,
        holds: impl Fn(&Value) -> bool,
    ) -> Result<(), Failure> {
        let began = Instant::now();
        let mut seen = Value::Null;
        while began.elapsed() < patience {
            if let Ok(found) = self.get(object).await {
                seen = found;
            }
            if holds(&seen) {
                return Ok(());
            }
            sleep(Duration::from_millis(100)).await;
        }
        let what = format!("{what} of {}; last seen: {}", name(object), seen["status"]);
        Err(Failure::Late(patience, what))
    }
}

async fn within<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<(), Failure> {
    match timeout(REQUEST, request).await {
        Ok(response) => Ok(response.map(drop)?),
        Err(_) => Err(Failure::Late(
            REQUEST,
            "a response of the API server".to_owned(),
        )),
    }
}
