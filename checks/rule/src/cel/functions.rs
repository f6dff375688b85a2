//! The functions of expressions: one table, which the checker and the evaluation use.

use std::cmp::Ordering;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kueue_check::api::Quantity;

use super::calendar::{Part, part};
use super::operators::{add, compare, number, sorted, too_far, too_large, unexpected};
use super::run::{Failure, Run, SizedRegex};
use super::types::Type;
use super::value::{Value, duration_text};

/// The type of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Argument {
    Any,
    Bool,
    Int,
    Number,
    String,
    Duration,
    Timestamp,
    Quantity,
    List,
    Map,
    Optional,
}

/// The type of a function's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Returns {
    Bool,
    Int,
    Double,
    String,
    Strings,
    Duration,
    Timestamp,
    Quantity,
    Dyn,
    /// The type of the first argument.
    First,
    /// The content of the first argument: an element, or the value of an optional one.
    Inner,
    /// An optional value of the first argument's type.
    OptionalOfFirst,
}

type Call = fn(&mut Run<'_>, &[Value]) -> Result<Value, Failure>;

/// A function. Overloads of one name differ in their arguments.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    /// Whether it is called on its first argument: `x.f(y)`.
    pub(crate) member: bool,
    pub(crate) arguments: &'static [Argument],
    /// Whether the last argument is optional.
    pub(crate) last_is_optional: bool,
    /// Whether the last argument may be repeated any number of times.
    pub(crate) last_repeats: bool,
    pub(crate) returns: Returns,
    pub(crate) call: Call,
}

impl Argument {
    /// Returns true if a value of `kind` is valid for this argument.
    pub(crate) fn takes(self, kind: &Type) -> bool {
        match self {
            Self::Any => true,
            _ if *kind == Type::Dyn => true,
            Self::Bool => *kind == Type::Bool,
            Self::Int => *kind == Type::Int,
            Self::Number => matches!(kind, Type::Int | Type::Double),
            Self::String => *kind == Type::String,
            Self::Duration => *kind == Type::Duration,
            Self::Timestamp => *kind == Type::Timestamp,
            Self::Quantity => *kind == Type::Quantity,
            Self::List => matches!(kind, Type::List(_)),
            Self::Map => matches!(kind, Type::Map(_) | Type::Object(_)),
            Self::Optional => matches!(kind, Type::Optional(_)),
        }
    }

    /// Returns true if `value` is valid for this argument.
    fn takes_value(self, value: &Value) -> bool {
        match self {
            Self::Any => true,
            Self::Bool => matches!(value, Value::Bool(_)),
            Self::Int => matches!(value, Value::Int(_)),
            Self::Number => matches!(value, Value::Int(_) | Value::Double(_)),
            Self::String => matches!(value, Value::String(_)),
            Self::Duration => matches!(value, Value::Duration(_)),
            Self::Timestamp => matches!(value, Value::Timestamp(_)),
            Self::Quantity => matches!(value, Value::Quantity(_)),
            Self::List => matches!(value, Value::List(_)),
            Self::Map => matches!(value, Value::Map(_)),
            Self::Optional => matches!(value, Value::Optional(_)),
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Number => "number",
            Self::String => "string",
            Self::Duration => "duration",
            Self::Timestamp => "timestamp",
            Self::Quantity => "quantity",
            Self::List => "list",
            Self::Map => "map",
            Self::Optional => "optional",
        }
    }
}

impl Function {
    /// Returns true if the function accepts values of these types.
    pub(crate) fn takes(&self, kinds: &[Type]) -> bool {
        let fewest = self.arguments.len() - usize::from(self.last_is_optional);
        let most = if self.last_repeats {
            usize::MAX
        } else {
            self.arguments.len()
        };
        (fewest..=most).contains(&kinds.len())
            && self
                .each_argument()
                .zip(kinds)
                .all(|(argument, kind)| argument.takes(kind))
    }

    /// Returns the arguments; the last is repeated if it may be.
    fn each_argument(&self) -> impl Iterator<Item = Argument> {
        let last = self.arguments.last().filter(|_| self.last_repeats);
        let more = last.into_iter().cycle();
        self.arguments.iter().chain(more).copied()
    }

    /// Returns true if the function accepts these values.
    pub(crate) fn takes_values(&self, values: &[Value]) -> bool {
        self.each_argument()
            .zip(values)
            .all(|(argument, value)| argument.takes_value(value))
    }

    /// Returns the type of its result.
    pub(crate) fn returns(&self, kinds: &[Type]) -> Type {
        let first = kinds.first().unwrap_or(&Type::Dyn);
        match self.returns {
            Returns::Bool => Type::Bool,
            Returns::Int => Type::Int,
            Returns::Double => Type::Double,
            Returns::String => Type::String,
            Returns::Strings => Type::list(Type::String),
            Returns::Duration => Type::Duration,
            Returns::Timestamp => Type::Timestamp,
            Returns::Quantity => Type::Quantity,
            Returns::Dyn => Type::Dyn,
            Returns::First => first.clone(),
            Returns::Inner => match first {
                Type::List(inner) | Type::Optional(inner) => (**inner).clone(),
                _ => Type::Dyn,
            },
            Returns::OptionalOfFirst => Type::Optional(Arc::new(first.clone())),
        }
    }

    /// Returns its signature: `string.split(string)`.
    pub(crate) fn signature(&self) -> String {
        let mut names: Vec<&str> = self.arguments.iter().map(|a| a.as_str()).collect();
        if self.last_repeats {
            names.push("…");
        }
        match (self.member, names.split_first()) {
            (true, Some((target, rest))) => format!("{target}.{}({})", self.name, rest.join(", ")),
            _ => format!("{}({})", self.name, names.join(", ")),
        }
    }
}

/// Returns the functions with the name `name`, as members or not.
pub(crate) fn named(name: &str, member: bool) -> impl Iterator<Item = &'static Function> {
    FUNCTIONS
        .iter()
        .filter(move |function| function.name == name && function.member == member)
}

/// Returns the names of all functions.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|function| function.name)
}

const fn global(
    name: &'static str,
    arguments: &'static [Argument],
    returns: Returns,
    call: Call,
) -> Function {
    Function {
        name,
        member: false,
        arguments,
        last_is_optional: false,
        last_repeats: false,
        returns,
        call,
    }
}

const fn member(
    name: &'static str,
    arguments: &'static [Argument],
    returns: Returns,
    call: Call,
) -> Function {
    Function {
        name,
        member: true,
        arguments,
        last_is_optional: false,
        last_repeats: false,
        returns,
        call,
    }
}

/// Returns the function with an optional last argument.
const fn with_optional(function: Function) -> Function {
    Function {
        last_is_optional: true,
        ..function
    }
}

/// Returns the function with a last argument that may be repeated.
const fn repeated(function: Function) -> Function {
    Function {
        last_repeats: true,
        ..function
    }
}

/// Returns a function for a part of a point in time, in the time zone of an optional argument.
const fn of_time(name: &'static str, returns: Returns, call: Call) -> Function {
    with_optional(member(name, &[A::Timestamp, A::String], returns, call))
}

use Argument as A;
use Returns as R;

static FUNCTIONS: &[Function] = &[
    // Conversions.
    global("dyn", &[A::Any], R::Dyn, |_, a| Ok(a[0].clone())),
    global("type", &[A::Any], R::String, |_, a| {
        Ok(Value::text(a[0].kind().to_string()))
    }),
    global("bool", &[A::Bool], R::Bool, |_, a| Ok(a[0].clone())),
    global("bool", &[A::String], R::Bool, |_, a| {
        match &**text(&a[0])? {
            "true" | "True" | "TRUE" | "t" | "1" => Ok(Value::Bool(true)),
            "false" | "False" | "FALSE" | "f" | "0" => Ok(Value::Bool(false)),
            other => Err(refused(other, "neither `true` nor `false`")),
        }
    }),
    global("int", &[A::Number], R::Int, |_, a| int(&a[0])),
    global("int", &[A::String], R::Int, |_, a| {
        let text = text(&a[0])?;
        let whole = text.parse().map_err(|_| refused(text, "no whole number"))?;
        Ok(Value::Int(whole))
    }),
    global("int", &[A::Timestamp], R::Int, |_, a| {
        Ok(Value::Int(time(&a[0])?.as_second()))
    }),
    global("double", &[A::Number], R::Double, |_, a| {
        Ok(Value::Double(number(&a[0])?))
    }),
    global("double", &[A::String], R::Double, |_, a| {
        let text = text(&a[0])?;
        let number = text.parse().map_err(|_| refused(text, "no number"))?;
        Ok(Value::Double(number))
    }),
    global("double", &[A::Quantity], R::Double, |_, a| {
        Ok(Value::Double(quantity(&a[0])?.as_f64()))
    }),
    global("string", &[A::Bool], R::String, shown),
    global("string", &[A::Number], R::String, shown),
    global("string", &[A::String], R::String, shown),
    global("string", &[A::Duration], R::String, shown),
    global("string", &[A::Timestamp], R::String, shown),
    global("string", &[A::Quantity], R::String, shown),
    global("duration", &[A::Duration], R::Duration, |_, a| {
        Ok(a[0].clone())
    }),
    global("duration", &[A::String], R::Duration, |_, a| {
        let text = text(&a[0])?;
        let length = text.parse::<SignedDuration>();
        let length =
            length.map_err(|_| refused(text, "no duration: expected one such as `1h30m`"))?;
        Ok(Value::Duration(length))
    }),
    global("timestamp", &[A::Timestamp], R::Timestamp, |_, a| {
        Ok(a[0].clone())
    }),
    global("timestamp", &[A::String], R::Timestamp, |_, a| {
        let text = text(&a[0])?;
        let time = text.parse().map_err(|_| {
            refused(
                text,
                "no point in time: expected one such as `2026-11-23T20:00:00Z`",
            )
        })?;
        Ok(Value::Timestamp(time))
    }),
    global("timestamp", &[A::Int], R::Timestamp, |_, a| {
        let Value::Int(seconds) = a[0] else {
            return Err(unexpected());
        };
        let time = Timestamp::from_second(seconds).map_err(|_| too_far())?;
        Ok(Value::Timestamp(time))
    }),
    global("quantity", &[A::Quantity], R::Quantity, |_, a| {
        Ok(a[0].clone())
    }),
    global("quantity", &[A::String], R::Quantity, |_, a| {
        let quantity = text(&a[0])?.parse::<Quantity>();
        let quantity = quantity.map_err(|error| Failure::new(error.to_string()))?;
        Ok(Value::Quantity(quantity))
    }),
    global("quantity", &[A::Int], R::Quantity, |_, a| {
        let Value::Int(units) = a[0] else {
            return Err(unexpected());
        };
        Ok(Value::Quantity(Quantity::from_units(units)))
    }),
    global("isQuantity", &[A::String], R::Bool, |_, a| {
        Ok(Value::Bool(text(&a[0])?.parse::<Quantity>().is_ok()))
    }),
    // Sizes.
    global("size", &[A::String], R::Int, size),
    global("size", &[A::List], R::Int, size),
    global("size", &[A::Map], R::Int, size),
    member("size", &[A::String], R::Int, size),
    member("size", &[A::List], R::Int, size),
    member("size", &[A::Map], R::Int, size),
    // Text.
    member("contains", &[A::String, A::String], R::Bool, |run, a| {
        let (text, part) = (text(&a[0])?, text(&a[1])?);
        run.spend_text(text.len())?;
        Ok(Value::Bool(text.contains(&**part)))
    }),
    member("startsWith", &[A::String, A::String], R::Bool, |run, a| {
        let part = text(&a[1])?;
        run.spend_text(part.len())?;
        Ok(Value::Bool(text(&a[0])?.starts_with(&**part)))
    }),
    member("endsWith", &[A::String, A::String], R::Bool, |run, a| {
        let part = text(&a[1])?;
        run.spend_text(part.len())?;
        Ok(Value::Bool(text(&a[0])?.ends_with(&**part)))
    }),
    member("matches", &[A::String, A::String], R::Bool, matches),
    global("matches", &[A::String, A::String], R::Bool, matches),
    member("find", &[A::String, A::String], R::String, |run, a| {
        let text = text(&a[0])?;
        let SizedRegex { regex, .. } = search(run, text, &a[1])?;
        let found = regex.find(text).map_or("", |found| found.as_str());
        Ok(Value::text(found))
    }),
    member("findAll", &[A::String, A::String], R::Strings, |run, a| {
        let text = text(&a[0])?;
        let SizedRegex { regex, size } = search(run, text, &a[1])?;
        let mut all = Vec::new();
        for found in regex.find_iter(text) {
            run.spend_text(found.len())?;
            // Each match may have been found after a search up to the end of the text.
            let rest = text.len() - found.start();
            run.spend(rest.saturating_mul(size) / 64)?;
            all.push(Value::text(found.as_str()));
        }
        Ok(Value::list(all))
    }),
    member("lowerAscii", &[A::String], R::String, |run, a| {
        let text = text(&a[0])?;
        run.spend_text(text.len())?;
        Ok(Value::text(text.to_ascii_lowercase()))
    }),
    member("upperAscii", &[A::String], R::String, |run, a| {
        let text = text(&a[0])?;
        run.spend_text(text.len())?;
        Ok(Value::text(text.to_ascii_uppercase()))
    }),
    member("trim", &[A::String], R::String, |run, a| {
        let text = text(&a[0])?;
        run.spend_text(text.len())?;
        Ok(Value::text(text.trim()))
    }),
    member("charAt", &[A::String, A::Int], R::String, |run, a| {
        let text = text(&a[0])?;
        run.spend_text(text.len())?;
        let length = text.chars().count();
        let at = position(&a[1], length)?;
        let found = text.chars().nth(at);
        Ok(Value::text(found.map(String::from).unwrap_or_default()))
    }),
    with_optional(member(
        "substring",
        &[A::String, A::Int, A::Int],
        R::String,
        substring,
    )),
    member("indexOf", &[A::String, A::String], R::Int, |run, a| {
        let (text, part) = (text(&a[0])?, text(&a[1])?);
        run.spend_text(text.len())?;
        Ok(place(text, text.find(&**part)))
    }),
    member("lastIndexOf", &[A::String, A::String], R::Int, |run, a| {
        let (text, part) = (text(&a[0])?, text(&a[1])?);
        run.spend_text(text.len())?;
        Ok(place(text, text.rfind(&**part)))
    }),
    member(
        "replace",
        &[A::String, A::String, A::String],
        R::String,
        |run, a| {
            let (text, from, to) = (text(&a[0])?, text(&a[1])?, text(&a[2])?);
            run.spend_text(text.len())?;
            let count = text.matches(&**from).count();
            run.spend_text(text.len() + count.saturating_mul(to.len()))?;
            Ok(Value::text(text.replace(&**from, to)))
        },
    ),
    member("split", &[A::String, A::String], R::Strings, |run, a| {
        let (text, separator) = (text(&a[0])?, text(&a[1])?);
        run.spend_text(text.len())?;
        if separator.is_empty() {
            run.spend(text.len())?;
            return Ok(Value::list(
                text.chars().map(|c| Value::text(String::from(c))),
            ));
        }
        run.spend(text.matches(&**separator).count())?;
        Ok(Value::list(text.split(&**separator).map(Value::text)))
    }),
    with_optional(member("join", &[A::List, A::String], R::String, join)),
    member("format", &[A::String, A::List], R::String, format),
    // Lists.
    member("sum", &[A::List], R::Inner, |run, a| {
        let all = list(&a[0])?;
        run.spend(all.len())?;
        // The checker adds the zero of the list's type: an empty list has no value of it.
        let zero = || a.get(1).cloned().unwrap_or(Value::Int(0));
        let mut sum = all.first().cloned().unwrap_or_else(zero);
        for value in all.iter().skip(1) {
            sum = add(run, &sum, value)?;
        }
        Ok(sum)
    }),
    member("min", &[A::List], R::Inner, |run, a| {
        extreme(run, &a[0], Ordering::Less)
    }),
    member("max", &[A::List], R::Inner, |run, a| {
        extreme(run, &a[0], Ordering::Greater)
    }),
    member("isSorted", &[A::List], R::Bool, |run, a| {
        let all = list(&a[0])?;
        run.spend(all.len())?;
        let mut sorted = true;
        for pair in all.windows(2) {
            sorted &= compare(run, &pair[0], &pair[1])? != Ordering::Greater;
        }
        Ok(Value::Bool(sorted))
    }),
    member("sort", &[A::List], R::First, |run, a| {
        let all = list(&a[0])?;
        let order = sorted(run, all)?;
        Ok(Value::list(order.into_iter().map(|at| all[at].clone())))
    }),
    member("reverse", &[A::List], R::First, |run, a| {
        let all = list(&a[0])?;
        run.spend(all.len())?;
        Ok(Value::list(all.iter().rev().cloned()))
    }),
    member("slice", &[A::List, A::Int, A::Int], R::First, |run, a| {
        let all = list(&a[0])?;
        let (from, to) = (index(&a[1])?, index(&a[2])?);
        let part = from.zip(to).and_then(|(from, to)| all.get(from..to));
        let part = part.ok_or_else(|| {
            let size = all.len();
            Failure::new(format!("slice({}, {}) of {size} elements", a[1], a[2]))
        })?;
        run.spend(part.len())?;
        Ok(Value::list(part.iter().cloned()))
    }),
    member("distinct", &[A::List], R::First, |run, a| {
        let mut distinct: Vec<Value> = Vec::new();
        for value in list(&a[0])?.iter() {
            let mut is_new = true;
            for known in &distinct {
                run.spend(1)?;
                is_new &= !run.equal(known, value)?;
            }
            if is_new {
                distinct.push(value.clone());
            }
        }
        Ok(Value::list(distinct))
    }),
    member("indexOf", &[A::List, A::Any], R::Int, |run, a| {
        for (index, value) in list(&a[0])?.iter().enumerate() {
            if run.equal(value, &a[1])? {
                return Ok(whole(index));
            }
        }
        Ok(Value::Int(-1))
    }),
    member("lastIndexOf", &[A::List, A::Any], R::Int, |run, a| {
        for (index, value) in list(&a[0])?.iter().enumerate().rev() {
            if run.equal(value, &a[1])? {
                return Ok(whole(index));
            }
        }
        Ok(Value::Int(-1))
    }),
    // Numbers.
    global("math.abs", &[A::Number], R::First, |_, a| match a[0] {
        Value::Int(whole) => whole.checked_abs().map(Value::Int).ok_or_else(too_large),
        _ => Ok(Value::Double(number(&a[0])?.abs())),
    }),
    global("math.ceil", &[A::Number], R::Double, |_, a| {
        Ok(Value::Double(number(&a[0])?.ceil()))
    }),
    global("math.floor", &[A::Number], R::Double, |_, a| {
        Ok(Value::Double(number(&a[0])?.floor()))
    }),
    global("math.round", &[A::Number], R::Double, |_, a| {
        Ok(Value::Double(number(&a[0])?.round()))
    }),
    global("math.least", &[A::List], R::Inner, |run, a| {
        extreme(run, &a[0], Ordering::Less)
    }),
    repeated(global("math.least", &[A::Number], R::Dyn, |run, a| {
        extreme(run, &Value::list(a.iter().cloned()), Ordering::Less)
    })),
    global("math.greatest", &[A::List], R::Inner, |run, a| {
        extreme(run, &a[0], Ordering::Greater)
    }),
    repeated(global("math.greatest", &[A::Number], R::Dyn, |run, a| {
        extreme(run, &Value::list(a.iter().cloned()), Ordering::Greater)
    })),
    // Quantities, as in Kubernetes; operators work as well.
    member("add", &[A::Quantity, A::Quantity], R::Quantity, |run, a| {
        add(run, &a[0], &a[1])
    }),
    member(
        "compareTo",
        &[A::Quantity, A::Quantity],
        R::Int,
        |run, a| {
            Ok(Value::Int(match compare(run, &a[0], &a[1])? {
                Ordering::Less => -1,
                Ordering::Equal => 0,
                Ordering::Greater => 1,
            }))
        },
    ),
    member(
        "isGreaterThan",
        &[A::Quantity, A::Quantity],
        R::Bool,
        |run, a| {
            Ok(Value::Bool(
                compare(run, &a[0], &a[1])? == Ordering::Greater,
            ))
        },
    ),
    member(
        "isLessThan",
        &[A::Quantity, A::Quantity],
        R::Bool,
        |run, a| Ok(Value::Bool(compare(run, &a[0], &a[1])? == Ordering::Less)),
    ),
    member("asInteger", &[A::Quantity], R::Int, |_, a| {
        let amount = quantity(&a[0])?;
        if Quantity::from_units(amount.units()) == amount {
            Ok(Value::Int(amount.units()))
        } else {
            Err(refused(&amount.to_string(), "no whole number"))
        }
    }),
    member("asApproximateFloat", &[A::Quantity], R::Double, |_, a| {
        Ok(Value::Double(quantity(&a[0])?.as_f64()))
    }),
    // Times.
    of_time("getFullYear", R::Int, |_, a| part(Part::Year, a)),
    of_time("getMonth", R::Int, |_, a| part(Part::Month, a)),
    of_time("getDate", R::Int, |_, a| part(Part::Date, a)),
    of_time("getDayOfMonth", R::Int, |_, a| part(Part::DayOfMonth, a)),
    of_time("getDayOfWeek", R::Int, |_, a| part(Part::DayOfWeek, a)),
    of_time("getDayOfYear", R::Int, |_, a| part(Part::DayOfYear, a)),
    of_time("getHours", R::Int, |_, a| part(Part::Hours, a)),
    of_time("getMinutes", R::Int, |_, a| part(Part::Minutes, a)),
    of_time("getSeconds", R::Int, |_, a| part(Part::Seconds, a)),
    of_time("getMilliseconds", R::Int, |_, a| {
        part(Part::Milliseconds, a)
    }),
    of_time("date", R::String, |_, a| part(Part::IsoDate, a)),
    of_time("time", R::String, |_, a| part(Part::IsoTime, a)),
    member("getHours", &[A::Duration], R::Int, |_, a| {
        Ok(Value::Int(length(&a[0])?.as_hours()))
    }),
    member("getMinutes", &[A::Duration], R::Int, |_, a| {
        Ok(Value::Int(length(&a[0])?.as_mins()))
    }),
    member("getSeconds", &[A::Duration], R::Int, |_, a| {
        Ok(Value::Int(length(&a[0])?.as_secs()))
    }),
    member("getMilliseconds", &[A::Duration], R::Int, |_, a| {
        Ok(Value::Int(i64::from(length(&a[0])?.subsec_millis())))
    }),
    // Optional values.
    global("optional.of", &[A::Any], R::OptionalOfFirst, |_, a| {
        Ok(Value::Optional(Some(Arc::new(a[0].clone()))))
    }),
    global("optional.none", &[], R::Dyn, |_, _| {
        Ok(Value::Optional(None))
    }),
    member("hasValue", &[A::Optional], R::Bool, |_, a| {
        Ok(Value::Bool(optional(&a[0])?.is_some()))
    }),
    member("value", &[A::Optional], R::Inner, |_, a| {
        let absent = || Failure::new("the value is absent");
        optional(&a[0])?.cloned().ok_or_else(absent)
    }),
    member("orValue", &[A::Optional, A::Any], R::Inner, |_, a| {
        Ok(optional(&a[0])?.unwrap_or(&a[1]).clone())
    }),
    member("or", &[A::Optional, A::Optional], R::First, |_, a| {
        let first = optional(&a[0])?.is_some();
        Ok(a[usize::from(!first)].clone())
    }),
];

fn refused(value: &str, what: &str) -> Failure {
    let shown: String = value.chars().take(50).collect();
    Failure::new(format!("`{shown}` is {what}"))
}

fn text(value: &Value) -> Result<&Arc<str>, Failure> {
    match value {
        Value::String(text) => Ok(text),
        _ => Err(unexpected()),
    }
}

fn list(value: &Value) -> Result<&Arc<[Value]>, Failure> {
    match value {
        Value::List(list) => Ok(list),
        _ => Err(unexpected()),
    }
}

fn time(value: &Value) -> Result<Timestamp, Failure> {
    match value {
        Value::Timestamp(time) => Ok(*time),
        _ => Err(unexpected()),
    }
}

fn length(value: &Value) -> Result<SignedDuration, Failure> {
    match value {
        Value::Duration(length) => Ok(*length),
        _ => Err(unexpected()),
    }
}

fn quantity(value: &Value) -> Result<Quantity, Failure> {
    match value {
        Value::Quantity(quantity) => Ok(*quantity),
        _ => Err(unexpected()),
    }
}

fn optional(value: &Value) -> Result<Option<&Value>, Failure> {
    match value {
        Value::Optional(value) => Ok(value.as_deref()),
        _ => Err(unexpected()),
    }
}

fn whole(number: usize) -> Value {
    Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "the limits of whole numbers are compared first"
)]
fn int(value: &Value) -> Result<Value, Failure> {
    match value {
        Value::Double(number) if *number > i64::MIN as f64 && *number < i64::MAX as f64 => {
            Ok(Value::Int(number.trunc() as i64))
        }
        Value::Double(_) => Err(too_large()),
        other => Ok(other.clone()),
    }
}

/// Returns the value as text.
fn shown(run: &mut Run<'_>, arguments: &[Value]) -> Result<Value, Failure> {
    Ok(Value::text(plain(run, &arguments[0])?))
}

/// Returns the text of a value that is no list, map or optional one.
fn plain(run: &mut Run<'_>, value: &Value) -> Result<String, Failure> {
    let text = match value {
        Value::String(text) => text.to_string(),
        Value::Duration(length) => duration_text(*length),
        Value::Timestamp(time) => time.to_string(),
        Value::Quantity(quantity) => quantity.to_string(),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Double(_) => value.to_string(),
        other => {
            return Err(Failure::new(format!("{} is no text", other.kind().one())));
        }
    };
    run.spend_text(text.len())?;
    Ok(text)
}

fn size(run: &mut Run<'_>, arguments: &[Value]) -> Result<Value, Failure> {
    Ok(whole(match &arguments[0] {
        Value::String(text) => {
            run.spend_text(text.len())?;
            text.chars().count()
        }
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        _ => return Err(unexpected()),
    }))
}

fn matches(run: &mut Run<'_>, arguments: &[Value]) -> Result<Value, Failure> {
    let text = text(&arguments[0])?;
    Ok(Value::Bool(
        search(run, text, &arguments[1])?.regex.is_match(text),
    ))
}

/// Returns the regular expression `pattern` for a search in `text`.
fn search(run: &mut Run<'_>, text: &str, pattern: &Value) -> Result<SizedRegex, Failure> {
    let Value::String(pattern) = pattern else {
        return Err(unexpected());
    };
    // The cost is linear in the text, and in the size of the compiled expression.
    let sized = run.regex(pattern)?;
    run.spend_text(text.len().saturating_mul(sized.size))?;
    Ok(sized)
}

/// Returns `index` as a position in text of `length` characters.
fn position(index: &Value, length: usize) -> Result<usize, Failure> {
    let Value::Int(index) = index else {
        return Err(unexpected());
    };
    let position = usize::try_from(*index).ok();
    position
        .filter(|position| *position <= length)
        .ok_or_else(|| {
            Failure::new(format!(
                "position {index} is not in a text of {length} characters"
            ))
        })
}

fn substring(run: &mut Run<'_>, arguments: &[Value]) -> Result<Value, Failure> {
    let text = text(&arguments[0])?;
    run.spend_text(text.len())?;
    let length = text.chars().count();
    let begin = position(&arguments[1], length)?;
    let end = arguments
        .get(2)
        .map_or(Ok(length), |end| position(end, length))?;
    if begin > end {
        return Err(Failure::new(format!("position {begin} is after {end}")));
    }
    let part: String = text.chars().skip(begin).take(end - begin).collect();
    Ok(Value::text(part))
}

/// Returns the number of characters before the byte `at`, or -1.
fn place(text: &str, at: Option<usize>) -> Value {
    at.map_or(Value::Int(-1), |at| whole(text[..at].chars().count()))
}

fn join(run: &mut Run<'_>, arguments: &[Value]) -> Result<Value, Failure> {
    let all = list(&arguments[0])?;
    let separator = match arguments.get(1) {
        Some(separator) => Arc::clone(text(separator)?),
        None => "".into(),
    };
    let mut joined = String::new();
    for (number, value) in all.iter().enumerate() {
        let Value::String(value) = value else {
            return Err(Failure::new(format!(
                "join() needs a list of strings, and element {number} is {}",
                value.kind().one()
            )));
        };
        run.spend_text(value.len() + separator.len())?;
        if number > 0 {
            joined.push_str(&separator);
        }
        joined.push_str(value);
    }
    Ok(Value::text(joined))
}

/// Formats `%s`, `%d`, `%f` (with digits: `%.2f`) and `%%`.
fn format(run: &mut Run<'_>, arguments: &[Value]) -> Result<Value, Failure> {
    let (template, values) = (text(&arguments[0])?, list(&arguments[1])?);
    run.spend_text(template.len())?;
    let mut values = values.iter();
    let mut next = || {
        values
            .next()
            .ok_or_else(|| Failure::new("format() has more places than values"))
    };
    let mut out = String::new();
    let mut chars = template.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut digits = 6;
        let mut verb = chars.next();
        if verb == Some('.') {
            let rest = chars.as_str();
            let end = rest
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(rest.len());
            digits = rest[..end]
                .parse()
                .ok()
                .filter(|digits| *digits <= 20)
                .ok_or_else(|| Failure::new("format() takes from 0 to 20 digits"))?;
            chars = rest[end..].chars();
            verb = chars.next();
        }
        match verb {
            Some('%') => out.push('%'),
            Some('s') => out.push_str(&plain(run, next()?)?),
            Some('d') => match next()? {
                Value::Int(whole) => out.push_str(&whole.to_string()),
                other => {
                    return Err(Failure::new(format!(
                        "%d needs an int, not {}",
                        other.kind().one()
                    )));
                }
            },
            Some('f') => {
                // A double may have 300 digits.
                let text = format!("{:.digits$}", number(next()?)?);
                run.spend_text(text.len())?;
                out.push_str(&text);
            }
            other => {
                let shown = other.map(String::from).unwrap_or_default();
                return Err(Failure::new(format!(
                    "format() does not support `%{shown}`: expected %s, %d, %f or %%"
                )));
            }
        }
    }
    if values.next().is_some() {
        return Err(Failure::new("format() has more values than places"));
    }
    Ok(Value::text(out))
}

/// Returns the least or the greatest element.
fn extreme(run: &mut Run<'_>, all: &Value, wanted: Ordering) -> Result<Value, Failure> {
    let all = list(all)?;
    run.spend(all.len())?;
    let (first, rest) = all
        .split_first()
        .ok_or_else(|| Failure::new("the list is empty"))?;
    let mut best = first;
    for value in rest {
        if compare(run, value, best)? == wanted {
            best = value;
        }
    }
    Ok(best.clone())
}

fn index(value: &Value) -> Result<Option<usize>, Failure> {
    match value {
        Value::Int(whole) => Ok(usize::try_from(*whole).ok()),
        _ => Err(unexpected()),
    }
}
