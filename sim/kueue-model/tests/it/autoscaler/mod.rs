//! The autoscaler: each row of its state machine, with and without an API server.

mod cluster;
mod misbehaviour;
mod nodes;
mod queued;
mod requests;
mod scenario;
