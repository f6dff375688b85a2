//! The targets: readers of foreign bytes, and their properties.
//!
//! A target is a function that panics if a property does not hold. Its outcome is a hash of the
//! values read, not of the input itself, so it differs for inputs that were read differently.

mod api_server;
mod cel;
mod lease;
mod numbers;
mod parameters;
mod responses;
mod schema;
mod text;
mod workload;

use std::hash::{DefaultHasher, Hash, Hasher};

pub use crate::target::{DictionaryWords, Form, MemoryLimit, Outcome, Target};

const MIB: usize = 1024 * 1024;
/// The allowance of readers that keep the data that they read.
const KEPT: MemoryLimit = MemoryLimit {
    base: 2 * MIB,
    for_each_byte: 256,
};
/// The allowance of targets that compile, or run a server.
const LARGE: MemoryLimit = MemoryLimit {
    base: 32 * MIB,
    for_each_byte: 2_048,
};

/// All targets.
pub const TARGETS: &[Target] = &[
    numbers::QUANTITY,
    numbers::DURATION,
    numbers::AMOUNT,
    text::MESSAGE,
    workload::WORKLOAD,
    workload::OBJECTS,
    parameters::PARAMETERS,
    lease::LEASE,
    responses::PROMETHEUS,
    responses::DATADOG,
    responses::REVIEW,
    cel::CEL,
    cel::RULE,
    schema::SCHEMA,
    api_server::REQUESTS,
    api_server::PATCHES,
    api_server::PROTOBUF,
    api_server::SELECTOR,
];

/// Returns a hash of `value` as an outcome.
fn outcome(value: impl Hash) -> Outcome {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Returns the words of an error without quoted text: inputs with the same mistake have the same.
fn shape(error: &str) -> String {
    let mut quoted = false;
    error
        .chars()
        .filter(|c| {
            if matches!(c, '`' | '"' | '\'') {
                quoted = !quoted;
            }
            !quoted && (c.is_ascii_alphabetic() || *c == ' ')
        })
        .take(100)
        .collect()
}

/// Returns the number of binary digits.
fn magnitude(number: usize) -> u32 {
    usize::BITS - number.leading_zeros()
}

/// Panics unless `text` is one line of at most `limit` characters, without control characters.
#[track_caller]
fn assert_line(text: &str, limit: usize) {
    let length = text.chars().count();
    assert!(length <= limit, "{length} characters: {text:?}");
    assert!(!text.chars().any(char::is_control), "{text:?}");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_target_has_a_name_of_its_own_and_a_corpus() {
        let names: BTreeSet<&str> = TARGETS.iter().map(|target| target.name).collect();
        assert_eq!(names.len(), TARGETS.len());
        for target in TARGETS {
            let corpus = crate::corpus::read(target.name).unwrap();
            assert!(!corpus.is_empty(), "{}", target.name);
        }
    }

    #[test]
    fn errors_of_one_kind_have_one_shape() {
        assert_eq!(
            shape("`64 GB` is no quantity 7"),
            shape("`x` is no quantity 8")
        );
        assert_ne!(shape("missing field `a`"), shape("unknown field `a`"));
    }
}
