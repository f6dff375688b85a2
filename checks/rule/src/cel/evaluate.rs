//! Evaluation of a program to a value.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::compile::Program;
use super::operators::{add, compare, multiply, sorted, subtract, unsupported};
use super::run::{Failure, Run};
use super::tree::{Access, Each, Kind, Node, Operator};
use super::value::{Key, Value};

/// The number of bytes of text up to which reading the arguments of a function is one step.
const LONG_TEXT: usize = 256;

/// The values of the variables of a scope.
#[derive(Clone, Copy, Debug)]
pub struct Variables<'v> {
    /// The values of the scope's variables, in its order.
    pub values: &'v [Value],
    /// The values of `variables.NAME`, in their order. A failure is an error where the variable is
    /// used.
    pub declared: &'v [Result<Value, Failure>],
}

impl Program {
    /// Returns the value of the expression.
    ///
    /// # Errors
    /// If it has no value.
    pub fn evaluate(&self, variables: Variables<'_>, run: &mut Run<'_>) -> Result<Value, Failure> {
        run.add_regexes(&self.regexes);
        let mut frame = Frame {
            variables,
            locals: vec![Value::Null; self.locals],
            run,
        };
        frame.value(&self.root)
    }
}

struct Frame<'f, 'r> {
    variables: Variables<'f>,
    locals: Vec<Value>,
    run: &'f mut Run<'r>,
}

type Evaluated = Result<Value, Failure>;

impl Frame<'_, '_> {
    fn value(&mut self, node: &Node) -> Evaluated {
        self.run
            .spend(1)
            .and_then(|()| self.kind(node))
            .map_err(|failure| failure.at(node.at))
    }

    fn kind(&mut self, node: &Node) -> Evaluated {
        match &node.kind {
            Kind::Constant(value) => Ok(value.clone()),
            Kind::Variable(index) => {
                let value = self.variables.values.get(*index);
                value
                    .cloned()
                    .ok_or_else(|| Failure::new("the variable has no value"))
            }
            Kind::Declared(index) => match self.variables.declared.get(*index) {
                Some(value) => value.clone(),
                None => Err(Failure::new("the variable has no value")),
            },
            Kind::Local(slot) => Ok(self.locals[*slot].clone()),
            Kind::Field { of, name, how } => {
                let of = self.value(of)?;
                field(&of, name, *how)
            }
            Kind::Index {
                of,
                index,
                optional,
            } => {
                let (of, at) = (self.value(of)?, self.value(index)?);
                element(&of, &at, *optional)
            }
            Kind::And(sides) => self.decide(sides, false),
            Kind::Or(sides) => self.decide(sides, true),
            Kind::Not(one) => Ok(Value::Bool(!self.bool(one)?)),
            Kind::Negate(one) => match self.value(one)? {
                Value::Int(whole) => whole
                    .checked_neg()
                    .map(Value::Int)
                    .ok_or_else(|| Failure::new("the number is too large")),
                Value::Double(number) => Ok(Value::Double(-number)),
                Value::Duration(length) => length
                    .checked_neg()
                    .map(Value::Duration)
                    .ok_or_else(|| Failure::new("the time is too far away")),
                other => Err(Failure::new(format!(
                    "{} has no negative",
                    other.kind().one()
                ))),
            },
            Kind::Choice(parts) => {
                let [condition, one, other] = &**parts;
                let chosen = if self.bool(condition)? { one } else { other };
                self.value(chosen)
            }
            Kind::Binary(operator, sides) => {
                let one = self.value(&sides[0])?;
                let other = self.value(&sides[1])?;
                self.binary(*operator, &one, &other)
            }
            Kind::List(items) => {
                let mut list = Vec::with_capacity(items.len());
                for (item, optional) in items {
                    let value = self.value(item)?;
                    list.extend(present(value, *optional)?);
                }
                Ok(Value::list(list))
            }
            Kind::Map(entries) => self.map(entries),
            Kind::Each {
                how,
                over,
                slot,
                only,
                body,
            } => self.each(*how, over, *slot, only.as_deref(), body),
            Kind::Call {
                candidates,
                arguments,
            } => {
                let mut values = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    values.push(self.value(argument)?);
                }
                let mut fitting = candidates.iter();
                if let Some(function) = fitting.find(|function| function.takes_values(&values)) {
                    let texts = values.iter().map(|value| match value {
                        Value::String(text) => text.len(),
                        _ => 0,
                    });
                    // Short ones are part of the operation.
                    let bytes: usize = texts.sum();
                    if bytes > LONG_TEXT {
                        self.run.spend_text(bytes)?;
                    }
                    return (function.call)(self.run, &values);
                }
                let kinds = values.iter().map(|value| value.kind().to_string());
                let kinds: Vec<String> = kinds.collect();
                let known = candidates.first().map(|function| function.signature());
                Err(Failure::new(format!(
                    "`{}` is not for ({})",
                    known.unwrap_or_default(),
                    kinds.join(", ")
                )))
            }
            Kind::Object {
                resource,
                namespace,
                name,
            } => {
                let namespace = namespace.as_ref().map(|node| self.text(node)).transpose()?;
                let name = self.text(name)?;
                let object = self.run.data.object(resource, namespace.as_deref(), &name);
                object.map_err(Failure::new)
            }
            Kind::Objects {
                resource,
                namespace,
            } => {
                let namespace = namespace.as_ref().map(|node| self.text(node)).transpose()?;
                let objects = self.run.data.objects(resource, namespace.as_deref());
                let objects = objects.map_err(Failure::new)?;
                self.run.spend(objects.len())?;
                Ok(Value::list(objects))
            }
            Kind::Starting(within) => {
                let jobs = self.run.data.starting(*within).map_err(Failure::new)?;
                self.run.spend(jobs.len())?;
                Ok(Value::list(jobs))
            }
            Kind::Source(name) => self.run.data.source(name).map_err(Failure::new),
        }
    }

    fn bool(&mut self, node: &Node) -> Result<bool, Failure> {
        match self.value(node)? {
            Value::Bool(flag) => Ok(flag),
            other => {
                let kind = other.kind().one();
                Err(Failure::new(format!("expected a bool, not {kind}")).at(node.at))
            }
        }
    }

    fn text(&mut self, node: &Node) -> Result<Arc<str>, Failure> {
        match self.value(node)? {
            Value::String(text) => Ok(text),
            other => {
                let kind = other.kind().one();
                Err(Failure::new(format!("expected a string, not {kind}")).at(node.at))
            }
        }
    }

    /// Evaluates `&&` (decided by false) and `||` (decided by true). A side that decides outweighs
    /// an error of the other.
    fn decide(&mut self, sides: &[Node; 2], decides: bool) -> Evaluated {
        let first = match self.bool(&sides[0]) {
            Ok(value) if value == decides => return Ok(Value::Bool(decides)),
            Err(failure) if failure.is_final => return Err(failure),
            other => other,
        };
        let second = match self.bool(&sides[1]) {
            Ok(value) if value == decides => return Ok(Value::Bool(decides)),
            other => other,
        };
        first.and(second).map(Value::Bool)
    }

    fn binary(&mut self, operator: Operator, one: &Value, other: &Value) -> Evaluated {
        let flag = match operator {
            Operator::Add => return add(self.run, one, other),
            Operator::Subtract => return subtract(one, other),
            Operator::Multiply | Operator::Divide | Operator::Remainder => {
                return multiply(operator.sign(), one, other);
            }
            Operator::Equal => self.run.equal(one, other)?,
            Operator::NotEqual => !self.run.equal(one, other)?,
            Operator::In => match other {
                Value::List(list) => {
                    for element in list.iter() {
                        if self.run.equal(one, element)? {
                            return Ok(Value::Bool(true));
                        }
                    }
                    false
                }
                Value::Map(map) => one.as_key().is_some_and(|key| map.contains_key(&key)),
                _ => return Err(unsupported("in", one, other)),
            },
            // NaN has no order, and every comparison with it is false.
            _ if is_nan(one) || is_nan(other) => false,
            Operator::Less => compare(self.run, one, other)? == Ordering::Less,
            Operator::AtMost => compare(self.run, one, other)? != Ordering::Greater,
            Operator::Greater => compare(self.run, one, other)? == Ordering::Greater,
            Operator::AtLeast => compare(self.run, one, other)? != Ordering::Less,
        };
        Ok(Value::Bool(flag))
    }

    fn map(&mut self, entries: &[(Node, Node, bool)]) -> Evaluated {
        let mut map: BTreeMap<Key, Value> = BTreeMap::new();
        for (key_node, node, optional) in entries {
            let key = self.value(key_node)?;
            let Some(key) = key.as_key() else {
                let kind = key.kind().one();
                return Err(Failure::new(format!("{kind} can't be a key")).at(key_node.at));
            };
            let value = self.value(node)?;
            let Some(value) = present(value, *optional)? else {
                continue;
            };
            if map.insert(key, value).is_some() {
                return Err(Failure::new("the map has one key twice").at(key_node.at));
            }
        }
        Ok(Value::Map(Arc::new(map)))
    }

    fn each(
        &mut self,
        how: Each,
        over: &Node,
        slot: usize,
        only: Option<&Node>,
        body: &Node,
    ) -> Evaluated {
        let elements: Arc<[Value]> = match self.value(over)? {
            Value::List(list) => list,
            Value::Map(map) => {
                self.run.spend(map.len())?;
                map.keys().map(Key::to_value).collect()
            }
            other => {
                let kind = other.kind().one();
                return Err(Failure::new(format!("{kind} has no elements")).at(over.at));
            }
        };
        let mut list = Vec::new();
        let mut found = 0;
        // The error of an element counts unless another element decides.
        let mut unknown = None;
        for element in elements.iter() {
            self.run.spend(1)?;
            self.locals[slot] = element.clone();
            match how {
                Each::Map => {
                    if only.map_or(Ok(true), |only| self.bool(only))? {
                        list.push(self.value(body)?);
                    }
                }
                Each::SortBy => list.push(self.value(body)?),
                Each::Filter => {
                    if self.bool(body)? {
                        list.push(element.clone());
                    }
                }
                Each::ExistsOne => found += usize::from(self.bool(body)?),
                Each::All | Each::Exists => match self.bool(body) {
                    Ok(value) if value == (how == Each::Exists) => return Ok(Value::Bool(value)),
                    Ok(_) => {}
                    Err(failure) if failure.is_final => return Err(failure),
                    Err(failure) => unknown = unknown.or(Some(failure)),
                },
            }
        }
        match (how, unknown) {
            (_, Some(failure)) => Err(failure),
            (Each::SortBy, None) => {
                let order = sorted(self.run, &list)?;
                let elements = order.into_iter().map(|at| elements[at].clone());
                Ok(Value::list(elements))
            }
            (Each::Map | Each::Filter, None) => Ok(Value::list(list)),
            (Each::ExistsOne, None) => Ok(Value::Bool(found == 1)),
            (Each::All, None) => Ok(Value::Bool(true)),
            (Each::Exists, None) => Ok(Value::Bool(false)),
        }
    }
}

fn is_nan(value: &Value) -> bool {
    matches!(value, Value::Double(number) if number.is_nan())
}

/// Returns the value that an element or entry written with `?` adds.
fn present(value: Value, optional: bool) -> Result<Option<Value>, Failure> {
    match value {
        Value::Optional(inner) if optional => Ok(inner.map(|inner| (*inner).clone())),
        other if optional => {
            let kind = other.kind().one();
            Err(Failure::new(format!(
                "expected an optional value, not {kind}"
            )))
        }
        other => Ok(Some(other)),
    }
}

fn field(of: &Value, name: &Arc<str>, how: Access) -> Evaluated {
    let of = match of {
        Value::Optional(None) if how == Access::Test => return Ok(Value::Bool(false)),
        Value::Optional(None) => return Ok(Value::Optional(None)),
        Value::Optional(Some(inner)) => inner,
        other => other,
    };
    let found = of.field(name);
    match how {
        Access::Test => match of {
            Value::Map(_) | Value::Null => Ok(Value::Bool(found.is_some())),
            other => Err(Failure::new(format!(
                "{} has no fields",
                other.kind().one()
            ))),
        },
        Access::Optional => Ok(Value::Optional(found.cloned().map(Arc::new))),
        Access::Get => found.cloned().ok_or_else(|| match of {
            Value::Map(_) => Failure::new(format!("there is no `{name}`")),
            Value::Null => Failure::new(format!("there is nothing that could have a `{name}`")),
            other => Failure::new(format!("{} has no fields", other.kind().one())),
        }),
    }
}

fn element(of: &Value, index: &Value, optional: bool) -> Evaluated {
    let of = match of {
        Value::Optional(None) => return Ok(Value::Optional(None)),
        Value::Optional(Some(inner)) => inner,
        other => other,
    };
    let found = match (of, index) {
        (Value::List(list), Value::Int(at)) => {
            usize::try_from(*at).ok().and_then(|at| list.get(at))
        }
        (Value::Map(map), index) => index.as_key().and_then(|key| map.get(&key)),
        (Value::Null, _) if optional => None,
        (other, index) => {
            return Err(Failure::new(format!(
                "{} has no element [{}]",
                other.kind().one(),
                index.kind()
            )));
        }
    };
    match found {
        _ if optional => Ok(Value::Optional(found.cloned().map(Arc::new))),
        Some(value) => Ok(value.clone()),
        None => Err(Failure::new(match index {
            Value::Int(at) => format!("there is no element {at}"),
            Value::String(name) => format!("there is no `{name}`"),
            _ => "there is no such element".to_owned(),
        })),
    }
}
