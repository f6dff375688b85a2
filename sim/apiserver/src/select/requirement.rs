//! One requirement of a label selector.

use std::collections::BTreeSet;

/// A requirement on one label.
#[derive(Clone, Debug)]
pub(super) struct Requirement {
    pub(super) key: String,
    pub(super) test: Test,
}

/// The test of a label's value.
#[derive(Clone, Debug)]
pub(super) enum Test {
    Exists,
    Missing,
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Greater(i64),
    Less(i64),
}

impl Test {
    pub(super) fn holds(&self, value: Option<&str>) -> bool {
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
