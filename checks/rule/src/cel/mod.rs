//! The language of rules: CEL, the Common Expression Language, as used in Kubernetes.
//!
//! The crate `cel` parses the syntax. Its evaluation has no cost limit and no static types, so both
//! are implemented here. A [`Program`] is checked when the rule is created, and an evaluation ends
//! after [`STEPS`].
//!
//! | module | what is in it |
//! | --- | --- |
//! | `compile` | compilation of text to a checked program |
//! | `checker` | the checks of its tree, and its types |
//! | `scope`, `tree` | the names that it may use; its operations |
//! | `evaluate` | evaluation of a program to a value |
//! | `functions`, `operators` | the table of functions; the operators |
//! | `calendar` | days and hours in a time zone |
//! | `run` | the data of an evaluation, and its step limit |
//! | `types`, `value` | types and values |
//!
//! Differences from CEL elsewhere:
//!
//! - There are no unsigned numbers, bytes, messages, and no macros with two variables.
//! - An int and a double can be added, multiplied and compared.
//! - Quantities, durations and times have operators.
//! - `has()` of a field of null is false.
//! - `date` and `time` of a point in time are text.
//!
//! ```
//! use kueue_check_rule::cel::{Nothing, Program, Run, Scope, Type, Value, Variables};
//!
//! let scope = Scope { variables: vec![("pods".to_owned(), Type::Int)], ..Scope::default() };
//! let program = Program::new("pods > 4 ? 'large' : 'small'", &scope)?;
//! assert_eq!(*program.kind(), Type::String);
//! let variables = Variables { values: &[Value::Int(8)], declared: &[] };
//! let value = program.evaluate(variables, &mut Run::new(&Nothing))?;
//! assert_eq!(value.to_string(), r#""large""#);
//!
//! let mistake = Program::new("pod > 4", &scope).unwrap_err();
//! assert_eq!(mistake.to_string(), "line 1, column 1: there is no variable `pod`: did you mean `pods`?");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod calendar;
mod checker;
mod compile;
mod evaluate;
mod functions;
mod operators;
mod run;
mod scope;
mod tree;
mod types;
mod value;

pub(crate) use checker::nearest;
pub use compile::{LONGEST, Program};
pub use evaluate::Variables;
pub use run::{Data, Failure, Run, STEPS};
pub use scope::{Mistake, Scope, SourceKind, Uses};
pub use types::{ObjectType, Type};
pub use value::{Key, Value};

/// A [`Data`] without any data.
#[derive(Clone, Copy, Debug)]
pub struct Nothing;

impl Data for Nothing {
    fn object(&self, _: &str, _: Option<&str>, _: &str) -> Result<Value, String> {
        Ok(Value::Null)
    }

    fn objects(&self, _: &str, _: Option<&str>) -> Result<Vec<Value>, String> {
        Ok(Vec::new())
    }

    fn source(&self, name: &str) -> Result<Value, String> {
        Err(format!("data source `{name}` has not responded yet"))
    }

    fn starting(&self, _: jiff::SignedDuration) -> Result<Vec<Value>, String> {
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests;
