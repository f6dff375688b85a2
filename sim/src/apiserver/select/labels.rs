//! Label selectors, by equality and by set.

use std::collections::BTreeSet;

use serde_json::Value;

/// Requirements on labels, all of which must hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct LabelSelector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug)]
enum Test {
    Exists,
    Missing,
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Greater(i64),
    Less(i64),
}

impl LabelSelector {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut requirements = Vec::new();
        for part in split(text) {
            requirements.push(requirement(part.trim())?);
        }
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

/// Commas separate, but not within brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0);
    for (index, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    if parts.iter().all(|p| p.trim().is_empty()) {
        parts.clear();
    }
    parts
}

fn requirement(part: &str) -> Result<Requirement, String> {
    let make = |key: &str, test| {
        let key = key.trim();
        check_key(key)?;
        Ok(Requirement {
            key: key.to_owned(),
            test,
        })
    };
    let one = |value: &str| -> Result<BTreeSet<String>, String> {
        let value = value.trim();
        check_value(value)?;
        Ok(BTreeSet::from([value.to_owned()]))
    };
    if let Some(key) = part.strip_prefix('!') {
        return make(key, Test::Missing);
    }
    if let Some(test) = set_test(part)? {
        return make(test.0, test.1);
    }
    if let Some((key, value)) = part.split_once("!=") {
        return make(key, Test::NotIn(one(value)?));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return make(key, Test::In(one(value)?));
    }
    if let Some((key, value)) = part.split_once('>') {
        return make(key, Test::Greater(bound(value)?));
    }
    if let Some((key, value)) = part.split_once('<') {
        return make(key, Test::Less(bound(value)?));
    }
    if let Some((_, rest)) = part.split_once(char::is_whitespace) {
        let found = rest.trim();
        return Err(format!("found '{found}', expected: ',' or 'end of string'"));
    }
    make(part, Test::Exists)
}

fn bound(value: &str) -> Result<i64, String> {
    let value = value.trim();
    value.parse().map_err(|_| {
        format!(
            "values[0][]: Invalid value: \"{value}\": for 'Gt', 'Lt' operators, the value must be an integer"
        )
    })
}

/// `key in (a,b)` and `key notin (a,b)`.
fn set_test(part: &str) -> Result<Option<(&str, Test)>, String> {
    let Some((key, rest)) = part.split_once(char::is_whitespace) else {
        return Ok(None);
    };
    let rest = rest.trim_start();
    let (negative, list) = if let Some(list) = rest.strip_prefix("notin") {
        (true, list)
    } else if let Some(list) = rest.strip_prefix("in") {
        (false, list)
    } else {
        return Ok(None);
    };
    let list = list.trim();
    let Some(inner) = list.strip_prefix('(').and_then(|l| l.strip_suffix(')')) else {
        return Err(format!("found '{list}' expected: '('"));
    };
    let mut set = BTreeSet::new();
    for value in inner.split(',').map(str::trim) {
        check_value(value)?;
        set.insert(value.to_owned());
    }
    Ok(Some((
        key,
        if negative {
            Test::NotIn(set)
        } else {
            Test::In(set)
        },
    )))
}

fn check_key(key: &str) -> Result<(), String> {
    let errors = crate::apiserver::verbs::names::qualified_name(key);
    match errors.first() {
        None => Ok(()),
        Some(why) => Err(format!("<nil>: Invalid value: \"{key}\": {why}")),
    }
}

fn check_value(value: &str) -> Result<(), String> {
    match crate::apiserver::verbs::names::label_value(value) {
        None => Ok(()),
        Some(why) => Err(format!("<nil>: Invalid value: \"{value}\": {why}")),
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
