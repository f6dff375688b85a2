//! A check's parameters: a cluster-scoped custom resource that AdmissionChecks refer to.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use kube::Resource;
use serde::de::DeserializeOwned;

use super::Policy;

/// The parameters of a check. `#[derive(Parameters)]` implements it, in addition to kube's
/// `CustomResource`.
///
/// The runtime watches the objects, and decodes and validates each. It reports errors in the
/// AdmissionCheck's condition `Active`. While an object is missing or invalid, Workloads are
/// evaluated with the last valid one.
///
/// ```
/// # #[cfg(feature = "macros")] {
/// use kube::CustomResource;
/// use kueue_check::{Parameters, Policy};
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
///
/// /// How large a job may be.
/// #[derive(CustomResource, Parameters, Serialize, Deserialize, JsonSchema, Clone, Debug)]
/// #[kube(group = "example.com", version = "v1alpha1", kind = "Limit")]
/// #[parameters(validate = LimitSpec::validate)]
/// struct LimitSpec {
///     most_pods: u32,
///     #[serde(flatten)]
///     policy: Policy,
/// }
///
/// impl LimitSpec {
///     /// What a schema can't express.
///     fn validate(&self) -> Result<(), String> {
///         if self.most_pods.is_power_of_two() { Ok(()) } else { Err("`most_pods` must be a power of two".to_owned()) }
///     }
/// }
///
/// let limit = |pods: u32| Limit::decode(serde_json::json!({
///     "apiVersion": "example.com/v1alpha1", "kind": "Limit", "metadata": {"name": "small"}, "spec": {"most_pods": pods},
/// }));
/// assert!(limit(8).is_ok_and(|limit| limit.validate().is_ok()));
/// assert!(limit(9).is_ok_and(|limit| limit.validate().is_err()));
/// # }
/// ```
pub trait Parameters: Sized + Send + Sync + 'static {
    /// Returns the kind of the objects; `None` for a check that takes no parameters.
    fn kind() -> Option<ParametersKind>;

    /// Decodes the parameters in `object`.
    ///
    /// # Errors
    /// The text for a condition: what is wrong.
    fn decode(object: serde_json::Value) -> Result<Self, String>;

    /// Validates what a schema can't express. Default: everything is valid.
    ///
    /// # Errors
    /// The text for a condition: what is wrong and what to do.
    fn validate(&self) -> Result<(), String> {
        Ok(())
    }

    /// Returns the administrator's choices, if the parameters offer them.
    fn policy(&self) -> Option<&Policy> {
        None
    }

    /// Returns the definition to install. Default: none, for a resource that another project
    /// defines.
    fn custom_resource_definition() -> Option<CustomResourceDefinition> {
        None
    }

    /// Returns the definition of a resource that another project defines and installs. `validate`
    /// compares files with it; no command prints or applies it. Default: none, and `validate`
    /// reports that unknown fields were not checked.
    fn defined_elsewhere() -> Option<CustomResourceDefinition> {
        None
    }
}

/// Returns the name of a kind with its article, for messages: `a Window`, `an AdmissionCheck`.
pub(crate) fn with_article(kind: &str) -> String {
    // More names with `U` are pronounced as `User` than as `Update`.
    let article = if kind.starts_with(['A', 'E', 'I', 'O']) {
        "an"
    } else {
        "a"
    };
    format!("{article} {kind}")
}

/// The result of a validation: a `Result` with any error that can be printed.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a validation returns a `Result` whose error describes the problem, not `{Self}`",
    label = "not a `Result<(), E>` whose `E` can be printed"
)]
pub trait Validation {
    /// Returns the result, with the error as text.
    ///
    /// # Errors
    /// The error of the validation.
    fn into_result(self) -> Result<(), String>;
}

impl<E: fmt::Display> Validation for Result<(), E> {
    fn into_result(self) -> Result<(), String> {
        self.map_err(|error| error.to_string())
    }
}

/// The kind of a check's parameters.
///
/// ```
/// use kueue_check::{Parameters, ParametersKind};
///
/// /// Parameters that another project defines, in two versions.
/// struct Quota { limit: u64 }
///
/// impl Parameters for Quota {
///     fn kind() -> Option<ParametersKind> {
///         let (group, kind, plural) = ("example.com".into(), "Quota".into(), "quotas".into());
///         Some(ParametersKind { group, kind, plural, versions: vec!["v1".into(), "v1beta1".into()] })
///     }
///
///     fn decode(object: serde_json::Value) -> Result<Self, String> {
///         let limit = object.pointer("/spec/limit").and_then(serde_json::Value::as_u64);
///         limit.map(|limit| Self { limit }).ok_or_else(|| "`spec.limit` must be a number".to_owned())
///     }
/// }
///
/// assert_eq!(Quota::kind().map(|kind| kind.to_string()).as_deref(), Some("Quota.example.com"));
/// assert!(Quota::decode(serde_json::json!({"spec": {"limit": 5}})).is_ok_and(|quota| quota.limit == 5));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParametersKind {
    /// The API group.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The resource's plural name.
    pub plural: String,
    /// The versions that [`Parameters::decode`] supports, best first; the first that the cluster
    /// serves is used.
    pub versions: Vec<String>,
}

impl ParametersKind {
    /// Returns the kind of the type `K`, in its one version.
    pub fn of<K: Resource<DynamicType = ()>>() -> Self {
        Self {
            group: K::group(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            plural: K::plural(&()).into_owned(),
            versions: vec![K::version(&()).into_owned()],
        }
    }

    /// Decodes `object`, for an implementation of [`Parameters::decode`].
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode<K: DeserializeOwned>(object: serde_json::Value) -> Result<K, String> {
        serde_json::from_value(object).map_err(|error| error.to_string())
    }
}

/// Prints `Window.example.com`.
impl fmt::Display for ParametersKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.kind, self.group)
    }
}

/// The parameters of a check that takes none. An AdmissionCheck that has parameters is then not
/// activated.
///
/// ```
/// use kueue_check::{NoParameters, Parameters, RequestBuilder, api::Workload};
///
/// # let workload = Workload::from_json(serde_json::json!({"metadata": {"namespace": "team-a", "name": "train", "uid": "1"}}))?;
/// let request = RequestBuilder::new(workload, "window").build(NoParameters);
/// assert_eq!((request.parameters_generation(), NoParameters::kind()), (0, None));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoParameters;

impl Parameters for NoParameters {
    fn kind() -> Option<ParametersKind> {
        None
    }

    fn decode(_: serde_json::Value) -> Result<Self, String> {
        Ok(Self)
    }
}

/// Parameters of any type; only the check has the type.
pub(crate) type AnyParameters = Arc<dyn Any + Send + Sync>;

/// A [`Parameters`] type as a value.
#[derive(Clone)]
pub(crate) struct ParametersType {
    pub(crate) kind: Option<ParametersKind>,
    pub(crate) read: fn(serde_json::Value) -> Result<DecodedParameters, String>,
    pub(crate) definition: fn() -> Option<CustomResourceDefinition>,
    #[cfg(feature = "cli")]
    pub(crate) definition_of_others: fn() -> Option<CustomResourceDefinition>,
}

/// Parameters that were decoded and validated.
#[derive(Clone)]
pub(crate) struct DecodedParameters {
    pub(crate) value: AnyParameters,
    pub(crate) policy: Option<Policy>,
}

impl ParametersType {
    pub(crate) fn of<P: Parameters>() -> Self {
        Self {
            kind: P::kind(),
            read: |object| {
                let parameters = P::decode(object)?;
                parameters.validate()?;
                Ok(DecodedParameters {
                    policy: parameters.policy().cloned(),
                    value: Arc::new(parameters),
                })
            },
            definition: P::custom_resource_definition,
            #[cfg(feature = "cli")]
            definition_of_others: P::defined_elsewhere,
        }
    }
}

impl fmt::Debug for DecodedParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Read")
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ParametersType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ParametersType").field(&self.kind).finish()
    }
}
