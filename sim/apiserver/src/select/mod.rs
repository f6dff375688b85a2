//! Label and field selectors of lists and watches.

mod fields;
mod grammar;
mod labels;
mod requirement;

use serde_json::Value;

use super::kinds::Kind;
use super::status::Status;

use fields::FieldSelector;
use labels::LabelSelector;

/// Both selectors of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selector {
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selector {
    /// Parses both selectors of a query.
    pub(crate) fn parse(
        kind: &Kind,
        labels: Option<&str>,
        fields: Option<&str>,
    ) -> Result<Self, Status> {
        Ok(Self {
            labels: LabelSelector::parse(labels.unwrap_or_default())
                .map_err(Status::bad_request)?,
            fields: FieldSelector::parse(kind, fields.unwrap_or_default())?,
        })
    }

    /// Narrows the selector to one object.
    pub(crate) fn only(&mut self, name: &str) {
        self.fields.add_name(name);
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.labels.matches(object) && self.fields.matches(object)
    }

    /// Returns true if the selector selects everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }
}
