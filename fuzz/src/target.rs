//! The type of a fuzz target.

/// A hash of the values that were read from an input.
pub type Outcome = u64;

/// The structure that mutations keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Bytes without structure.
    Bytes,
    /// A JSON tree, for most mutations.
    Json,
    /// Several parts, each of which may have a head and a JSON tree.
    Parts,
}

/// The memory limit of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// The part for any input, in bytes.
    pub base: usize,
    /// The part for each byte of the input.
    pub for_each_byte: usize,
}

impl MemoryLimit {
    /// Returns the limit for an input of `length` bytes.
    pub fn of(self, length: usize) -> usize {
        self.base + self.for_each_byte * length
    }
}

/// Words of a dictionary.
#[derive(Clone, Copy, Debug)]
pub enum DictionaryWords {
    /// The words of a text, which whitespace separates.
    Of(&'static str),
    /// One word, which may have whitespace.
    One(&'static str),
}

/// A fuzz target: code that reads foreign bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its folder in the corpus.
    pub name: &'static str,
    /// A description of the input.
    pub about: &'static str,
    /// The structure that mutations keep.
    pub form: Form,
    /// Words that the reader recognizes.
    pub dictionary: &'static [DictionaryWords],
    /// The memory limit of an execution.
    pub memory: MemoryLimit,
    /// Reads an input, and panics if a property does not hold.
    pub run: fn(&[u8]) -> Outcome,
}

impl Target {
    /// Returns the words of the dictionary.
    pub fn words(&self) -> Vec<&'static str> {
        let words = self.dictionary.iter().flat_map(|words| match words {
            DictionaryWords::Of(text) => text.split_whitespace().collect(),
            DictionaryWords::One(word) => vec![*word],
        });
        words.collect()
    }
}
