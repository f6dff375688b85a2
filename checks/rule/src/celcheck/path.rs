//! The part of a JSON document that expressions read.

use jsonpath_rust::parser::model::{JpQuery, Segment, Selector};
use jsonpath_rust::parser::parse_json_path;
use jsonpath_rust::query::js_path_process;
use serde_json::Value as Json;

use crate::document::clean;

/// The maximum size of the part, in bytes of JSON.
pub(super) const LARGEST: usize = 256 * 1024;

/// A JSONPath of names, indexes and `*`. It matches no place twice, so the document bounds its
/// cost. Filters are left to CEL.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DocumentPath {
    query: JpQuery,
    text: String,
    /// Whether it names exactly one place.
    is_singular: bool,
}

impl DocumentPath {
    /// Parses `text`.
    ///
    /// # Errors
    /// If it is no JSONPath, or has more than names, indexes and `*`.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        let query = parse_json_path(text).map_err(|error| {
            let error = error.to_string();
            let reason = error.lines().last().unwrap_or_default().trim();
            format!("no JSONPath: {}", clean(reason.trim_start_matches("= ")))
        })?;
        let mut is_singular = true;
        for segment in &query.segments {
            match segment {
                Segment::Selector(Selector::Name(_) | Selector::Index(_)) => {}
                Segment::Selector(Selector::Wildcard) => is_singular = false,
                _ => {
                    return Err(
                        "only names, indexes and `*` may stand in it: use CEL for the rest"
                            .to_owned(),
                    );
                }
            }
        }
        let text = text.to_owned();
        Ok(Self {
            query,
            text,
            is_singular,
        })
    }

    /// Returns the part of `document`: a value, or a list if the path has a `*`.
    ///
    /// # Errors
    /// If there is nothing at that place, or the part is too large.
    pub(crate) fn of(&self, document: &Json) -> Result<Json, String> {
        let found = js_path_process(&self.query, document).map_err(|error| error.to_string())?;
        let mut found = found.into_iter().map(|found| found.val.clone());
        let part = if self.is_singular {
            let none = || format!("there is nothing at {}", self.text);
            found.next().ok_or_else(none)?
        } else {
            Json::Array(found.collect())
        };
        if part.to_string().len() > LARGEST {
            return Err(format!(
                "what is at {} is larger than {LARGEST} bytes",
                self.text
            ));
        }
        Ok(part)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_names_one_place_or_many() {
        let document = json!({
            "data": [{"price": 1.5, "zone": "a"}, {"price": 2, "zone": null}, {"zone": "c"}],
            "it's": {"a.b": true},
        });
        let none = |path: &str| Err(format!("there is nothing at {path}"));
        for (path, expected) in [
            ("$", Ok(document.clone())),
            ("$.data[0].price", Ok(json!(1.5))),
            ("$['data'][-1]", Ok(json!({"zone": "c"}))),
            ("$.data[1].zone", Ok(json!(null))),
            ("$.data[*].price", Ok(json!([1.5, 2]))),
            ("$.data[*].nothing", Ok(json!([]))),
            ("$.data.*.zone", Ok(json!(["a", null, "c"]))),
            (r#"$["it's"]['a.b']"#, Ok(json!(true))),
            ("$.data[3]", none("$.data[3]")),
            ("$.data[2].price", none("$.data[2].price")),
            ("$.data.price", none("$.data.price")),
        ] {
            let found = DocumentPath::new(path).unwrap().of(&document);
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn a_path_whose_cost_the_document_does_not_bound_is_rejected() {
        for path in [
            "$..price",
            "$[0,0]",
            "$[*,*][*,*]",
            "$[0:2]",
            "$[?@.a > 1]",
            "$[?$..a]",
        ] {
            let error = DocumentPath::new(path).unwrap_err();
            assert!(
                error.contains("only names, indexes and `*`"),
                "{path}: {error}"
            );
        }
        for path in ["", "price", "$.", "$[", "$[99999999999999999999]", "$[\n"] {
            let error = DocumentPath::new(path).unwrap_err();
            assert!(error.starts_with("no JSONPath: "), "{path}: {error}");
            assert!(!error.contains('\n') && error.len() < 400, "{error:?}");
        }
    }

    #[test]
    fn a_part_that_is_too_large_is_rejected() {
        let document = json!({"text": "x".repeat(LARGEST - 2), "more": "x".repeat(LARGEST)});
        assert!(DocumentPath::new("$.text").unwrap().of(&document).is_ok());
        let error = DocumentPath::new("$.more")
            .unwrap()
            .of(&document)
            .unwrap_err();
        assert_eq!(error, "what is at $.more is larger than 262144 bytes");
    }
}
