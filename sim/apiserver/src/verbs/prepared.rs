//! A write before the steps that all writes share.

use std::sync::Arc;

use serde_json::Value;

/// A write, ready for the steps that all writes share.
pub(super) struct PreparedWrite {
    pub(super) key: String,
    pub(super) name: String,
    pub(super) old: Option<Arc<Value>>,
    pub(super) new: Value,
    /// Whether `new` already has its field managers.
    pub(super) applied: bool,
    /// Warnings for the client.
    pub(super) warnings: Vec<String>,
}
