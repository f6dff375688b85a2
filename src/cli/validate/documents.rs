//! Documents of a file. Pure.

use serde_json::Value;

/// One document.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Document {
    /// Its place: the number of the document, its first line, and the item of a List.
    pub(super) place: String,
    /// Its content, or why it cannot be read.
    pub(super) object: Result<Value, String>,
}

/// Returns the documents of a file in YAML or JSON, without empty ones. The items of a List are
/// documents of their own.
pub(super) fn documents(text: &str) -> Vec<Document> {
    let mut all = Vec::new();
    let mut number = 0;
    for (first, body) in split(text) {
        let object = match read(first, &body) {
            Ok(None) => continue,
            Ok(Some(object)) => Ok(object),
            Err(why) => Err(why),
        };
        number += 1;
        let place = format!("document {number} (line {first})");
        match object {
            Ok(Value::Object(mut list)) if is_list(&list) => {
                let items = list.remove("items");
                let items = items.and_then(|items| items.as_array().cloned());
                for (index, item) in items.unwrap_or_default().into_iter().enumerate() {
                    all.push(Document {
                        place: format!("{place}, item {}", index + 1),
                        object: Ok(item),
                    });
                }
            }
            object => all.push(Document { place, object }),
        }
    }
    all
}

fn is_list(object: &serde_json::Map<String, Value>) -> bool {
    object.get("apiVersion").and_then(Value::as_str) == Some("v1")
        && object.get("kind").and_then(Value::as_str) == Some("List")
}

/// Returns the bodies between the lines that begin with `---`, each with the number of its first
/// line. YAML allows such a line nowhere else.
fn split(text: &str) -> Vec<(usize, String)> {
    let mut all = vec![(1, String::new())];
    for (index, line) in text.lines().enumerate() {
        let begins = line
            .strip_prefix("---")
            .filter(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r']));
        match (begins, all.last_mut()) {
            (Some(rest), _) => all.push((index + 1, format!("   {rest}\n"))),
            (None, Some((_, body))) => {
                body.push_str(line);
                body.push('\n');
            }
            (None, None) => {}
        }
    }
    // The number is that of the first line with content.
    all.into_iter()
        .map(|(first, body)| {
            let blank = body.lines().take_while(|line| is_blank(line)).count();
            let skipped: usize = body.lines().take(blank).map(|line| line.len() + 1).sum();
            let rest = body.get(skipped..).unwrap_or_default().to_owned();
            (first + blank, rest)
        })
        .filter(|(_, body)| !body.is_empty())
        .collect()
}

/// Returns true for nothing, a comment, a directive, or the end of a document.
fn is_blank(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with(['#', '%']) || line == "..."
}

/// Parses a document. Lines before it are replaced by empty lines, so that errors have the file's
/// line numbers.
fn read(first: usize, body: &str) -> Result<Option<Value>, String> {
    let text = format!("{}{body}", "\n".repeat(first.saturating_sub(1)));
    let read: Result<Option<Value>, _> = serde_saphyr::from_str(&text);
    match read {
        Ok(object) => Ok(object.filter(|object| !object.is_null())),
        Err(error) => {
            let why = error.to_string();
            Err(why.lines().next().unwrap_or_default().trim().to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_is_split_at_its_markers_and_lines_are_counted() {
        let text = "# a comment\n---\n\n# another\na: 1\n--- {b: 2}\n---\n# nothing\n...\n---\nc: |\n  --- inside\nd: 3\n";
        let read: Vec<(String, Value)> = documents(text)
            .into_iter()
            .map(|document| (document.place, document.object.unwrap()))
            .collect();
        let expected = [
            ("document 1 (line 5)", json!({"a": 1})),
            ("document 2 (line 6)", json!({"b": 2})),
            ("document 3 (line 11)", json!({"c": "--- inside\n", "d": 3})),
        ];
        assert_eq!(
            read,
            expected.map(|(place, object)| (place.to_owned(), object))
        );
    }

    #[test]
    fn json_and_lists_are_read_and_nothing_is_nothing() {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": [{"x": 1}, {"x": 2}]});
        let places: Vec<String> = documents(&list.to_string())
            .into_iter()
            .map(|document| document.place)
            .collect();
        assert_eq!(
            places,
            ["document 1 (line 1), item 1", "document 1 (line 1), item 2"]
        );
        for text in ["", "\n\n", "---\n---\n", "# only words\n", "null\n"] {
            assert_eq!(documents(text), [], "{text:?}");
        }
    }

    #[test]
    fn what_is_no_yaml_is_reported_with_its_line_and_hides_no_neighbour() {
        let found = documents("a: 1\n---\nb: [1\nc: 2\n---\nd: 4\n");
        assert_eq!(found.len(), 3);
        let why = found[1].object.clone().unwrap_err();
        assert!(
            why.contains("line 3") || why.contains("line 4") || why.contains("line 5"),
            "{why}"
        );
        assert_eq!(found[2].object, Ok(json!({"d": 4})));
    }
}
