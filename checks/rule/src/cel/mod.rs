//! The language of rules: CEL, the Common Expression Language, as Kubernetes uses it.
//!
//! The syntax is read by the crate `cel`. Its evaluation has neither a limit of cost nor types that
//! are known before there are values, so both are done here: a [`Program`] is checked when the rule is
//! made, and an evaluation ends after [`STEPS`].
//!
//! | module | what is in it |
//! | --- | --- |
//! | `compile` | from text to a checked program |
//! | `evaluate` | from a program to a value |
//! | `functions` | the table of functions |
//! | `calendar` | days and hours in a time zone |
//! | `run` | what an evaluation may read, and how much it may take |
//! | `types`, `value` | types and values |
//!
//! What differs from CEL elsewhere: there are no unsigned numbers, bytes, messages, and no macros
//! with two variables; an int and a double can be added, multiplied and compared; quantities,
//! durations and times have operators; `has()` of a field of null is false; `date` and `time` of a
//! point in time are text.
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
mod compile;
mod evaluate;
mod functions;
mod run;
mod types;
mod value;

pub(crate) use compile::nearest;
pub use compile::{LONGEST, Mistake, Program, Scope, SourceKind, Uses};
pub use evaluate::Variables;
pub use run::{Data, Failure, Run, STEPS};
pub use types::{ObjectType, Type};
pub use value::{Key, Value};

/// No data.
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
        Err(format!("data source `{name}` has not answered yet"))
    }

    fn starting(&self, _: jiff::SignedDuration) -> Result<Vec<Value>, String> {
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests;
