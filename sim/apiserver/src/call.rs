//! Requests and responses without HTTP.

use std::sync::Arc;

use serde_json::Value;

/// A kind of object, by the names in its URL.
///
/// ```
/// use kueue_check_apiserver::{ApiServer, Resource, system_time};
///
/// let server = ApiServer::new(system_time());
/// let namespaces = server.objects(&Resource::new("", "v1", "namespaces"), "");
/// assert_eq!(namespaces[0]["metadata"]["name"], "default");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version, such as `v1`.
    pub version: String,
    /// The plural name, such as `pods`.
    pub plural: String,
}

impl Resource {
    /// Creates a resource from its three names.
    pub fn new(
        group: impl Into<String>,
        version: impl Into<String>,
        plural: impl Into<String>,
    ) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            plural: plural.into(),
        }
    }

    /// Returns the name used in messages: `jobs.batch`, or `pods` in the core group.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.clone()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// Returns the `apiVersion` of the objects.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

/// The verb of a request.
///
/// ```
/// # use serde_json::json;
/// # let server = ApiServer::new(kueue_check_apiserver::system_time());
/// use kueue_check_apiserver::{ApiServer, ApiRequest, Resource, Verb};
///
/// let maps = Resource::new("", "v1", "configmaps");
/// for (name, team) in [("one", "red"), ("two", "blue"), ("three", "red")] {
///     let object = json!({"metadata": {"name": name, "labels": {"team": team}}});
///     server.call(&ApiRequest::new(Verb::Create, &maps).namespace("default").body(object));
/// }
/// let red = ApiRequest::new(Verb::DeleteCollection, &maps).namespace("default").query("labelSelector", "team=red");
/// assert_eq!(server.call(&red).code, 200);
/// assert_eq!(server.objects(&maps, "default").len(), 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read many.
    List,
    /// Create one.
    Create,
    /// Replace one.
    Update,
    /// Patch one.
    Patch(Patch),
    /// Delete one.
    Delete,
    /// Delete many.
    DeleteCollection,
}

/// The format of a patch.
///
/// ```
/// # use serde_json::json;
/// # let server = ApiServer::new(kueue_check_apiserver::system_time());
/// use kueue_check_apiserver::{ApiServer, ApiResponse, ApiRequest, Patch, Resource, Verb};
///
/// let maps = Resource::new("", "v1", "configmaps");
/// let apply = |manager: &str, gpus: &str| -> ApiResponse {
///     let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "limits"}, "data": {"gpus": gpus}});
///     let call = ApiRequest::new(Verb::Patch(Patch::Apply), &maps).namespace("default").name("limits");
///     server.call(&call.query("fieldManager", manager).body(object)) // with `force=true` the second would get its way
/// };
/// assert_eq!(apply("alice", "8").code, 201);
/// let refused = apply("bob", "16");
/// assert_eq!(refused.body["message"], "Apply failed with 1 conflict: conflict with \"alice\": .data.gpus");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patch {
    /// RFC 7386.
    Merge,
    /// RFC 6902.
    Json,
    /// Server-side apply.
    Apply,
    /// Strategic merge: RFC 7386 with lists merged by key; built-in kinds only.
    Strategic,
}

/// An API request. Watches are separate: see `ApiServer::watch`.
///
/// ```
/// # use serde_json::json;
/// # let server = ApiServer::new(kueue_check_apiserver::system_time());
/// use kueue_check_apiserver::{ApiServer, ApiRequest, Resource, Verb};
///
/// let call = ApiRequest::new(Verb::Create, &Resource::new("", "v1", "configmaps"))
///     .namespace("default")
///     .body(json!({"metadata": {"generateName": "limits-"}, "data": {"gpus": "8"}}))
///     .agent("kubectl/v1.36.3");
/// let made = server.call(&call);
/// assert_eq!(made.code, 201, "{}", made.body["message"]);
/// assert_eq!(made.body["metadata"]["managedFields"][0]["manager"], "kubectl");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ApiRequest {
    /// The verb.
    pub verb: Verb,
    /// The kind of object.
    pub resource: Resource,
    /// The namespace; `None` for objects without a namespace and for lists of all namespaces.
    pub namespace: Option<String>,
    /// The object's name; `None` for lists and creations.
    pub name: Option<String>,
    /// The subresource, such as `status`.
    pub subresource: Option<String>,
    /// The query parameters, such as `fieldManager` and `force`, in the order of the request.
    pub query: Vec<(String, String)>,
    /// The object, patch or delete options; null for none.
    pub body: Value,
    /// The user agent. Its part before `/` is the default field manager.
    pub agent: String,
}

impl ApiRequest {
    /// Creates a request for a kind of object; the other methods complete it.
    pub fn new(verb: Verb, resource: &Resource) -> Self {
        Self {
            verb,
            resource: resource.clone(),
            namespace: None,
            name: None,
            subresource: None,
            query: Vec::new(),
            body: Value::Null,
            agent: "sim".to_owned(),
        }
    }

    /// Sets the namespace; empty for none.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = (!namespace.is_empty()).then(|| namespace.to_owned());
        self
    }

    /// Sets the object's name.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Sets the subresource.
    #[must_use]
    pub fn subresource(mut self, subresource: &str) -> Self {
        self.subresource = Some(subresource.to_owned());
        self
    }

    /// Adds a query parameter.
    #[must_use]
    pub fn query(mut self, key: &str, value: &str) -> Self {
        self.query.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: Value) -> Self {
        self.body = body;
        self
    }

    /// Sets the user agent.
    #[must_use]
    pub fn agent(mut self, agent: &str) -> Self {
        agent.clone_into(&mut self.agent);
        self
    }

    /// Returns the first value of a parameter; `None` if it is empty or missing.
    pub fn parameter(&self, key: &str) -> Option<&str> {
        let found = self.query.iter().find(|(k, _)| k == key);
        found.map(|(_, v)| v.as_str()).filter(|v| !v.is_empty())
    }
}

/// An API response.
///
/// ```
/// # use serde_json::json;
/// # let server = ApiServer::new(kueue_check_apiserver::system_time());
/// use kueue_check_apiserver::{ApiServer, ApiRequest, Resource, Verb};
///
/// let create = ApiRequest::new(Verb::Create, &Resource::new("", "v1", "configmaps")).namespace("default");
/// let response = server.call(&create.body(json!({"metadata": {"name": "limits"}, "dta": {"gpus": "8"}})));
/// // As kubectl shows it: the field is dropped, and the object is made.
/// assert_eq!((response.code, response.warnings), (201, vec!["unknown field \"dta\"".to_owned()]));
/// assert!(response.body["dta"].is_null());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ApiResponse {
    /// The HTTP status code.
    pub code: u16,
    /// An object, a list, or a `Status`. A stored object is shared, not copied.
    pub body: Arc<Value>,
    /// Warnings for the client, such as unknown fields; each becomes a `Warning` header.
    pub warnings: Vec<String>,
}

impl ApiResponse {
    /// Creates a response without warnings.
    pub fn new(code: u16, body: impl Into<Arc<Value>>) -> Self {
        Self {
            code,
            body: body.into(),
            warnings: Vec::new(),
        }
    }
}
