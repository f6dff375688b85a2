//! Identities: UIDs, resource versions, and names that many objects share.

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An object's `metadata.uid`: it identifies one object in the whole life of a cluster, even if a
/// later one has the same name.
///
/// Kubernetes uses UUIDs but specifies only a string, so another form is kept as it is.
///
/// ```
/// use kueue_check::api::Uid;
///
/// let uid = Uid::new("0b6f1d2e-93a4-4c55-8d6e-7f8091a2b3c4");
/// assert_eq!(uid.to_string(), "0b6f1d2e-93a4-4c55-8d6e-7f8091a2b3c4");
/// assert_ne!(uid, Uid::new("0B6F1D2E-93A4-4C55-8D6E-7F8091A2B3C4"), "the text counts, not the number");
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(UidForm);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum UidForm {
    // As two halves: an u128 would align every holder to 16 bytes.
    Uuid(u64, u64),
    Other(Arc<str>),
}

impl Uid {
    /// The first one, in the order of UIDs.
    pub(crate) const MIN: Self = Self(UidForm::Uuid(0, 0));

    /// Makes the UID that is written as `text`.
    pub fn new(text: &str) -> Self {
        Self(match parse_uuid(text) {
            Some((high, low)) => UidForm::Uuid(high, low),
            None => UidForm::Other(text.into()),
        })
    }
}

/// Parses the canonical form only (lower case, four hyphens): a parsed UID must print as it was
/// read.
fn parse_uuid(text: &str) -> Option<(u64, u64)> {
    let bytes = text.as_bytes();
    if bytes.len() != 36 {
        return None;
    }
    let mut value = 0_u128;
    for (position, byte) in bytes.iter().enumerate() {
        let digit = match (position, byte) {
            (8 | 13 | 18 | 23, b'-') => continue,
            (8 | 13 | 18 | 23, _) => return None,
            (_, b'0'..=b'9') => byte - b'0',
            (_, b'a'..=b'f') => byte - b'a' + 10,
            _ => return None,
        };
        value = value << 4 | u128::from(digit);
    }
    let low = u64::try_from(value & u128::from(u64::MAX)).ok()?;
    Some((u64::try_from(value >> 64).ok()?, low))
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            UidForm::Uuid(high, low) => write!(
                f,
                "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
                high >> 32,
                high >> 16 & 0xffff,
                high & 0xffff,
                low >> 48,
                low & 0xffff_ffff_ffff
            ),
            UidForm::Other(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Uid({self})")
    }
}

impl Serialize for Uid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Uid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::new(&String::deserialize(deserializer)?))
    }
}

/// An object's `metadata.resourceVersion`: the version that one write produced.
///
/// Comparable since Kubernetes 1.35 (KEP-5504), and numeric long before. A version that is not a
/// number is kept and never counts as older.
///
/// ```
/// use kueue_check::api::ResourceVersion;
///
/// assert!(ResourceVersion::new("99").is_older_than(&ResourceVersion::new("100")));
/// assert!(!ResourceVersion::new("99").is_older_than(&ResourceVersion::new("x100")), "they can't be compared");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ResourceVersion(VersionForm);

#[derive(Clone, PartialEq, Eq)]
enum VersionForm {
    Number(u64),
    Opaque(Name),
}

impl ResourceVersion {
    /// Makes the version that is written as `text`.
    pub fn new(text: &str) -> Self {
        let canonical = !text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit());
        Self(match text.parse() {
            Ok(number) if canonical => VersionForm::Number(number),
            _ => VersionForm::Opaque(text.into()),
        })
    }

    /// Returns true if this version is certainly older than `other`; false where the two cannot be
    /// compared.
    pub fn is_older_than(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (VersionForm::Number(own), VersionForm::Number(other)) => own < other,
            _ => false,
        }
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            VersionForm::Number(number) => number.fmt(f),
            VersionForm::Opaque(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ResourceVersion({self})")
    }
}

/// A name that many objects share, in one word. (`Arc<str>` takes two, which counts in a hundred
/// thousand places.)
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name(Arc<Box<str>>);

impl Name {
    fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

impl std::ops::Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for Name {
    fn borrow(&self) -> &str {
        self
    }
}

impl<T: Into<Box<str>>> From<T> for Name {
    fn from(text: T) -> Self {
        Self(Arc::new(text.into()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// Names that many objects share (namespaces, queues, flavors, resources), stored once.
#[derive(Debug, Default)]
pub(crate) struct Names {
    known: BTreeSet<Name>,
    sweep_at: usize,
}

impl Names {
    /// Returns the one stored copy of `name`.
    pub(crate) fn intern(&mut self, name: &str) -> Name {
        if let Some(known) = self.known.get(name) {
            return known.clone();
        }
        if self.known.len() >= self.sweep_at {
            self.known.retain(Name::is_shared);
            self.sweep_at = (self.known.len() * 2).max(64);
        }
        let name = Name::from(name);
        self.known.insert(name.clone());
        name
    }
}

/// A moment to the second, as the API has it, in four bytes: from 1970 to 2106. Anything else
/// counts as absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CompactTime(Option<NonZeroU32>);

impl CompactTime {
    pub(crate) fn get(self) -> Option<Timestamp> {
        self.0
            .and_then(|seconds| Timestamp::from_second(seconds.get().into()).ok())
    }
}

impl From<Option<Timestamp>> for CompactTime {
    fn from(at: Option<Timestamp>) -> Self {
        Self(
            at.and_then(|at| u32::try_from(at.as_second()).ok())
                .and_then(NonZeroU32::new),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_prints_as_it_was_read() {
        for text in [
            "0b6f1d2e-93a4-4c55-8d6e-7f8091a2b3c4",
            "00000000-0000-0000-0000-000000000000",
            "ffffffff-ffff-ffff-ffff-ffffffffffff",
            "0B6F1D2E-93A4-4C55-8D6E-7F8091A2B3C4",
            "wl-1",
            "",
            "0b6f1d2e-93a4-4c55-8d6e-7f8091a2b3c-",
        ] {
            assert_eq!(Uid::new(text).to_string(), text);
        }
        assert_ne!(Uid::new("a"), Uid::new("b"));
        assert_eq!(size_of::<Uid>(), 24);
        assert_eq!(
            (
                size_of::<Option<Name>>(),
                size_of::<ResourceVersion>(),
                size_of::<CompactTime>()
            ),
            (8, 16, 4)
        );
    }

    #[test]
    fn a_moment_is_what_the_api_has() {
        let moment = |text: &str| {
            CompactTime::from(text.parse().ok())
                .get()
                .map(|at| at.to_string())
        };
        assert_eq!(
            moment("2026-11-21T09:00:00.7Z").as_deref(),
            Some("2026-11-21T09:00:00Z")
        );
        assert_eq!(
            (
                moment("1969-01-01T00:00:00Z"),
                moment("2200-01-01T00:00:00Z"),
                moment("")
            ),
            (None, None, None)
        );
    }

    #[test]
    fn versions_compare_as_numbers_and_never_guess() {
        let older =
            |a: &str, b: &str| ResourceVersion::new(a).is_older_than(&ResourceVersion::new(b));
        assert!(older("9", "10"));
        assert!(!older("10", "9"));
        assert!(!older("10", "10"));
        assert!(!older("a", "10"));
        assert!(!older("9", "b"));
        assert_eq!(ResourceVersion::new("007").to_string(), "007");
    }

    #[test]
    fn names_are_stored_once_and_removed_when_unused() {
        let mut names = Names::default();
        let first = names.intern("team-a");
        assert!(Arc::ptr_eq(&first.0, &names.intern("team-a").0));
        for round in 0..1000 {
            names.intern(&format!("gone-{round}"));
        }
        assert!(names.known.len() <= 129, "{}", names.known.len());
        assert!(Arc::ptr_eq(&first.0, &names.intern("team-a").0));
    }
}
