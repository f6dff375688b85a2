//! wip
mod backoff;
mod decide;
mod lease;
mod queue;
