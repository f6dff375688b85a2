//! A checked `CELCheck`, and its verdict about a Workload. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use kueue_check::api::PodSetUpdate;
use kueue_check::{PodSetUpdates, Request, Verdict};

use super::resource::{CELCheckSpec, DataSource, PodSetTemplate};
use super::scope;
use super::sources::{Source, SourceRegistry};
use crate::cel::{Data, Failure, Program, Run, Scope, SourceKind, Type, Value, Variables};
use crate::document::clean;

/// The maximum number of characters of an expression in a message.
const SHOWN: usize = 200;

/// The data that rules may read besides the Workload and their own data sources. The deployment
/// sets it.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// The watched resources, by the names that expressions use. `None`: any.
    pub resources: Option<BTreeSet<String>>,
    /// The setting that adds a resource, for messages.
    pub setting: &'static str,
}

/// A mistake in a `CELCheck`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The field, such as `spec.ready`.
    pub field: String,
    /// The error, and its position.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.field, self.message)
    }
}

impl std::error::Error for Problem {}

/// A checked `CELCheck`.
#[derive(Debug)]
pub struct Rule {
    variables: Vec<(String, Program)>,
    ready: Program,
    retry: Option<Program>,
    reject: Option<Program>,
    message: Option<Program>,
    retry_after: Duration,
    recheck: Option<Duration>,
    recheck_when_ready: bool,
    updates: Vec<Template>,
    resources: BTreeSet<String>,
    uses_checks: bool,
    starting: Option<SignedDuration>,
    sources: BTreeMap<String, Arc<Source>>,
}

/// The additions to pods.
#[derive(Debug)]
struct Template {
    /// The pod set, or `None` for all that no other template names.
    name: Option<String>,
    labels: Vec<(String, Program)>,
    annotations: Vec<(String, Program)>,
    node_selector: Vec<(String, Program)>,
    tolerations: Vec<k8s_openapi::api::core::v1::Toleration>,
}

/// The result of a rule for a Workload.
#[derive(Debug)]
pub struct Decided {
    /// The verdict.
    pub verdict: Verdict,
    /// The values of the rule's variables.
    pub variables: Vec<(String, Result<Value, Failure>)>,
    /// The number of steps that the expressions took.
    pub steps: u64,
}

impl Rule {
    /// Checks the expressions of `spec`.
    ///
    /// # Errors
    /// The first mistake.
    pub fn new(spec: &CELCheckSpec, environment: &Environment) -> Result<Self, Problem> {
        Self::registered(spec, environment, &SourceRegistry::default())
    }

    /// As [`new`](Self::new), with data sources that the owner of `registry` queries in the
    /// background.
    pub(super) fn registered(
        spec: &CELCheckSpec,
        environment: &Environment,
        registry: &SourceRegistry,
    ) -> Result<Self, Problem> {
        let mut compiler = Compiler::new(spec, environment);
        let mut variables = Vec::new();
        for (index, variable) in spec.variables.iter().enumerate() {
            let field = format!("spec.variables[{index}].expression");
            let program = compiler.program(&field, &variable.expression, None)?;
            let declared = &mut compiler.scope.declared;
            declared.push((variable.name.clone(), program.kind().clone()));
            variables.push((variable.name.clone(), program));
        }
        let ready = compiler.program("spec.ready", &spec.ready, Some(&Type::Bool))?;
        let mut optional = |field: &str, text: &Option<String>, kind: &Type| {
            let text = text.as_ref();
            text.map(|text| compiler.program(field, text, Some(kind)))
                .transpose()
        };
        let retry = optional("spec.retry", &spec.retry, &Type::Bool)?;
        let reject = optional("spec.reject", &spec.reject, &Type::Bool)?;
        let message = optional("spec.message", &spec.message, &Type::String)?;
        let uses_time = compiler.uses_time;
        compiler
            .scope
            .variables
            .push(("podSet".to_owned(), scope::pod_set()));
        let mut updates = Vec::new();
        for (index, template) in spec.pod_set_updates.iter().enumerate() {
            updates.push(compiler.template(index, template)?);
        }
        let mut sources = BTreeMap::new();
        for (index, source) in spec.data.iter().enumerate() {
            let body = body_expression(index, source)?;
            if compiler.sources.contains(&source.name) {
                sources.insert(source.name.clone(), registry.add(source, body));
            }
        }
        Ok(Self {
            variables,
            ready,
            retry,
            reject,
            message,
            retry_after: spec.retry_after.map_or(Duration::ZERO, Duration::from),
            recheck: spec.recheck(uses_time),
            recheck_when_ready: spec.stops_jobs(),
            updates,
            resources: compiler.resources,
            uses_checks: compiler.uses_checks,
            starting: compiler.starting,
            sources,
        })
    }

    /// Returns the resources that it reads.
    pub fn resources(&self) -> &BTreeSet<String> {
        &self.resources
    }

    /// Returns true if it reads the states of other checks.
    pub(super) fn uses_checks(&self) -> bool {
        self.uses_checks
    }

    /// Returns for how long after their admission it counts jobs that it let start, if it does.
    pub(super) fn starting(&self) -> Option<SignedDuration> {
        self.starting
    }

    /// Returns the data sources that it reads.
    pub(super) fn sources(&self) -> &BTreeMap<String, Arc<Source>> {
        &self.sources
    }

    /// Evaluates the rule for the Workload of `request`, with `data`.
    ///
    /// # Errors
    /// If an expression that counts has no value.
    pub fn decide(&self, request: &Request, data: &dyn Data) -> Result<Decided, Problem> {
        self.decide_counted(request, data).0
    }

    /// As [`decide`](Self::decide), and returns the number of steps even if there is no verdict.
    pub(super) fn decide_counted(
        &self,
        request: &Request,
        data: &dyn Data,
    ) -> (Result<Decided, Problem>, u64) {
        let mut run = Run::new(data);
        let decided = self.decide_in(request, &mut run);
        (decided, run.steps())
    }

    fn decide_in(&self, request: &Request, run: &mut Run<'_>) -> Result<Decided, Problem> {
        let mut values = scope::values(request);
        let mut declared: Vec<Result<Value, Failure>> = Vec::with_capacity(self.variables.len());
        for (_, program) in &self.variables {
            let variables = Variables {
                values: &values,
                declared: &declared,
            };
            let value = program.evaluate(variables, run);
            declared.push(value);
        }
        let variables = Variables {
            values: &values,
            declared: &declared,
        };
        let mut truth = |field: &str, program: &Program| match program.evaluate(variables, run) {
            Ok(Value::Bool(flag)) => Ok(flag),
            Ok(other) => Err(problem(
                field,
                &format!("expected a bool, not {}", other.kind().one()),
            )),
            Err(failure) => Err(failed(field, program, &failure)),
        };
        let mut holds = |field: &str, program: &Option<Program>| {
            program
                .as_ref()
                .map_or(Ok(false), |program| truth(field, program))
        };
        let verdict = if holds("spec.reject", &self.reject)? {
            Verdict::rejected(self.message(self.reject.as_ref(), "is true", variables, run))
        } else if holds("spec.retry", &self.retry)? {
            let message = self.message(self.retry.as_ref(), "is true", variables, run);
            if self.retry_after.is_zero() {
                Verdict::retry_now(message)
            } else {
                Verdict::retry_after(self.retry_after, message)
            }
        } else if truth("spec.ready", &self.ready)? {
            let updates = self.updates(request, &mut values, &declared, run)?;
            let verdict = Verdict::ready("the rule is met").with_updates(updates);
            match self.recheck {
                Some(recheck) if self.recheck_when_ready => verdict.recheck_in(recheck),
                Some(recheck) => verdict.recheck_until_admitted(recheck),
                None => verdict,
            }
        } else {
            let message = self.message(None, "", variables, run);
            let verdict = Verdict::pending(message);
            match self.recheck {
                Some(recheck) => verdict.recheck_in(recheck),
                None => verdict,
            }
        };
        let names = self.variables.iter().map(|(name, _)| name.clone());
        Ok(Decided {
            verdict,
            variables: names.zip(declared).collect(),
            steps: run.steps(),
        })
    }

    /// Returns the message: `spec.message`, or that `program` `is`, or the unmet condition.
    fn message(
        &self,
        program: Option<&Program>,
        is: &str,
        variables: Variables<'_>,
        run: &mut Run<'_>,
    ) -> String {
        let shown = |program: &Program| format!("`{}` {is}", shorten(program.text()));
        let default = program.map_or_else(|| not_met(&self.ready), shown);
        let Some(message) = &self.message else {
            return default;
        };
        match message.evaluate(variables, run) {
            Ok(Value::String(text)) if !text.trim().is_empty() => text.to_string(),
            Ok(_) => default,
            Err(failure) => format!("{default} (`spec.message`: {})", clean(&failure.message)),
        }
    }

    /// Returns the additions to the pods of the Workload of `request`.
    fn updates(
        &self,
        request: &Request,
        values: &mut Vec<Value>,
        declared: &[Result<Value, Failure>],
        run: &mut Run<'_>,
    ) -> Result<PodSetUpdates, Problem> {
        let field = "spec.podSetUpdates";
        let pod_sets = match values.first().and_then(|workload| workload.get("podSets")) {
            Some(Value::List(list)) => Arc::clone(list),
            _ => Arc::default(),
        };
        let mut updates = Vec::new();
        for (pod_set, value) in request.workload().pod_sets().iter().zip(pod_sets.iter()) {
            let named = |template: &&Template| template.name.as_deref() == Some(pod_set.name());
            let unnamed = |template: &&Template| template.name.is_none();
            let template = self.updates.iter().find(named);
            let Some(template) = template.or_else(|| self.updates.iter().find(unnamed)) else {
                continue;
            };
            values.push(value.clone());
            let variables = Variables { values, declared };
            let texts = |programs: &[(String, Program)], run: &mut Run<'_>| {
                let mut texts = BTreeMap::new();
                for (key, program) in programs {
                    match program.evaluate(variables, run) {
                        Ok(Value::String(text)) => texts.insert(key.clone(), text.to_string()),
                        Ok(other) => {
                            let kind = other.kind().one();
                            let message = format!("`{key}`: expected a string, not {kind}");
                            return Err(problem(field, &message));
                        }
                        Err(failure) => return Err(failed(field, program, &failure)),
                    };
                }
                Ok(texts)
            };
            let update = PodSetUpdate {
                name: pod_set.name().to_owned(),
                labels: texts(&template.labels, run)?,
                annotations: texts(&template.annotations, run)?,
                node_selector: texts(&template.node_selector, run)?,
                tolerations: template.tolerations.clone(),
            };
            values.pop();
            updates.push(update);
        }
        PodSetUpdates::try_from(updates).map_err(|error| problem(field, &error.to_string()))
    }
}

/// Compiles the expressions of one rule.
struct Compiler {
    scope: Scope,
    uses_time: bool,
    uses_checks: bool,
    starting: Option<SignedDuration>,
    resources: BTreeSet<String>,
    sources: BTreeSet<String>,
}

impl Compiler {
    fn new(spec: &CELCheckSpec, environment: &Environment) -> Self {
        let kind = |source: &DataSource| match source.prometheus {
            Some(_) => SourceKind::Prometheus,
            None => SourceKind::Http,
        };
        let sources = spec
            .data
            .iter()
            .map(|source| (source.name.clone(), kind(source)));
        Self {
            scope: Scope {
                variables: scope::variables(),
                declared: Vec::new(),
                resources: environment.resources.clone(),
                resources_setting: environment.setting.to_owned(),
                sources: sources.collect(),
            },
            uses_time: false,
            uses_checks: false,
            starting: None,
            resources: BTreeSet::new(),
            sources: BTreeSet::new(),
        }
    }

    fn program(
        &mut self,
        field: &str,
        text: &str,
        wanted: Option<&Type>,
    ) -> Result<Program, Problem> {
        let program = program(field, text, wanted, &self.scope)?;
        let uses = program.uses();
        self.uses_time |= scope::OF_TIME
            .iter()
            .any(|name| uses.variables.contains(*name));
        self.uses_time |= uses.starting.is_some();
        self.starting = self.starting.max(uses.starting);
        self.uses_checks |= uses.variables.contains("checks");
        self.resources.extend(uses.resources.iter().cloned());
        self.sources.extend(uses.sources.iter().cloned());
        Ok(program)
    }

    fn template(&mut self, index: usize, template: &PodSetTemplate) -> Result<Template, Problem> {
        let mut all = |field: &str, texts: &BTreeMap<String, String>| {
            let mut programs = Vec::new();
            for (key, text) in texts {
                let place = format!("spec.podSetUpdates[{index}].{field}[{key}]");
                let program = self.program(&place, text, Some(&Type::String))?;
                programs.push((key.clone(), program));
            }
            Ok(programs)
        };
        Ok(Template {
            name: template.name.clone(),
            labels: all("labels", &template.labels)?,
            annotations: all("annotations", &template.annotations)?,
            node_selector: all("nodeSelector", &template.node_selector)?,
            tolerations: template.tolerations.clone(),
        })
    }
}

fn program(
    field: &str,
    text: &str,
    wanted: Option<&Type>,
    scope: &Scope,
) -> Result<Program, Problem> {
    let program =
        Program::new(text, scope).map_err(|mistake| problem(field, &mistake.to_string()))?;
    if let Some(wanted) = wanted
        && program.kind() != wanted
        && *program.kind() != Type::Dyn
    {
        let (wanted, kind) = (wanted.one(), program.kind().one());
        return Err(problem(
            field,
            &format!("expected {wanted}, and it is {kind}"),
        ));
    }
    Ok(program)
}

/// Compiles the `bodyExpression` of a data source. Its only variable is the time.
fn body_expression(index: usize, source: &DataSource) -> Result<Option<Program>, Problem> {
    let query = source.http.as_ref();
    let text = query.and_then(|query| query.body_expression.as_ref());
    let field = format!("spec.data[{index}].http.bodyExpression");
    let scope = Scope {
        variables: vec![("now".to_owned(), Type::Timestamp)],
        ..Scope::default()
    };
    text.map(|text| program(&field, text, Some(&Type::String), &scope))
        .transpose()
}

fn problem(field: &str, message: &str) -> Problem {
    Problem {
        field: field.to_owned(),
        message: message.to_owned(),
    }
}

fn failed(field: &str, program: &Program, failure: &Failure) -> Problem {
    let message = match failure.at {
        Some(at) => {
            let (line, column) = program.place(at);
            format!("line {line}, column {column}: {}", failure.message)
        }
        None => failure.message.clone(),
    };
    problem(field, &message)
}

fn not_met(ready: &Program) -> String {
    format!("waits until `{}`", shorten(ready.text()))
}

/// Returns the expression in one line, truncated.
fn shorten(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(SHOWN) {
        None => line,
        Some((end, _)) => format!("{}…", &line[..end]),
    }
}
