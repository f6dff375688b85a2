//! Macros of `kueue-check`. Use them through that crate, which documents what they make.

mod admission_check;
mod errors;
mod parameters;

use proc_macro::TokenStream;

/// Makes a check of an async function.
///
/// ```text
/// #[admission_check(controller = "example.com/window")]
/// async fn window(Params(window): Params<Window>, Now(now): Now) -> Verdict { ... }
/// ```
///
/// | argument | meaning |
/// | --- | --- |
/// | `controller = "domain/name"` | the `spec.controllerName` of the AdmissionChecks that it answers; needed |
/// | `timeout = "10s"` | how long one answer may take; default: what the command line says |
/// | `annotations = ["a", "b"]` | the Workloads' annotations that it reads |
/// | `state = Type` | the type given to `with_state`, where `State` arguments are parts of it |
/// | `read_only` | to ask it has no effect and its answer does not depend on what the process remembers: the command `explain` may ask it |
///
/// The function becomes a type of the same name that implements `AdmissionCheckController`. The function itself is still there, for tests, as
/// `window::decide(...)`. A function with a `State` argument becomes a check with `.with_state(...)`.
#[proc_macro_attribute]
pub fn admission_check(arguments: TokenStream, function: TokenStream) -> TokenStream {
    admission_check::expand(arguments.into(), function.into()).into()
}

/// Makes parameters of a custom resource: beside `#[derive(CustomResource)]`, on the spec.
///
/// ```text
/// #[derive(CustomResource, Parameters, Serialize, Deserialize, JsonSchema, Clone, Debug)]
/// #[kube(group = "example.com", version = "v1alpha1", kind = "Window")]
/// #[parameters(validate = WindowSpec::validate)]
/// struct WindowSpec {
///     opens: civil::Time,
///     #[serde(flatten)]
///     policy: Policy,
/// }
/// ```
///
/// `validate` names a function from `&WindowSpec` to a `Result<(), E>` whose error can be printed; it looks at what a schema can't express. A field of
/// type `Policy` is the operator's policy.
#[proc_macro_derive(Parameters, attributes(parameters))]
pub fn parameters(spec: TokenStream) -> TokenStream {
    parameters::expand(spec.into()).into()
}
