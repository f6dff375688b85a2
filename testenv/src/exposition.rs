//! A strict parser of the OpenMetrics text format, for tests of metrics.

use std::collections::{BTreeMap, BTreeSet};

/// One series with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The name of the series.
    pub name: String,
    /// Its labels, unescaped.
    pub labels: BTreeMap<String, String>,
    /// Its value.
    pub value: f64,
}

/// Returns the samples of `text`, which must end in `# EOF`.
///
/// # Errors
/// The invalid line and the reason: among others a sample before its `# TYPE`, a duplicate type or
/// series, and a label that is not closed.
pub fn parse(text: &str) -> Result<Vec<Sample>, String> {
    let body = text
        .strip_suffix("# EOF\n")
        .ok_or("it does not end in `# EOF`")?;
    let (mut types, mut series, mut samples) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
    for line in body.split_terminator('\n') {
        let wrong = |why: &str| format!("{why}: `{line}`");
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            match (words.next(), words.next(), words.next()) {
                (Some("TYPE"), Some(name), Some(kind)) if is_name(name, true) => {
                    if types.insert(name.to_owned(), kind.to_owned()).is_some() {
                        return Err(wrong("a second type"));
                    }
                }
                (Some("HELP" | "UNIT"), Some(name), text) if is_name(name, true) => {
                    unescaped(text.unwrap_or_default(), false).map_err(|why| wrong(&why))?;
                }
                _ => return Err(wrong("an unknown comment")),
            }
            continue;
        }
        let sample = sample(line).map_err(|why| wrong(&why))?;
        let suffixes = [
            "", "_total", "_created", "_bucket", "_sum", "_count", "_info",
        ];
        let family = suffixes
            .iter()
            .filter_map(|suffix| sample.name.strip_suffix(suffix))
            .find(|family| types.contains_key(*family))
            .ok_or_else(|| wrong("a sample of no type"))?;
        if types[family] == "counter" && family == sample.name {
            return Err(wrong("a counter without `_total`"));
        }
        if !series.insert((sample.name.clone(), sample.labels.clone())) {
            return Err(wrong("a second sample of one series"));
        }
        samples.push(sample);
    }
    Ok(samples)
}

fn is_name(name: &str, colons: bool) -> bool {
    name.starts_with(|c: char| !c.is_ascii_digit())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_' || (colons && c == ':'))
}

fn sample(line: &str) -> Result<Sample, String> {
    let end = line.find(['{', ' ']).ok_or("no value")?;
    let (name, mut rest) = line.split_at(end);
    if !is_name(name, true) {
        return Err("not a name".to_owned());
    }
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while !rest.starts_with('}') {
            let (label, after) = rest.split_once("=\"").ok_or("a label without a value")?;
            if !is_name(label, false) {
                return Err("not the name of a label".to_owned());
            }
            let close = closing_quote(after).ok_or("a label that is not closed")?;
            let value = unescaped(&after[..close], true)?;
            if labels.insert(label.to_owned(), value).is_some() {
                return Err("a second value of one label".to_owned());
            }
            rest = &after[close + 1..];
            match rest.strip_prefix(',') {
                Some(next) if !next.starts_with('}') => rest = next,
                None if rest.starts_with('}') => {}
                _ => return Err("labels that are not separated".to_owned()),
            }
        }
        rest = &rest[1..];
    }
    let value = rest.strip_prefix(' ').ok_or("no value")?;
    let value = value.split(" # ").next().unwrap_or(value);
    Ok(Sample {
        name: name.to_owned(),
        labels,
        value: value.parse().map_err(|_| "a value that is no number")?,
    })
}

fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            '"' if !escaped => return Some(at),
            c => escaped = c == '\\' && !escaped,
        }
    }
    None
}

fn unescaped(text: &str, quotes: bool) -> Result<String, String> {
    let mut unescaped = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => unescaped.push('\n'),
                Some(c @ ('\\' | '"')) => unescaped.push(c),
                _ => return Err("an unknown escape".to_owned()),
            },
            '"' if quotes => return Err("a quote".to_owned()),
            c => unescaped.push(c),
        }
    }
    Ok(unescaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_openmetrics_is_rejected() {
        for (text, why) in [
            ("# TYPE a gauge\na 1\n", "it does not end"),
            ("# TYPE a gauge\n# TYPE a gauge\n# EOF\n", "a second type"),
            ("a 1\n# EOF\n", "a sample of no type"),
            ("# TYPE a counter\na 1\n# EOF\n", "a counter without"),
            ("# TYPE a gauge\na 1\na 2\n# EOF\n", "a second sample"),
            ("# TYPE a gauge\na{b=\"c\n# EOF\n", "not closed"),
            ("# TYPE a gauge\na{b=\"c\"d\"} 1\n# EOF\n", "not separated"),
            ("# TYPE a gauge\na{b=\"c\\d\"} 1\n# EOF\n", "unknown escape"),
            ("# TYPE a gauge\na{b-c=\"d\"} 1\n# EOF\n", "name of a label"),
            ("# TYPE a gauge\na one\n# EOF\n", "no number"),
            ("# EOF\n# TYPE a gauge\na 1\n# EOF\n", "unknown comment"),
            ("nonsense\n# EOF\n", "no value"),
        ] {
            let error = parse(text);
            let refused = error.as_ref().is_err_and(|error| error.contains(why));
            assert!(refused, "{text:?}: {error:?}");
        }
    }

    #[test]
    fn labels_are_unescaped() {
        let samples =
            parse("# TYPE a counter\n# HELP a b\na_total{b=\"c\\\"d\\n\\\\\",e=\"\"} 1e3\n# EOF\n");
        let sample = &samples.unwrap()[0];
        assert_eq!(
            (sample.labels["b"].as_str(), sample.value),
            ("c\"d\n\\", 1e3)
        );
        assert_eq!(sample.labels["e"], "");
    }
}
