//! wip
pub mod api;
pub mod check;
mod clock;
pub use check::*;
pub use clock::Clock;
