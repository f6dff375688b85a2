//! One request without HTTP around it, and its answer.

use serde_json::Value;

/// A kind of object, as a URL names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    /// Empty for the core group.
    pub group: String,
    /// Such as `v1`.
    pub version: String,
    /// Such as `pods`.
    pub plural: String,
}

impl Resource {
    /// A resource by its three names.
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

    /// As in messages: `workloads.kueue.x-k8s.io`, or `pods` in the core group.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.clone()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// As in an object's `apiVersion`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read many.
    List,
    /// Make one.
    Create,
    /// Replace one.
    Update,
    /// Change one.
    Patch(Patch),
    /// Delete one.
    Delete,
    /// Delete many.
    DeleteCollection,
}

/// How a patch is written.
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

/// A request. A watch is not one: see `ApiServer::watch`.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// What is to be done.
    pub verb: Verb,
    /// To which kind of object.
    pub resource: Resource,
    /// Where; `None` for objects without a namespace and for lists of all namespaces.
    pub namespace: Option<String>,
    /// Which one; `None` for lists and creations.
    pub name: Option<String>,
    /// Such as `status`.
    pub subresource: Option<String>,
    /// The query, such as `fieldManager` and `force`, in the order in which it came.
    pub query: Vec<(String, String)>,
    /// Object, patch or delete options; null for none.
    pub body: Value,
    /// Who asks: the user agent, of which the part before `/` is the default field manager.
    pub agent: String,
}

impl Call {
    /// A call about a kind of object, to be completed with the other methods.
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

    /// In a namespace; empty for none.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = (!namespace.is_empty()).then(|| namespace.to_owned());
        self
    }

    /// On one object.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// On a subresource.
    #[must_use]
    pub fn subresource(mut self, subresource: &str) -> Self {
        self.subresource = Some(subresource.to_owned());
        self
    }

    /// With one more parameter.
    #[must_use]
    pub fn query(mut self, key: &str, value: &str) -> Self {
        self.query.push((key.to_owned(), value.to_owned()));
        self
    }

    /// With a body.
    #[must_use]
    pub fn body(mut self, body: Value) -> Self {
        self.body = body;
        self
    }

    /// By somebody.
    #[must_use]
    pub fn agent(mut self, agent: &str) -> Self {
        agent.clone_into(&mut self.agent);
        self
    }

    /// The first value of a parameter; empty counts as not given.
    pub fn parameter(&self, key: &str) -> Option<&str> {
        let found = self.query.iter().find(|(k, _)| k == key);
        found.map(|(_, v)| v.as_str()).filter(|v| !v.is_empty())
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The HTTP status code.
    pub code: u16,
    /// An object, a list, or a `Status`.
    pub body: Value,
    /// What the client should know, such as unknown fields; each goes into a header `Warning`.
    pub warnings: Vec<String>,
}

impl Answer {
    /// An answer without warnings.
    pub fn new(code: u16, body: Value) -> Self {
        Self {
            code,
            body,
            warnings: Vec::new(),
        }
    }
}
