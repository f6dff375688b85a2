//! The autoscaler: every row of its state machine, and the same on an API server.

mod cluster;
mod misbehaviour;
mod nodes;
mod play;
mod queued;
mod requests;
