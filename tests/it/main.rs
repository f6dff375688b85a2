//! The integration suite: one binary, because linking is what takes time.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod compile_fail;
mod endpoint;
mod growth;
mod health;
mod leadership;
#[path = "../../examples/licences.rs"]
#[allow(
    dead_code,
    reason = "a program, of which the tests call what they need"
)]
mod licences;
mod quiet;
mod real;
mod starts;
mod usage;
mod window;
