//! wip
pub mod api;
mod clock;
pub use clock::Clock;
