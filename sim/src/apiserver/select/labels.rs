//! Label selectors, by equality and by set.

use std::collections::BTreeSet;

use serde_json::Value;

/// Requirements on labels, all of which must hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct LabelSelector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug)]
pub(super) struct Requirement {
    pub(super) key: String,
    pub(super) test: Test,
}

#[derive(Clone, Debug)]
pub(super) enum Test {
    Exists,
    Missing,
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Greater(i64),
    Less(i64),
}

impl LabelSelector {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let requirements = super::grammar::parse(text)?;
        Ok(Self { requirements })
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        if self.requirements.is_empty() {
            return true;
        }
        let labels = object.pointer("/metadata/labels");
        self.requirements.iter().all(|requirement| {
            let value = labels.and_then(|labels| labels.get(&requirement.key)?.as_str());
            requirement.test.holds(value)
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }
}

impl Test {
    fn holds(&self, value: Option<&str>) -> bool {
        match self {
            Self::Exists => value.is_some(),
            Self::Missing => value.is_none(),
            Self::In(set) => value.is_some_and(|v| set.contains(v)),
            Self::NotIn(set) => value.is_none_or(|v| !set.contains(v)),
            Self::Greater(than) => number(value).is_some_and(|n| n > *than),
            Self::Less(than) => number(value).is_some_and(|n| n < *than),
        }
    }
}

fn number(value: Option<&str>) -> Option<i64> {
    value?.parse().ok()
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
