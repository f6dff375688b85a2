//! wip
pub mod api;
pub mod check;
mod clock;
mod runtime;
pub use check::*;
pub use clock::Clock;
