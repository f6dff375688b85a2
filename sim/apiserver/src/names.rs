//! Rules for names, labels and annotations, with kube-apiserver's messages.
//!
//! ```
//! use kueue_check_apiserver::names;
//!
//! assert!(names::dns_subdomain("team-a.example.com").is_empty());
//! assert_eq!(names::label_key("example.com/").len(), 2, "empty, and of a wrong form");
//! assert!(names::label_value("a value")[0].starts_with("a valid label must be"));
//! ```

const DNS_LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const DNS_SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends =
        bytes.first().copied().is_some_and(is_lower) && bytes.last().copied().is_some_and(is_lower);
    ends && bytes.iter().all(|b| is_lower(*b) || *b == b'-')
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn too_long(text: &str, maximum: usize) -> Option<String> {
    (text.len() > maximum).then(|| format!("must be no more than {maximum} characters"))
}

/// Returns the errors of a name that must be a DNS label.
#[must_use]
pub fn dns_label(text: &str) -> Vec<String> {
    let mut errors: Vec<String> = too_long(text, 63).into_iter().collect();
    if !is_label(text) {
        // A valid subdomain has dots and no other error.
        let why = if is_subdomain(text) {
            "must not contain dots"
        } else {
            DNS_LABEL
        };
        errors.push(why.to_owned());
    }
    errors
}

/// Returns the errors of a name that must be a DNS subdomain.
#[must_use]
pub fn dns_subdomain(text: &str) -> Vec<String> {
    let mut errors: Vec<String> = too_long(text, 253).into_iter().collect();
    if !is_subdomain(text) {
        errors.push(DNS_SUBDOMAIN.to_owned());
    }
    errors
}

/// Returns the errors of a label key.
#[must_use]
pub fn label_key(text: &str) -> Vec<String> {
    let errors = qualified_name(text).into_iter();
    let of_label = |why: String| why.replacen("a qualified name must", "a valid label key must", 1);
    errors.map(of_label).collect()
}

/// Returns the errors of a name with an optional domain before it.
#[must_use]
pub fn qualified_name(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let (prefix, name) = match text.split_once('/') {
        None => (None, text),
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
        Some((prefix, name)) => (Some(prefix), name),
    };
    match prefix {
        Some("") => errors.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => {
            let wrong = dns_subdomain(prefix).into_iter();
            errors.extend(wrong.map(|why| format!("prefix part {why}")));
        }
        None => {}
    }
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        errors.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_qualified_part(name) {
        errors.push(QUALIFIED.to_owned());
    }
    errors
}

fn is_qualified_part(text: &str) -> bool {
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    ends(bytes.first())
        && ends(bytes.last())
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// Returns the errors of a label value.
#[must_use]
pub fn label_value(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 63 {
        errors.push("must be no more than 63 bytes".to_owned());
    }
    if !text.is_empty() && !is_qualified_part(text) {
        errors.push(LABEL_VALUE.to_owned());
    }
    errors
}
