//! A write before what all writes have in common.

use std::sync::Arc;

use serde_json::Value;

/// A write, ready but for what all writes have in common.
pub(super) struct Prepared {
    pub(super) key: String,
    pub(super) name: String,
    pub(super) old: Option<Arc<Value>>,
    pub(super) new: Value,
    /// Whether `new` has its owners already.
    pub(super) applied: bool,
    /// What the client should know.
    pub(super) warnings: Vec<String>,
}
