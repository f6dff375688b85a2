//! A recorder between a check and the API server: the check's identity, its requests in terms of
//! RBAC, and the denied ones.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use http::Request;
use kube::Client;
use kube::client::Body;
use tokio::sync::Notify;

/// The unit of RBAC's decisions: group, resource (with its subresource) and verb.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Permission {
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) verb: String,
}

impl std::fmt::Display for Permission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if self.group.is_empty() {
            Ok(())
        } else {
            write!(f, ".{}", self.group)
        }
    }
}

/// The recorded requests. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Recorder {
    recorded_permissions: Arc<Mutex<RecordedPermissions>>,
    recorded: Arc<Notify>,
}

#[derive(Default)]
struct RecordedPermissions {
    used: BTreeSet<Permission>,
    denied: BTreeSet<Permission>,
}

impl Recorder {
    /// Returns `client` with recorded requests.
    pub(crate) fn around(&self, client: &Client) -> Client {
        let (inner, recorder) = (client.clone(), self.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (inner, recorder) = (inner.clone(), recorder.clone());
            async move {
                let permission = permission(&request);
                let response = inner.send(request).await?;
                if let Some(permission) = permission {
                    recorder.note(permission, response.status() == http::StatusCode::FORBIDDEN);
                }
                Ok::<_, kube::Error>(response)
            }
        });
        Client::new(service, client.default_namespace())
    }

    fn note(&self, permission: Permission, denied: bool) {
        let mut recorded_permissions = self.recorded_permissions.lock().unwrap();
        let set = if denied {
            &mut recorded_permissions.denied
        } else {
            &mut recorded_permissions.used
        };
        set.insert(permission);
        drop(recorded_permissions);
        self.recorded.notify_waiters();
    }

    pub(crate) fn denied(&self) -> BTreeSet<Permission> {
        self.recorded_permissions.lock().unwrap().denied.clone()
    }

    /// Returns those of `permissions` that were not requested, or not granted.
    pub(crate) fn unused(&self, permissions: &BTreeSet<Permission>) -> Vec<Permission> {
        let recorded_permissions = self.recorded_permissions.lock().unwrap();
        permissions
            .difference(&recorded_permissions.used)
            .cloned()
            .collect()
    }

    /// Waits until `holds` returns true. It is evaluated after each request.
    pub(crate) async fn until(&self, holds: impl Fn(&Self) -> bool) {
        loop {
            let recorded = self.recorded.notified();
            let mut recorded = std::pin::pin!(recorded);
            recorded.as_mut().enable();
            if holds(self) {
                return;
            }
            recorded.await;
        }
    }
}

/// Returns the permission that `request` needs; `None` if it is for no object, such as discovery.
fn permission(request: &Request<Body>) -> Option<Permission> {
    let path = request.uri().path().trim_matches('/');
    let mut parts = path.split('/').collect::<Vec<_>>().into_iter();
    let group = match parts.next()? {
        "api" => "",
        "apis" => parts.next()?,
        _ => return None,
    };
    let _version = parts.next()?;
    let mut rest: Vec<&str> = parts.collect();
    // `namespaces/NAME/KIND`, but `namespaces/NAME` is a namespace itself.
    if rest.first() == Some(&"namespaces") && rest.len() > 2 {
        rest.drain(..2);
    }
    let (kind, name) = (*rest.first()?, rest.get(1));
    let resource = match rest.get(2) {
        Some(part) => format!("{kind}/{part}"),
        None => kind.to_owned(),
    };
    let query = request.uri().query().unwrap_or_default();
    let watches = query
        .split('&')
        .any(|pair| matches!(pair, "watch=true" | "watch=1"));
    let verb = match (request.method().as_str(), name) {
        ("GET", Some(_)) => "get",
        ("GET", None) if watches => "watch",
        ("GET", None) => "list",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", Some(_)) => "delete",
        ("DELETE", None) => "deletecollection",
        _ => return None,
    };
    Some(Permission {
        group: group.to_owned(),
        resource,
        verb: verb.to_owned(),
    })
}

#[test]
fn requests_are_read_as_rbac_reads_them() {
    for (method, uri, expected) in [
        ("GET", "/api", None),
        ("GET", "/apis/kueue.x-k8s.io/v1beta2", None),
        ("GET", "/openapi/v3", None),
        ("GET", "/api/v1/namespaces", Some("list namespaces")),
        ("GET", "/api/v1/namespaces/a", Some("get namespaces")),
        (
            "GET",
            "/api/v1/namespaces/a/podtemplates?watch=true&x=y",
            Some("watch podtemplates"),
        ),
        (
            "PUT",
            "/api/v1/namespaces/a/podtemplates/b",
            Some("update podtemplates"),
        ),
        (
            "PATCH",
            "/apis/g/v1/namespaces/a/workloads/b/status?force=true",
            Some("patch workloads/status.g"),
        ),
        ("DELETE", "/apis/g/v1/things/b", Some("delete things.g")),
        (
            "POST",
            "/apis/events.k8s.io/v1/namespaces/a/events",
            Some("create events.events.k8s.io"),
        ),
    ] {
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .body(Body::empty())
            .unwrap();
        let read = permission(&request).map(|permission| permission.to_string());
        assert_eq!(read.as_deref(), expected, "{method} {uri}");
    }
}
