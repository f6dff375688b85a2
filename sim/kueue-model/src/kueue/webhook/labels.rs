//! The syntax of label keys and values.

fn name(text: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && ends(text.chars().next())
        && ends(text.chars().last())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// Returns true if this is a valid key of a label or an annotation.
pub(super) fn is_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, rest)) => is_subdomain(prefix) && name(rest),
        None => name(text),
    }
}

fn is_subdomain(text: &str) -> bool {
    let label = |part: &str| {
        let ends =
            |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        ends(part.chars().next())
            && ends(part.chars().last())
            && part
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

/// Returns true if this is a valid value of a label.
pub(super) fn is_value(text: &str) -> bool {
    text.is_empty() || name(text)
}
