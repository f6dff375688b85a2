//! The operations of a checked expression.

use std::sync::Arc;

use cel::common::ast::operators;
use jiff::SignedDuration;

use super::functions::Function;
use super::types::Type;
use super::value::Value;

/// An operation, with its position.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) at: u32,
    pub(crate) kind: Kind,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Constant(Value),
    /// A variable of the scope.
    Variable(usize),
    /// `variables.NAME`.
    Declared(usize),
    /// A variable of a comprehension.
    Local(usize),
    Field {
        of: Box<Node>,
        name: Arc<str>,
        how: Access,
    },
    Index {
        of: Box<Node>,
        index: Box<Node>,
        optional: bool,
    },
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    Not(Box<Node>),
    Negate(Box<Node>),
    Choice(Box<[Node; 3]>),
    Binary(Operator, Box<[Node; 2]>),
    List(Vec<(Node, bool)>),
    Map(Vec<(Node, Node, bool)>),
    Each {
        how: Each,
        over: Box<Node>,
        slot: usize,
        /// The filter of `map` with three arguments.
        only: Option<Box<Node>>,
        body: Box<Node>,
    },
    Call {
        candidates: Vec<&'static Function>,
        arguments: Vec<Node>,
    },
    /// `object(RESOURCE, …)`.
    Object {
        resource: String,
        namespace: Option<Box<Node>>,
        name: Box<Node>,
    },
    /// `objects(RESOURCE, …)`.
    Objects {
        resource: String,
        namespace: Option<Box<Node>>,
    },
    Source(String),
    /// `starting(DURATION)`.
    Starting(SignedDuration),
}

/// How a field is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// `a.b`.
    Get,
    /// `has(a.b)`.
    Test,
    /// `a.?b`.
    Optional,
}

/// A macro over a list or the keys of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Each {
    All,
    Exists,
    ExistsOne,
    Map,
    Filter,
    SortBy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Equal,
    NotEqual,
    Less,
    AtMost,
    Greater,
    AtLeast,
    In,
}

impl Operator {
    pub(super) fn of(name: &str) -> Option<Self> {
        Some(match name {
            operators::ADD => Self::Add,
            operators::SUBSTRACT => Self::Subtract,
            operators::MULTIPLY => Self::Multiply,
            operators::DIVIDE => Self::Divide,
            operators::MODULO => Self::Remainder,
            operators::EQUALS => Self::Equal,
            operators::NOT_EQUALS => Self::NotEqual,
            operators::LESS => Self::Less,
            operators::LESS_EQUALS => Self::AtMost,
            operators::GREATER => Self::Greater,
            operators::GREATER_EQUALS => Self::AtLeast,
            operators::IN => Self::In,
            _ => return None,
        })
    }

    pub(crate) fn sign(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::Greater => ">",
            Self::AtLeast => ">=",
            Self::In => "in",
        }
    }

    /// Returns the type of the result, if values of these types have one.
    pub(super) fn result(self, one: &Type, other: &Type) -> Option<Type> {
        use Type as T;
        let number = |kind: &T| matches!(kind, T::Int | T::Double);
        let numbers = number(one) && number(other);
        let of_numbers = || {
            if *one == T::Int && *other == T::Int {
                T::Int
            } else {
                T::Double
            }
        };
        match self {
            Self::Equal | Self::NotEqual => one.comparable(other).then_some(T::Bool),
            Self::In => match other {
                T::List(element) => one.comparable(element).then_some(T::Bool),
                T::Map(_) | T::Object(_) => {
                    matches!(one, T::Dyn | T::String | T::Int | T::Bool).then_some(T::Bool)
                }
                T::Dyn => Some(T::Bool),
                _ => None,
            },
            Self::Less | Self::AtMost | Self::Greater | Self::AtLeast => {
                let ordered = |kind: &T| {
                    matches!(
                        kind,
                        T::Dyn
                            | T::Bool
                            | T::Int
                            | T::Double
                            | T::String
                            | T::Duration
                            | T::Timestamp
                            | T::Quantity
                    )
                };
                let same = one.fits(other) || numbers;
                (ordered(one) && ordered(other) && same).then_some(T::Bool)
            }
            _ if *one == T::Dyn || *other == T::Dyn => Some(T::Dyn),
            Self::Add => match (one, other) {
                _ if numbers => Some(of_numbers()),
                (T::String, T::String) => Some(T::String),
                (T::Quantity, T::Quantity) => Some(T::Quantity),
                (T::Duration, T::Duration) => Some(T::Duration),
                (T::Timestamp, T::Duration) | (T::Duration, T::Timestamp) => Some(T::Timestamp),
                (T::List(one), T::List(other)) => Some(T::list(one.or(other))),
                _ => None,
            },
            Self::Subtract => match (one, other) {
                _ if numbers => Some(of_numbers()),
                (T::Duration, T::Duration) | (T::Timestamp, T::Timestamp) => Some(T::Duration),
                (T::Timestamp, T::Duration) => Some(T::Timestamp),
                _ => None,
            },
            Self::Multiply | Self::Divide => numbers.then(of_numbers),
            Self::Remainder => (*one == T::Int && *other == T::Int).then_some(T::Int),
        }
    }
}
