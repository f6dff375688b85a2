//! wip
pub mod api;
pub mod check;
mod clock;
pub mod runtime;
pub use check::*;
pub use clock::Clock;
