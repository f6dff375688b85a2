//! Checks of the parser's tree: every mistake that can be found without a value, with its position.

use std::collections::HashMap;
use std::sync::Arc;

use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SourceInfo, operators};
use jiff::SignedDuration;

use super::functions::{self, Function};
use super::run::SizedRegex;
use super::scope::{Mistake, Scope, Uses, place};
use super::tree::{Access, Each, Kind, Node, Operator};
use super::types::Type;
use super::value::Value;

/// The maximum nesting depth of operations.
const DEEPEST: usize = 100;

/// The state of the checks of one expression.
pub(super) struct Checker<'s> {
    scope: &'s Scope,
    source: &'s SourceInfo,
    text: &'s str,
    locals: Vec<(String, Type)>,
    /// The maximum number of variables of comprehensions.
    pub(super) most_locals: usize,
    depth: usize,
    pub(super) uses: Uses,
    pub(super) regexes: HashMap<Arc<str>, SizedRegex>,
}

type Checked = Result<(Node, Type), Mistake>;

impl<'s> Checker<'s> {
    pub(super) fn new(scope: &'s Scope, source: &'s SourceInfo, text: &'s str) -> Self {
        Self {
            scope,
            source,
            text,
            locals: Vec::new(),
            most_locals: 0,
            depth: 0,
            uses: Uses::default(),
            regexes: HashMap::new(),
        }
    }

    /// Returns the position of `tree`, in bytes. That of a method call is the position of its name.
    fn at(&self, tree: &IdedExpr) -> u32 {
        let start = self.source.offset_for(tree.id);
        let start = start.map_or(0, |(start, _)| start);
        let Expr::Call(call) = &tree.expr else {
            return start;
        };
        let Some((before, rest)) = self.text.split_at_checked(start as usize) else {
            return start;
        };
        let named = before.trim_end().strip_suffix(&*call.func_name);
        named
            .filter(|_| rest.starts_with('('))
            .and_then(|before| u32::try_from(before.len()).ok())
            .unwrap_or(start)
    }

    fn mistake<T>(&self, tree: &IdedExpr, message: impl Into<String>) -> Result<T, Mistake> {
        let (line, column) = place(self.text, self.at(tree));
        Err(Mistake {
            line,
            column,
            message: message.into(),
        })
    }

    pub(super) fn node(&mut self, tree: &IdedExpr) -> Checked {
        self.depth += 1;
        let checked = if self.depth > DEEPEST {
            self.mistake(
                tree,
                format!("operations are nested deeper than {DEEPEST}: use `variables`"),
            )
        } else {
            self.kind(tree)
        };
        self.depth -= 1;
        let (kind, returns) = checked?;
        let at = self.at(tree);
        Ok((Node { at, kind }, returns))
    }

    fn kind(&mut self, tree: &IdedExpr) -> Result<(Kind, Type), Mistake> {
        match &tree.expr {
            Expr::Literal(literal) => {
                let value = match literal {
                    LiteralValue::Null => Value::Null,
                    LiteralValue::Boolean(flag) => Value::Bool(*flag.inner()),
                    LiteralValue::Int(whole) => Value::Int(*whole.inner()),
                    LiteralValue::Double(number) => Value::Double(*number.inner()),
                    LiteralValue::String(text) => Value::text(text.inner()),
                    LiteralValue::UInt(_) => {
                        return self.mistake(tree, "unsigned numbers are not supported");
                    }
                    LiteralValue::Bytes(_) => {
                        return self.mistake(tree, "bytes are not supported: use a string");
                    }
                };
                let kind = value.kind();
                Ok((Kind::Constant(value), kind))
            }
            Expr::Ident(name) => self.variable(tree, name),
            Expr::Select(select) if select.test => self.mistake(tree, "unexpected has()"),
            Expr::Select(select) => self.field(tree, &select.operand, &select.field, Access::Get),
            Expr::Call(call) => self.call(tree, call),
            Expr::List(list) => {
                let mut items = Vec::new();
                let mut element: Option<Type> = None;
                for (index, item) in list.elements.iter().enumerate() {
                    let (node, mut kind) = self.node(item)?;
                    let optional = list.optional_indices.contains(&index);
                    if let (true, Type::Optional(inner)) = (optional, &kind) {
                        kind = (**inner).clone();
                    }
                    element = Some(element.map_or_else(|| kind.clone(), |known| known.or(&kind)));
                    items.push((node, optional));
                }
                Ok((Kind::List(items), Type::list(element.unwrap_or(Type::Dyn))))
            }
            Expr::Map(map) => {
                let mut entries = Vec::new();
                let mut value: Option<Type> = None;
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else {
                        return self.mistake(tree, "unexpected field");
                    };
                    let (key, key_kind) = self.node(&entry.key)?;
                    if !matches!(key_kind, Type::Dyn | Type::Bool | Type::Int | Type::String) {
                        let key_kind = key_kind.one();
                        return self.mistake(
                            &entry.key,
                            format!(
                                "the key of a map is a string, an int or a bool, not {key_kind}"
                            ),
                        );
                    }
                    let (node, kind) = self.node(&entry.value)?;
                    value = Some(value.map_or_else(|| kind.clone(), |known| known.or(&kind)));
                    entries.push((key, node, entry.optional));
                }
                Ok((Kind::Map(entries), Type::map(value.unwrap_or(Type::Dyn))))
            }
            Expr::Struct(object) => {
                self.mistake(tree, format!("there is no type `{}`", object.type_name))
            }
            Expr::Comprehension(_) | Expr::Unspecified => {
                self.mistake(tree, "the expression can't be read here")
            }
        }
    }

    fn variable(&mut self, tree: &IdedExpr, name: &str) -> Result<(Kind, Type), Mistake> {
        let local = self.locals.iter().rposition(|(local, _)| local == name);
        if let Some(slot) = local {
            return Ok((Kind::Local(slot), self.locals[slot].1.clone()));
        }
        if name == "namespaceObject" {
            return self.namespace_object(tree);
        }
        let known = &self.scope.variables;
        if let Some(index) = known.iter().position(|(known, _)| known == name) {
            self.uses.variables.insert(name.to_owned());
            return Ok((Kind::Variable(index), known[index].1.clone()));
        }
        if name == "variables" {
            return self.mistake(
                tree,
                "write `variables.NAME`: `variables` alone is no value",
            );
        }
        let others = ["variables", "namespaceObject"].into_iter();
        let names = known.iter().map(|(known, _)| known.as_str());
        let locals = self.locals.iter().map(|(local, _)| local.as_str());
        let near = nearest(name, names.chain(locals).chain(others));
        self.mistake(tree, format!("there is no variable `{name}`{near}"))
    }

    /// Compiles the Workload's namespace: `object("namespaces", workload.namespace)`.
    fn namespace_object(&mut self, tree: &IdedExpr) -> Result<(Kind, Type), Mistake> {
        self.resource(tree, "namespaces")?;
        let known = &self.scope.variables;
        let Some(index) = known.iter().position(|(known, _)| known == "workload") else {
            return self.mistake(tree, "there is no Workload here");
        };
        let at = self.at(tree);
        let node = |kind| Node { at, kind };
        let name = node(Kind::Field {
            of: Box::new(node(Kind::Variable(index))),
            name: "namespace".into(),
            how: Access::Get,
        });
        let object = Kind::Object {
            resource: "namespaces".to_owned(),
            namespace: None,
            name: Box::new(name),
        };
        Ok((object, Type::Dyn))
    }

    fn field(
        &mut self,
        tree: &IdedExpr,
        operand: &IdedExpr,
        name: &str,
        how: Access,
    ) -> Result<(Kind, Type), Mistake> {
        if let Expr::Ident(variables) = &operand.expr
            && variables == "variables"
            && !self.locals.iter().any(|(local, _)| local == variables)
        {
            let known = &self.scope.declared;
            let Some(index) = known.iter().position(|(known, _)| known == name) else {
                let near = nearest(name, known.iter().map(|(known, _)| known.as_str()));
                return self.mistake(
                    tree,
                    format!("there is no variable `{name}` before this one{near}"),
                );
            };
            return Ok(match how {
                Access::Get => (Kind::Declared(index), known[index].1.clone()),
                Access::Test => (Kind::Constant(Value::Bool(true)), Type::Bool),
                Access::Optional => {
                    return self.mistake(tree, "variables are never absent");
                }
            });
        }
        let (of, kind) = self.node(operand)?;
        let (inside, optional) = match &kind {
            Type::Optional(inner) => ((**inner).clone(), true),
            other => (other.clone(), how == Access::Optional),
        };
        let found = match &inside {
            Type::Dyn => Type::Dyn,
            Type::Map(value) => (**value).clone(),
            Type::Object(object) => {
                let Some(field) = object.fields.get(name) else {
                    let near = nearest(name, object.fields.keys().map(String::as_str));
                    let message = format!("{} has no field `{name}`{near}", inside.one());
                    return self.mistake(tree, message);
                };
                field.clone()
            }
            other => return self.mistake(tree, format!("{} has no fields", other.one())),
        };
        let returns = match how {
            Access::Test => Type::Bool,
            _ if optional => Type::Optional(Arc::new(found)),
            _ => found,
        };
        let how = if how == Access::Get && optional {
            Access::Optional
        } else {
            how
        };
        let field = Kind::Field {
            of: Box::new(of),
            name: name.into(),
            how,
        };
        Ok((field, returns))
    }

    fn bool(&mut self, tree: &IdedExpr, what: &str) -> Result<Node, Mistake> {
        let (node, kind) = self.node(tree)?;
        match kind {
            Type::Bool | Type::Dyn => Ok(node),
            other => self.mistake(tree, format!("{what} is a bool, not {}", other.one())),
        }
    }

    fn call(&mut self, tree: &IdedExpr, call: &CallExpr) -> Result<(Kind, Type), Mistake> {
        let (name, arguments) = (call.func_name.as_str(), call.args.as_slice());
        match (name, arguments) {
            (operators::LOGICAL_AND | operators::LOGICAL_OR, [one, other]) => {
                let and = name == operators::LOGICAL_AND;
                let what = if and {
                    "each side of `&&`"
                } else {
                    "each side of `||`"
                };
                let sides = Box::new([self.bool(one, what)?, self.bool(other, what)?]);
                let kind = if and {
                    Kind::And(sides)
                } else {
                    Kind::Or(sides)
                };
                return Ok((kind, Type::Bool));
            }
            (operators::LOGICAL_NOT, [one]) => {
                let one = self.bool(one, "what `!` negates")?;
                return Ok((Kind::Not(Box::new(one)), Type::Bool));
            }
            (operators::NEGATE, [one]) => {
                let (node, kind) = self.node(one)?;
                if !matches!(kind, Type::Dyn | Type::Int | Type::Double | Type::Duration) {
                    return self.mistake(tree, format!("{} has no negative", kind.one()));
                }
                return Ok((Kind::Negate(Box::new(node)), kind));
            }
            (operators::CONDITIONAL, [condition, one, other]) => {
                let condition = self.bool(condition, "the condition of `? :`")?;
                let (one, kind) = self.node(one)?;
                let (other, other_kind) = self.node(other)?;
                let choice = Kind::Choice(Box::new([condition, one, other]));
                return Ok((choice, kind.or(&other_kind)));
            }
            (operators::OPT_SELECT, [operand, field]) => {
                let Expr::Literal(LiteralValue::String(field)) = &field.expr else {
                    return self.mistake(tree, "expected a field");
                };
                return self.field(tree, operand, field.inner(), Access::Optional);
            }
            (operators::INDEX | operators::OPT_INDEX, [operand, index]) => {
                return self.index(tree, operand, index, name == operators::OPT_INDEX);
            }
            ("has", [argument]) if call.target.is_none() => {
                let Expr::Select(select) = &argument.expr else {
                    return self.mistake(argument, "has() requires a field: `has(a.b)`");
                };
                return self.field(tree, &select.operand, &select.field, Access::Test);
            }
            ("object" | "objects", _) if call.target.is_none() => {
                return self.objects(tree, name, arguments);
            }
            ("starting", _) if call.target.is_none() => {
                return self.starting(tree, arguments);
            }
            ("http" | "prometheus", _) if call.target.is_none() => {
                return self.data_source(tree, name, arguments);
            }
            _ => {}
        }
        if let (Some(operator), [one, other]) = (Operator::of(name), arguments) {
            let (one, kind) = self.node(one)?;
            let (other, other_kind) = self.node(other)?;
            let Some(returns) = operator.result(&kind, &other_kind) else {
                let sign = operator.sign();
                return self.mistake(tree, format!("there is no {kind} {sign} {other_kind}"));
            };
            return Ok((Kind::Binary(operator, Box::new([one, other])), returns));
        }
        if let Some(target) = &call.target {
            // `math.abs(x)` is a function with a dot in its name.
            if let Expr::Ident(namespace) = &target.expr
                && matches!(namespace.as_str(), "math" | "optional")
                && !self.locals.iter().any(|(local, _)| local == namespace)
            {
                let name = format!("{namespace}.{name}");
                return self.function(tree, &name, None, arguments);
            }
            let each = match (name, arguments.len()) {
                ("all", 2) => Some(Each::All),
                ("exists", 2) => Some(Each::Exists),
                ("exists_one" | "existsOne", 2) => Some(Each::ExistsOne),
                ("map", 2 | 3) => Some(Each::Map),
                ("filter", 2) => Some(Each::Filter),
                ("sortBy", 2) => Some(Each::SortBy),
                _ => None,
            };
            if let Some(how) = each {
                return self.each(target, how, arguments);
            }
            return self.function(tree, name, Some(target), arguments);
        }
        self.function(tree, name, None, arguments)
    }

    fn index(
        &mut self,
        tree: &IdedExpr,
        operand: &IdedExpr,
        index: &IdedExpr,
        optional: bool,
    ) -> Result<(Kind, Type), Mistake> {
        let (of, kind) = self.node(operand)?;
        let (index_node, index_kind) = self.node(index)?;
        let (inside, optional) = match &kind {
            Type::Optional(inner) => ((**inner).clone(), true),
            other => (other.clone(), optional),
        };
        let (found, fits) = match &inside {
            Type::Dyn => (Type::Dyn, true),
            Type::List(element) => (
                (**element).clone(),
                matches!(index_kind, Type::Dyn | Type::Int),
            ),
            Type::Map(value) => (
                (**value).clone(),
                matches!(
                    index_kind,
                    Type::Dyn | Type::String | Type::Int | Type::Bool
                ),
            ),
            Type::Object(_) => (Type::Dyn, matches!(index_kind, Type::Dyn | Type::String)),
            other => return self.mistake(tree, format!("{} has no elements", other.one())),
        };
        if !fits {
            let inside = inside.one();
            return self.mistake(index, format!("{inside} has no element [{index_kind}]"));
        }
        let returns = if optional {
            Type::Optional(Arc::new(found))
        } else {
            found
        };
        let node = Kind::Index {
            of: Box::new(of),
            index: Box::new(index_node),
            optional,
        };
        Ok((node, returns))
    }

    fn each(
        &mut self,
        over: &IdedExpr,
        how: Each,
        arguments: &[IdedExpr],
    ) -> Result<(Kind, Type), Mistake> {
        let (over_node, kind) = self.node(over)?;
        let element = match kind {
            Type::Dyn => Type::Dyn,
            Type::List(element) => (*element).clone(),
            Type::Map(_) | Type::Object(_) => Type::String,
            other => return self.mistake(over, format!("{} has no elements", other.one())),
        };
        let Expr::Ident(name) = &arguments[0].expr else {
            return self.mistake(&arguments[0], "expected the name of a variable");
        };
        let slot = self.locals.len();
        self.locals.push((name.clone(), element.clone()));
        self.most_locals = self.most_locals.max(self.locals.len());
        let inside = self.each_body(how, &element, arguments);
        self.locals.pop();
        let (only, body, returns) = inside?;
        let each = Kind::Each {
            how,
            over: Box::new(over_node),
            slot,
            only,
            body: Box::new(body),
        };
        Ok((each, returns))
    }

    fn each_body(
        &mut self,
        how: Each,
        element: &Type,
        arguments: &[IdedExpr],
    ) -> Result<(Option<Box<Node>>, Node, Type), Mistake> {
        let what = "the condition for each element";
        Ok(match (how, arguments) {
            (Each::Map, [_, body]) => {
                let (body, kind) = self.node(body)?;
                (None, body, Type::list(kind))
            }
            (Each::SortBy, [_, body]) => {
                let (body, _) = self.node(body)?;
                (None, body, Type::list(element.clone()))
            }
            (Each::Map, [_, only, body]) => {
                let only = self.bool(only, what)?;
                let (body, kind) = self.node(body)?;
                (Some(Box::new(only)), body, Type::list(kind))
            }
            (Each::Filter, _) => {
                let body = self.bool(&arguments[1], what)?;
                (None, body, Type::list(element.clone()))
            }
            _ => (None, self.bool(&arguments[1], what)?, Type::Bool),
        })
    }

    fn function(
        &mut self,
        tree: &IdedExpr,
        name: &str,
        target: Option<&IdedExpr>,
        arguments: &[IdedExpr],
    ) -> Result<(Kind, Type), Mistake> {
        let mut overloads = functions::named(name, target.is_some()).peekable();
        if overloads.peek().is_none() {
            let other = functions::named(name, target.is_none()).next();
            let near = if let Some(function) = other {
                format!(": it is called as `{}`", function.signature())
            } else {
                let own = ["has", "object", "objects", "http", "prometheus", "starting"];
                let each = ["all", "exists", "exists_one", "map", "filter", "sortBy"];
                nearest(name, functions::names().chain(own).chain(each))
            };
            return self.mistake(tree, format!("there is no function `{name}` here{near}"));
        }
        let mut nodes = Vec::new();
        let mut kinds = Vec::new();
        for argument in target.into_iter().chain(arguments) {
            let (node, kind) = self.node(argument)?;
            nodes.push(node);
            kinds.push(kind);
        }
        let candidates: Vec<&'static Function> = overloads
            .filter(|function| function.takes(&kinds))
            .collect();
        let Some(first) = candidates.first() else {
            let known: Vec<String> = functions::named(name, target.is_some())
                .map(|function| format!("`{}`", function.signature()))
                .collect();
            let given: Vec<String> = kinds.iter().map(ToString::to_string).collect();
            return self.mistake(
                tree,
                format!(
                    "`{name}` is not for ({}): it is {}",
                    given.join(", "),
                    known.join(" or ")
                ),
            );
        };
        let returns = candidates[1..]
            .iter()
            .fold(first.returns(&kinds), |kind, other| {
                kind.or(&other.returns(&kinds))
            });
        self.check_constants(name, arguments)?;
        if name == "sum"
            && let Some(zero) = Value::zero(&returns)
        {
            let (at, kind) = (0, Kind::Constant(zero));
            nodes.push(Node { at, kind });
        }
        let call = Kind::Call {
            candidates,
            arguments: nodes,
        };
        Ok((call, returns))
    }

    /// Checks constant texts in the expression: regular expressions, times.
    fn check_constants(&mut self, name: &str, arguments: &[IdedExpr]) -> Result<(), Mistake> {
        let Some((tree, text)) = arguments.iter().rev().find_map(|tree| match &tree.expr {
            Expr::Literal(LiteralValue::String(text)) => Some((tree, text.inner())),
            _ => None,
        }) else {
            return Ok(());
        };
        match name {
            "matches" | "find" | "findAll" => match SizedRegex::new(text) {
                Ok(regex) => {
                    self.regexes.insert(text.into(), regex);
                    Ok(())
                }
                Err(problem) => self.mistake(tree, problem),
            },
            "duration" | "timestamp" | "quantity" => {
                self.try_call(name, tree, &[Value::text(text)])
            }
            _ if name.starts_with("get") || matches!(name, "date" | "time") => {
                let now = Value::Timestamp(jiff::Timestamp::UNIX_EPOCH);
                self.try_call(name, tree, &[now, Value::text(text)])
            }
            _ => Ok(()),
        }
    }

    fn try_call(&self, name: &str, tree: &IdedExpr, values: &[Value]) -> Result<(), Mistake> {
        let mut run = super::run::Run::new(&super::Nothing);
        let function = functions::named(name, values.len() == 2).find(|function| {
            function.arguments.len() >= values.len() && function.takes_values(values)
        });
        match function.map(|function| (function.call)(&mut run, values)) {
            Some(Err(failure)) => self.mistake(tree, failure.message),
            _ => Ok(()),
        }
    }

    fn resource(&mut self, tree: &IdedExpr, name: &str) -> Result<(), Mistake> {
        if let Some(known) = &self.scope.resources
            && !known.contains(name)
        {
            let near = nearest(name, known.iter().map(String::as_str));
            let setting = &self.scope.resources_setting;
            let add = if setting.is_empty() || !near.is_empty() {
                String::new()
            } else {
                format!(": add `{setting} {name}` to the arguments of the check")
            };
            return self.mistake(tree, format!("`{name}` are not watched{near}{add}"));
        }
        self.uses.resources.insert(name.to_owned());
        Ok(())
    }

    fn objects(
        &mut self,
        tree: &IdedExpr,
        name: &str,
        arguments: &[IdedExpr],
    ) -> Result<(Kind, Type), Mistake> {
        let expected = if name == "object" {
            "`object(RESOURCE, NAMESPACE, NAME)`, or `object(RESOURCE, NAME)`"
        } else {
            "`objects(RESOURCE)`, or `objects(RESOURCE, NAMESPACE)`"
        };
        let resource = match arguments.first().map(|tree| (tree, &tree.expr)) {
            Some((place, Expr::Literal(LiteralValue::String(resource)))) => {
                let resource = resource.inner().to_owned();
                self.resource(place, &resource)?;
                resource
            }
            _ => {
                return self.mistake(
                    tree,
                    format!("write {expected}, with the resource in quotes"),
                );
            }
        };
        let mut strings = Vec::new();
        for argument in &arguments[1..] {
            let (node, kind) = self.node(argument)?;
            if !matches!(kind, Type::Dyn | Type::String) {
                let kind = kind.one();
                return self.mistake(argument, format!("expected a string, not {kind}"));
            }
            strings.push(Box::new(node));
        }
        let last = strings.pop();
        let before = strings.pop();
        match (name, before, last, strings.is_empty()) {
            ("object", namespace, Some(name), true) => Ok((
                Kind::Object {
                    resource,
                    namespace,
                    name,
                },
                Type::Dyn,
            )),
            ("objects", None, namespace, true) => Ok((
                Kind::Objects {
                    resource,
                    namespace,
                },
                Type::list(Type::Dyn),
            )),
            _ => self.mistake(tree, format!("write {expected}")),
        }
    }

    fn starting(
        &mut self,
        tree: &IdedExpr,
        arguments: &[IdedExpr],
    ) -> Result<(Kind, Type), Mistake> {
        let expected = "`starting('10m')`, with the time in quotes, from 1s to 1d";
        let [argument] = arguments else {
            return self.mistake(tree, format!("write {expected}"));
        };
        let within = match &argument.expr {
            Expr::Literal(LiteralValue::String(text)) => text.inner().parse().ok(),
            _ => None,
        };
        let allowed = SignedDuration::from_secs(1)..=SignedDuration::from_hours(24);
        let Some(within) = within.filter(|within| allowed.contains(within)) else {
            return self.mistake(argument, format!("write {expected}"));
        };
        self.uses.starting = self.uses.starting.max(Some(within));
        let variables = &self.scope.variables;
        let workload = variables.iter().find(|(name, _)| name == "workload");
        let kind = workload.map_or(Type::Dyn, |(_, kind)| kind.clone());
        Ok((Kind::Starting(within), Type::list(kind)))
    }

    fn data_source(
        &mut self,
        tree: &IdedExpr,
        function: &str,
        arguments: &[IdedExpr],
    ) -> Result<(Kind, Type), Mistake> {
        let [argument] = arguments else {
            return self.mistake(tree, format!("write `{function}(NAME)`"));
        };
        let Expr::Literal(LiteralValue::String(name)) = &argument.expr else {
            return self.mistake(
                argument,
                format!("write `{function}(NAME)`, with the name in quotes"),
            );
        };
        let name = name.inner();
        let Some(kind) = self.scope.sources.get(name).copied() else {
            let near = nearest(name, self.scope.sources.keys().map(String::as_str));
            return self.mistake(argument, format!("`spec.data` has no `{name}`{near}"));
        };
        if kind.function() != function {
            return self.mistake(
                tree,
                format!("`{name}` is queried by `{}('{name}')`", kind.function()),
            );
        }
        self.uses.sources.insert(name.to_owned());
        Ok((Kind::Source(name.to_owned()), kind.kind()))
    }
}

/// Returns `: did you mean …?` if one of `names` is similar to `name`.
pub(crate) fn nearest<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> String {
    let least = |other: &&str| strsim::damerau_levenshtein(name, other);
    let near = names
        .filter(|other| least(other) <= 1 + name.chars().count() / 3)
        .min_by_key(least);
    near.map_or_else(String::new, |near| format!(": did you mean `{near}`?"))
}
