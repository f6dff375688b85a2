//! Macros of `kueue-check`. Use them through that crate, which documents their output.

mod admission_check;
mod entry_point;
mod errors;
mod parameters;
mod resource;

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
/// | `controller = "domain/name"` | the `spec.controllerName` of its AdmissionChecks; required |
/// | `timeout = "10s"` | limits one evaluation; default: `--evaluation-timeout`. `on_activate` and `on_release` may take the longer of the two |
/// | `annotations = ["a", "b"]` | the Workloads' annotations that it reads |
/// | `policy = expression` | the `Policy` where the parameters choose none |
/// | `on_activate = function` | called when an AdmissionCheck is activated, as `Check::on_activate` |
/// | `on_release = function` | called when a reservation is over, as `Check::on_release` |
/// | `state = Type` | the type given to `with_state`, where `State` arguments are parts of it |
/// | `previewable` | `explain` may evaluate it: without effects, and without state of the process |
/// | `previewable = false` | `explain` may not evaluate it. Default: only if it has a state |
///
/// The function becomes a type of the same name that implements `AdmissionCheckController`;
/// `Check::new(window)` has methods for everything else. The function itself is still there, for
/// tests, as `window::decide(...)`.
///
/// A function with a `State` argument becomes a `Check` with `window.with_state(...)`. Its
/// `on_activate` and `on_release` take an `Arc` of the state as their first argument.
#[proc_macro_attribute]
pub fn admission_check(arguments: TokenStream, function: TokenStream) -> TokenStream {
    admission_check::expand(arguments.into(), function.into()).into()
}

/// Starts the tokio runtime of a program: tokio's `main`, without a dependency on tokio.
///
/// ```text
/// #[kueue_check::main]
/// async fn main() -> kueue_check::Result<()> {
///     kueue_check::main(window).await
/// }
/// ```
///
/// Its arguments are those of `#[tokio::main]`. A check that never blocks its thread can have
/// `worker_threads = 1`: a verdict then takes 0.84 times the processor time of two workers, because
/// no task wakes another thread (`cargo xtask bench` with `TOKIO_WORKER_THREADS`). By default there
/// is one worker for each core.
#[proc_macro_attribute]
pub fn main(arguments: TokenStream, function: TokenStream) -> TokenStream {
    entry_point::expand(arguments.into(), function.into()).into()
}

/// Makes a custom resource of a struct, as parameters, with this SDK as the only dependency.
///
/// ```text
/// #[kueue_check::parameters(group = "example.com", version = "v1alpha1", kind = "Window")]
/// struct WindowSpec {
///     opens: civil::Time,
///     closes: civil::Time,
/// }
/// ```
///
/// | argument | meaning |
/// | --- | --- |
/// | `group`, `version`, `kind` | the kind of the resource; needed. The struct of the whole object, with `metadata` and `spec`, is called as the kind |
/// | `validate = path` | a function from `&WindowSpec` to a `Result<(), E>` whose error can be printed, for what a schema cannot express |
/// | any other | an argument of kube's `#[kube(...)]`, such as `shortname = "w"` or `printcolumn = ...` |
///
/// It derives `CustomResource`, `Parameters`, `Serialize`, `Deserialize`, `JsonSchema`, `Clone` and
/// `Debug`. A field of type `Policy` is the administrator's policy. Types of fields derive serde's
/// and schemars' traits themselves: `#[derive(Serialize, Deserialize, JsonSchema)]` with
/// `#[serde(crate = "kueue_check::serde")]` and `#[schemars(crate = "kueue_check::schemars")]`.
#[proc_macro_attribute]
pub fn parameters(arguments: TokenStream, spec: TokenStream) -> TokenStream {
    resource::expand(arguments.into(), spec.into()).into()
}

/// Derives `Parameters` for a custom resource: beside `#[derive(CustomResource)]`, on the spec.
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
/// `validate` names a function from `&WindowSpec` to a `Result<(), E>` whose error can be printed;
/// it validates what a schema cannot express. A field of type `Policy` is the administrator's
/// policy.
#[proc_macro_derive(Parameters, attributes(parameters))]
pub fn derive_parameters(spec: TokenStream) -> TokenStream {
    parameters::expand(spec.into()).into()
}
