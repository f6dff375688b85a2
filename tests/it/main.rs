//! The integration suite: one binary, because linking is what takes time.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod arguments;
mod compile_fail;
mod endpoint;
mod growth;
mod health;
mod idle;
mod leadership;
#[path = "../../examples/licences.rs"]
#[allow(
    dead_code,
    reason = "a program, of which the tests call what they need"
)]
mod licences;
mod observability;
mod real;
mod side_effects;
mod usage;
mod window;

/// Returns the root of the repository.
fn repository() -> &'static std::path::Path {
    let package = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap()
}
