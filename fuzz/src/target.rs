//! What a target is.

/// What was read from an input, as a number.
pub type Outcome = u64;

/// How inputs are mutated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As bytes.
    Bytes,
    /// As a JSON tree, mostly.
    Json,
    /// As several parts, each of which may have a head and a JSON tree.
    Parts,
}

/// How much memory an execution may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// With any input, in bytes.
    pub base: usize,
    /// And for each byte of the input.
    pub for_each_byte: usize,
}

impl Allowance {
    /// What an input of `length` bytes may take.
    pub fn of(self, length: usize) -> usize {
        self.base + self.for_each_byte * length
    }
}

/// Something that reads foreign bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its folder in the corpus.
    pub name: &'static str,
    /// What it reads.
    pub about: &'static str,
    /// How inputs are mutated.
    pub form: Form,
    /// Words that the reader recognizes.
    pub dictionary: &'static [&'static str],
    /// How much memory it may take.
    pub memory: Allowance,
    /// Reads an input, and panics if a property does not hold.
    pub run: fn(&[u8]) -> Outcome,
}
