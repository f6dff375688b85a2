//! Label selectors, by equality and by set.

use serde_json::Value;

use super::grammar;
use super::requirement::Requirement;

/// A label selector: requirements on labels, all of which must hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct LabelSelector {
    requirements: Vec<Requirement>,
}

impl LabelSelector {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let requirements = grammar::parse(text)?;
        Ok(Self { requirements })
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        if self.requirements.is_empty() {
            return true;
        }
        let labels = &object["metadata"]["labels"];
        let mut requirements = self.requirements.iter();
        requirements.all(|each| each.test.holds(labels[&each.key].as_str()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_select() {
        let object = json!({"metadata": {"labels": {"a": "1", "b": "x"}}});
        let rows = [
            ("", true),
            ("a=1", true),
            ("a==1,b!=y", true),
            ("a in (1,2),b notin (y,z)", true),
            ("c", false),
            ("!c", true),
            ("a>0", true),
            ("a<1", false),
            ("c!=1", true),
            ("c notin (1)", true),
            ("c in (1)", false),
        ];
        for (text, expected) in rows {
            assert_eq!(
                LabelSelector::parse(text).unwrap().matches(&object),
                expected,
                "{text}"
            );
        }
    }
}
