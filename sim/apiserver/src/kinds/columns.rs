//! The columns of `kubectl get`.

use serde_json::Value;

/// One column of a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub(crate) kind: String,
    pub(crate) format: String,
    pub(crate) priority: i64,
    pub(crate) path: Path,
    /// Whether the value is a time, shown as its age.
    pub(crate) ago: bool,
}

/// A path in the subset of `JSONPath` that definitions may use. Supported are fields, indices,
/// `[*]` and `[?(@.field=="value")]`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Path {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Index(usize),
    /// Items in which this field has this value.
    Where(String, String),
    /// All items.
    All,
}

/// Returns the columns of a version of a definition: its own, or the age.
pub(crate) fn columns(version: &Value) -> Vec<Column> {
    let own = version
        .get("additionalPrinterColumns")
        .and_then(Value::as_array);
    match own.filter(|own| !own.is_empty()) {
        Some(own) => own.iter().map(column).collect(),
        None => vec![age("date")],
    }
}

fn column(source: &Value) -> Column {
    let text = |name: &str| {
        let found = source.get(name).and_then(Value::as_str);
        found.unwrap_or_default().to_owned()
    };
    Column {
        name: text("name"),
        kind: text("type"),
        format: text("format"),
        priority: source.get("priority").and_then(Value::as_i64).unwrap_or(0),
        path: Path::parse(&text("jsonPath")),
        ago: text("type") == "date",
    }
}

/// Returns the column for the age of an object.
pub(crate) fn age(kind: &str) -> Column {
    Column {
        name: "Age".to_owned(),
        kind: kind.to_owned(),
        format: String::new(),
        priority: 0,
        path: Path::parse(".metadata.creationTimestamp"),
        ago: true,
    }
}

impl Path {
    fn parse(text: &str) -> Self {
        let (mut steps, mut rest) = (Vec::new(), text);
        while !rest.is_empty() {
            if let Some(inner) = rest.strip_prefix('[') {
                let end = inner.find(']').unwrap_or(inner.len());
                steps.push(bracket(&inner[..end]));
                rest = inner.get(end + 1..).unwrap_or_default();
            } else {
                let name = rest.strip_prefix('.').unwrap_or(rest);
                let end = end_of_field(name);
                if end > 0 {
                    steps.push(Step::Field(name[..end].replace("\\.", ".")));
                }
                rest = &name[end..];
                if end == 0 && !rest.starts_with('[') {
                    break;
                }
            }
        }
        Self { steps }
    }

    /// Returns the first value at this path.
    pub(crate) fn first<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        find(&self.steps, object)
    }
}

/// Returns the end of a field. A dot after a backslash does not end it.
fn end_of_field(text: &str) -> usize {
    let mut escaped = false;
    for (index, c) in text.char_indices() {
        match c {
            '\\' => escaped = true,
            '.' | '[' if !escaped => return index,
            _ => escaped = false,
        }
    }
    text.len()
}

fn bracket(inner: &str) -> Step {
    let filter = inner
        .strip_prefix("?(@.")
        .and_then(|f| f.strip_suffix(')'))
        .and_then(|f| f.split_once("=="));
    if let Some((field, value)) = filter {
        let value = value.trim().trim_matches(['"', '\'']);
        return Step::Where(field.trim().to_owned(), value.to_owned());
    }
    match inner.parse() {
        Ok(index) => Step::Index(index),
        Err(_) if inner == "*" => Step::All,
        Err(_) => Step::Field(inner.trim_matches(['"', '\'']).to_owned()),
    }
}

fn find<'a>(steps: &[Step], value: &'a Value) -> Option<&'a Value> {
    let [step, rest @ ..] = steps else {
        return Some(value);
    };
    match step {
        Step::Field(name) => find(rest, value.get(name)?),
        Step::Index(index) => find(rest, value.get(index)?),
        Step::All => value.as_array()?.iter().find_map(|item| find(rest, item)),
        Step::Where(field, wanted) => {
            let mut items = value.as_array()?.iter();
            items.find_map(|item| {
                let found = item.get(field)?;
                let shown = match found {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                let same = shown == *wanted;
                same.then(|| find(rest, item)).flatten()
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_find_values() {
        let object = json!({"spec": {"a.b": 1, "list": [{"t": "x", "v": 2}, {"t": "y", "v": 3}]}});
        let rows = [
            (".spec.list[0].v", Some(json!(2))),
            (".spec.list[?(@.t==\"y\")].v", Some(json!(3))),
            (".spec.list[?(@.t=='z')].v", None),
            (".spec.list[*].v", Some(json!(2))),
            (".spec['a.b']", Some(json!(1))),
            (".spec.a\\.b", Some(json!(1))),
            (".status", None),
        ];
        for (path, expected) in rows {
            let path = Path::parse(path);
            assert_eq!(path.first(&object).cloned(), expected, "{path:?}");
        }
    }
}
