//! One evaluation: its data and its step limit.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use jiff::SignedDuration;
use regex::Regex;

use super::value::Value;

/// The maximum number of steps of all expressions of one evaluation. A step is an operation, an
/// element of a list that is read, or 16 bytes of text. The API server has the same limit for one
/// expression of an admission policy.
pub const STEPS: u64 = 1_000_000;
/// The maximum size of a compiled regular expression, in KiB: a power of two.
const LARGEST_REGEX: usize = 256;
/// The maximum number of bytes of a regular expression that is computed.
const LONGEST_PATTERN: usize = 8192;
/// The steps for a regular expression that is computed.
const REGEX_STEPS: usize = 10_000;
/// The least number of steps of compiling a character of a regular expression: a class of Unicode
/// (`\w`) has hundreds of ranges.
const PATTERN_STEPS: usize = 64;
/// The number of bytes of text in a step.
const BYTES: usize = 16;

/// The data that expressions can read besides their variables.
pub trait Data {
    /// Returns the object of `resource` with this name; without a namespace if it is
    /// cluster-scoped. Null if it does not exist.
    ///
    /// # Errors
    /// If the objects are not listed yet.
    fn object(&self, resource: &str, namespace: Option<&str>, name: &str) -> Result<Value, String>;

    /// Returns all objects of `resource`, or those of one namespace.
    ///
    /// # Errors
    /// If they are not listed yet.
    fn objects(&self, resource: &str, namespace: Option<&str>) -> Result<Vec<Value>, String>;

    /// Returns the last value of the data source `name`.
    ///
    /// # Errors
    /// If there is no value, or it is too old.
    fn source(&self, name: &str) -> Result<Value, String>;

    /// Returns the other Workloads for which the rule returned Ready, without those admitted longer
    /// ago than `within`.
    ///
    /// # Errors
    /// If they are not available.
    fn starting(&self, within: SignedDuration) -> Result<Vec<Value>, String>;
}

/// The reason why there is no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The description of the error.
    pub message: String,
    /// The position in the expression, as the number of bytes before it.
    pub at: Option<u32>,
    /// Whether no surrounding expression can have a value: the step limit is reached.
    pub(crate) is_final: bool,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            at: None,
            is_final: false,
        }
    }

    pub(crate) fn at(mut self, at: u32) -> Self {
        self.at = self.at.or(Some(at));
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// The state of one evaluation.
pub struct Run<'r> {
    pub(crate) data: &'r dyn Data,
    left: u64,
    regexes: HashMap<Arc<str>, SizedRegex>,
}

impl<'r> Run<'r> {
    /// Creates an evaluation that reads `data`, and may take [`STEPS`].
    pub fn new(data: &'r dyn Data) -> Self {
        Self {
            data,
            left: STEPS,
            regexes: HashMap::new(),
        }
    }

    /// Returns the number of steps taken.
    pub fn steps(&self) -> u64 {
        STEPS - self.left
    }

    /// Counts `steps`.
    pub(crate) fn spend(&mut self, steps: usize) -> Result<(), Failure> {
        let steps = u64::try_from(steps).unwrap_or(u64::MAX);
        let left = self.left.checked_sub(steps);
        self.left = left.unwrap_or_default();
        left.map(drop).ok_or_else(|| Failure {
            message: format!("the evaluation takes more than {STEPS} steps"),
            at: None,
            is_final: true,
        })
    }

    /// Counts the steps of reading or writing `bytes` bytes of text.
    pub(crate) fn spend_text(&mut self, bytes: usize) -> Result<(), Failure> {
        self.spend(1 + bytes / BYTES)
    }

    /// Returns the regular expression `pattern`.
    pub(crate) fn regex(&mut self, pattern: &Arc<str>) -> Result<SizedRegex, Failure> {
        self.spend_text(pattern.len())?;
        if let Some(regex) = self.regexes.get(pattern) {
            return Ok(regex.clone());
        }
        let length = pattern.len().min(LONGEST_PATTERN);
        self.spend(REGEX_STEPS.max(length * PATTERN_STEPS))?;
        let regex = SizedRegex::new(pattern).map_err(Failure::new)?;
        self.regexes.insert(Arc::clone(pattern), regex.clone());
        Ok(regex)
    }

    /// Adds the compiled regular expressions of a program.
    pub(crate) fn add_regexes(&mut self, regexes: &HashMap<Arc<str>, SizedRegex>) {
        for (pattern, regex) in regexes {
            if !self.regexes.contains_key(pattern) {
                self.regexes.insert(Arc::clone(pattern), regex.clone());
            }
        }
    }

    /// Returns true if the two are equal. Numbers are compared by value, whatever their type is.
    pub(crate) fn equal(&mut self, one: &Value, other: &Value) -> Result<bool, Failure> {
        self.spend(1)?;
        Ok(match (one, other) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(one), Value::Bool(other)) => one == other,
            (Value::Int(_) | Value::Double(_), Value::Int(_) | Value::Double(_)) => {
                order(one, other) == Some(Ordering::Equal)
            }
            (Value::String(one), Value::String(other)) => {
                self.spend_text(one.len().min(other.len()))?;
                one == other
            }
            (Value::Duration(one), Value::Duration(other)) => one == other,
            (Value::Timestamp(one), Value::Timestamp(other)) => one == other,
            (Value::Quantity(one), Value::Quantity(other)) => one == other,
            (Value::List(one), Value::List(other)) => {
                if one.len() != other.len() {
                    return Ok(false);
                }
                for (one, other) in one.iter().zip(other.iter()) {
                    if !self.equal(one, other)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Value::Map(one), Value::Map(other)) => {
                if one.len() != other.len() {
                    return Ok(false);
                }
                for ((key, one), (other_key, other)) in one.iter().zip(other.iter()) {
                    if key != other_key || !self.equal(one, other)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Value::Optional(one), Value::Optional(other)) => match (one, other) {
                (Some(one), Some(other)) => self.equal(one, other)?,
                (one, other) => one.is_none() && other.is_none(),
            },
            _ => false,
        })
    }
}

/// Returns the order of two values, if they have one.
pub(crate) fn order(one: &Value, other: &Value) -> Option<Ordering> {
    match (one, other) {
        (Value::Bool(one), Value::Bool(other)) => Some(one.cmp(other)),
        (Value::Int(one), Value::Int(other)) => Some(one.cmp(other)),
        (Value::Double(one), Value::Double(other)) => one.partial_cmp(other),
        (Value::Int(one), Value::Double(other)) => compare(*one, *other),
        (Value::Double(one), Value::Int(other)) => compare(*other, *one).map(Ordering::reverse),
        (Value::String(one), Value::String(other)) => Some(one.cmp(other)),
        (Value::Duration(one), Value::Duration(other)) => Some(one.cmp(other)),
        (Value::Timestamp(one), Value::Timestamp(other)) => Some(one.cmp(other)),
        (Value::Quantity(one), Value::Quantity(other)) => Some(one.cmp(other)),
        _ => None,
    }
}

/// Returns the order of an integer and a double, without rounding either.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "the limits of whole numbers are compared first"
)]
fn compare(whole: i64, number: f64) -> Option<Ordering> {
    if number.is_nan() {
        return None;
    }
    if number >= i64::MAX as f64 {
        return Some(Ordering::Less);
    }
    if number < i64::MIN as f64 {
        return Some(Ordering::Greater);
    }
    let below = number.floor();
    let rest = if number > below {
        Ordering::Less
    } else {
        Ordering::Equal
    };
    Some(whole.cmp(&(below as i64)).then(rest))
}

/// A compiled regular expression.
#[derive(Clone, Debug)]
pub(crate) struct SizedRegex {
    pub(crate) regex: Regex,
    /// Its size in KiB, rounded up to a power of two. A search costs up to that size for each
    /// character, however short the pattern is (`a{2000}`).
    pub(crate) size: usize,
}

impl SizedRegex {
    /// Compiles the regular expression `pattern`.
    pub(crate) fn new(pattern: &str) -> Result<Self, String> {
        // The parser takes kilobytes of memory for some characters of a pattern.
        if pattern.len() > LONGEST_PATTERN {
            return Err(format!(
                "the regular expression is too large: more than {LONGEST_PATTERN} characters"
            ));
        }
        let of_size = |size: usize| {
            let mut builder = regex::RegexBuilder::new(pattern);
            builder.size_limit(size * 1024).build()
        };
        let mut regex = of_size(LARGEST_REGEX).map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => "the regular expression is too large".to_owned(),
            other => {
                let text = other.to_string();
                let last = text.lines().last().unwrap_or_default();
                format!(
                    "no regular expression: {}",
                    last.trim_start_matches("error: ")
                )
            }
        })?;
        let mut size = LARGEST_REGEX;
        while size > 1
            && let Ok(smaller) = of_size(size / 2)
        {
            (regex, size) = (smaller, size / 2);
        }
        Ok(Self { regex, size })
    }
}
