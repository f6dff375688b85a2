//! What a process reports before it can work, and when a part of it dies. On a server in memory, in
//! virtual time.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::{StreamExt, stream};
use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::client::Body;
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use kueue_check::prelude::*;
use kueue_check::runtime::{LeaseConfig, LeaseTimes, Runtime, RuntimeBuilder};
use kueue_check::{BackgroundContext, Clock};
use kueue_check_sim::apiserver::{ApiServer, Faults, RequestFault, RequestInfo, Status};
use kueue_check_sim::definitions;
use tokio::sync::Notify;
use tokio::time::sleep;

/// A check that may have a part that panics.
#[derive(Default)]
struct Parts {
    stream: Option<&'static str>,
    background: Option<&'static str>,
    /// How often the stream was opened.
    opened: Arc<AtomicUsize>,
}

impl AdmissionCheckController for Parts {
    type Parameters = NoParameters;

    fn controller_name(&self) -> ControllerName {
        const { ControllerName::from_static("example.com/health") }
    }

    async fn evaluate(&self, _: CheckRequest<NoParameters>) -> Result<Verdict, CheckError> {
        Ok(Verdict::ready("as always"))
    }

    fn configure(self: &Arc<Self>, check: Check) -> Check {
        let words = self.background;
        let check = check.background(move |_| async move {
            if let Some(words) = words {
                panic!("{words}");
            }
        });
        let Some(words) = self.stream else {
            return check;
        };
        let opened = Arc::clone(&self.opened);
        check.watches_stream("rates", move || {
            opened.fetch_add(1, Ordering::Relaxed);
            stream::once(async move { panic!("{words}") })
        })
    }
}

fn kueue() -> Client {
    ApiServer::with_definitions(Clock::system(), definitions::kueue()).client()
}

/// Makes a client of an API server that accepts requests and never responds.
fn silent() -> Client {
    let service = tower::service_fn(|_: Request<Body>| async {
        pending::<()>().await;
        Ok::<_, Infallible>(Response::new(Body::empty()))
    });
    Client::new(service, "default")
}

fn lease() -> LeaseConfig {
    LeaseConfig {
        namespace: "default".into(),
        name: "health".into(),
        identity: "health-0".into(),
        times: LeaseTimes::default(),
    }
}

fn builder(client: Client) -> RuntimeBuilder {
    Runtime::builder(client).check(Parts::default())
}

#[tokio::test(start_paused = true)]
async fn a_process_that_waits_for_kueue_or_the_api_server_is_alive_and_not_ready() {
    let without_kueue = ApiServer::new(Clock::system()).client();
    for (client, problem) in [
        (without_kueue, "kueue: Kueue is not installed"),
        (silent(), "kueue: the API server did not respond within 10s"),
    ] {
        let runtime = builder(client).build().unwrap();
        let handle = runtime.handle();
        let runs = tokio::spawn(runtime.run(pending()));
        for _ in 0..10 {
            sleep(Duration::from_secs(60)).await;
            assert!(handle.is_alive().await, "{problem}: it would be restarted");
            let problems = handle.problems();
            assert!(
                problems.len() == 1 && problems[0].starts_with(problem),
                "{problem}: its problems are {problems:?}"
            );
        }
        assert!(
            handle.diagnostics().await.is_none(),
            "there is no state to return"
        );
        runs.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_is_not_ready_before_its_caches_are_synced() {
    let runtime = builder(silent()).lease(lease()).build().unwrap();
    let handle = runtime.handle();
    let unknown = [
        "kueue: the served API is not discovered yet",
        "lease: leadership is not determined yet",
    ];
    assert_eq!(handle.problems(), unknown, "before it begins");
    let runs = tokio::spawn(runtime.run(pending()));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(handle.problems(), unknown, "while the first request hangs");
    runs.abort();

    let runtime = builder(kueue()).build().unwrap();
    let handle = runtime.handle();
    tokio::spawn(runtime.run(pending()));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(handle.problems(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_background_work_is_reported() {
    let check = Parts {
        background: Some("out of paper"),
        ..Parts::default()
    };
    let runtime = Runtime::builder(kueue()).check(check).build().unwrap();
    let error = runtime.run(pending()).await.unwrap_err().to_string();
    for part in [
        "the background work of example.com/health: ",
        "out of paper",
    ] {
        assert!(error.contains(part), "{error}");
    }
}

/// The stream panics each time that it is opened.
#[tokio::test(start_paused = true)]
async fn a_stream_that_panics_is_opened_again_and_costs_nothing_else() {
    let check = Parts {
        stream: Some("no rates for 2027"),
        ..Parts::default()
    };
    let opened = Arc::clone(&check.opened);
    let runtime = Runtime::builder(kueue()).check(check).build().unwrap();
    let handle = runtime.handle();
    let runs = tokio::spawn(runtime.run(pending()));
    sleep(Duration::from_mins(20)).await;
    assert!(!runs.is_finished());
    let opened = opened.load(Ordering::Relaxed);
    assert!((9..=15).contains(&opened), "{opened} times");
    assert_eq!(handle.problems(), Vec::<String>::new());
    let errors = "kueue_check_watch_errors_total{watch=\"example.com/health/rates\"}";
    assert!(handle.metrics().await.contains(errors), "it is counted");
    runs.abort();
}

/// A fault that refuses all requests for a resource that are watches, or that are not.
struct Refuses {
    resource: &'static str,
    watches: bool,
}

impl Faults for Refuses {
    fn request(&self, request: &RequestInfo) -> Option<RequestFault> {
        let refused =
            request.watch == self.watches && request.call.resource.plural == self.resource;
        refused.then(|| RequestFault::Refuse {
            status: Status::new(403, "Forbidden", "not yours"),
            retry_after: None,
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_whose_lease_cannot_be_read_reports_the_error() {
    let server = ApiServer::with_definitions(Clock::system(), definitions::kueue());
    server.set_faults(Arc::new(Refuses {
        resource: "leases",
        watches: false,
    }));
    let runtime = builder(server.client()).lease(lease()).build().unwrap();
    let handle = runtime.handle();
    tokio::spawn(runtime.run(pending()));
    sleep(Duration::from_secs(30)).await;
    let problems = handle.problems();
    let problem = "lease: leadership is not determined yet: cannot read lease: ";
    assert!(
        problems.len() == 1
            && problems[0].starts_with(problem)
            && problems[0].contains("not yours"),
        "{problems:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_process_whose_lease_has_no_namespace_reports_it() {
    let lease = LeaseConfig {
        namespace: "nowhere".into(),
        ..lease()
    };
    let runtime = builder(kueue()).lease(lease).build().unwrap();
    let handle = runtime.handle();
    tokio::spawn(runtime.run(pending()));
    sleep(Duration::from_secs(30)).await;
    let problems = handle.problems();
    let problem = "lease: leadership is not determined yet: cannot write lease: ";
    assert!(
        problems.len() == 1
            && problems[0].starts_with(problem)
            && problems[0].contains("\"nowhere\" not found"),
        "{problems:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_background_work_is_named_while_it_fails() {
    let server = ApiServer::with_definitions(Clock::system(), definitions::kueue());
    let stop = Arc::new(Notify::new());
    let stopped = Arc::clone(&stop);
    let check = Check::new(Parts::default()).background(move |context: BackgroundContext| {
        let stopped = Arc::clone(&stopped);
        async move {
            let open = async |client| Ok(Api::<ConfigMap>::all(client));
            let mut events = context.watch("windows", open, Config::default().timeout(60));
            loop {
                tokio::select! {
                    _ = events.next() => {}
                    () = stopped.notified() => return,
                }
            }
        }
    });
    server.set_faults(Arc::new(Refuses {
        resource: "configmaps",
        watches: false,
    }));
    let runtime = Runtime::builder(server.client())
        .check(check)
        .build()
        .unwrap();
    let handle = runtime.handle();
    tokio::spawn(runtime.run(pending()));
    let windows = "the watch of example.com/health/windows";
    let shown = async || {
        let metrics = handle.metrics().await;
        let mut lines = metrics.lines();
        let series = r#"kueue_check_watch_synced{watch="example.com/health/windows"} "#;
        lines.find_map(|line| line.strip_prefix(series).map(str::to_owned))
    };
    sleep(Duration::from_secs(100)).await;
    let problems = handle.problems();
    let expected =
        format!("{windows} has not been synced for 100 s; last error: list: 403 not yours");
    assert_eq!(problems, [expected]);
    assert_eq!(shown().await.as_deref(), Some("0"));

    server.clear_faults();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(handle.problems(), Vec::<String>::new());
    assert_eq!(shown().await.as_deref(), Some("1"));

    // The permission is revoked while it watches.
    server.set_faults(Arc::new(Refuses {
        resource: "configmaps",
        watches: true,
    }));
    sleep(Duration::from_secs(240)).await;
    let problems = handle.problems();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(
        problems[0].starts_with(&format!("{windows} has failed for ")),
        "{problems:?}"
    );
    assert_eq!(shown().await.as_deref(), Some("0"));

    stop.notify_one();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(handle.problems(), Vec::<String>::new(), "it is over");
    assert_eq!(shown().await, None);
}

#[tokio::test]
async fn lease_times_that_allow_two_leaders_are_rejected() {
    let good = LeaseTimes::default();
    let seconds = Duration::from_secs;
    let builds = |times: LeaseTimes| {
        let lease = LeaseConfig {
            namespace: "default".into(),
            name: "health".into(),
            identity: "health-0".into(),
            times,
        };
        builder(silent()).lease(lease).build()
    };
    assert!(builds(good).is_ok());
    for wrong in [
        LeaseTimes {
            renew_deadline: seconds(10),
            ..good
        },
        LeaseTimes {
            duration: Duration::from_millis(7_900),
            renew_deadline: Duration::from_millis(7_500),
            ..good
        },
        LeaseTimes {
            renew_interval: seconds(7),
            ..good
        },
        LeaseTimes {
            renew_interval: seconds(0),
            ..good
        },
        LeaseTimes {
            retry_period: seconds(0),
            ..good
        },
    ] {
        let error = builds(wrong).unwrap_err().to_string();
        assert!(error.contains("the lease's times do not fit"), "{error}");
        assert!(error.contains(&format!("{:?}", wrong.duration)), "{error}");
    }
}
