//! Tools for authors of rules: the verdict of a rule about a Workload, without a cluster, and
//! tables of such cases for a pipeline.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kueue_check::api::Workload;
use kueue_check::{Family, NoParameters, Parameters, RequestBuilder, Verdict};
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::cel::{Data, Failure, Value};
use crate::celcheck::resource::CELCheck;
use crate::celcheck::rule::{Decided, Environment, Rule};
use crate::celcheck::scope;

/// The maximum number of characters of a value in the output.
const SHOWN: usize = 500;

/// The data that rules read besides the Workload.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GivenData {
    /// Objects, by the name of their resource: `configmaps`.
    #[serde(default)]
    objects: BTreeMap<String, Vec<Json>>,
    /// The values of data sources, by name. A value of Prometheus is a list of `{labels: {…},
    /// value: 1.5}`.
    #[serde(default)]
    sources: BTreeMap<String, Json>,
    /// The Workloads that `starting()` returns, whatever its duration is.
    #[serde(default)]
    starting: Vec<Json>,
}

/// A table of cases.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Table {
    /// The file with the `CELCheck`, relative to the folder of the table.
    rule: String,
    /// The name of the `CELCheck`, if the file has several.
    #[serde(default)]
    name: Option<String>,
    /// The data of all cases.
    #[serde(default)]
    data: GivenData,
    cases: Vec<Case>,
}

/// A Workload, and the expected verdict of the rule.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(default)]
    now: Option<Timestamp>,
    #[serde(default)]
    workload: Json,
    /// Overrides the table's object lists and sources, one by one.
    #[serde(default)]
    data: GivenData,
    expect: Expected,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Expected {
    /// `Ready`, `Pending`, `Retry` or `Rejected`; or `Error` if there is no verdict.
    state: String,
    /// The text that the message contains.
    #[serde(default)]
    message: Option<String>,
    /// The expected additions to the pods, as written into the Workload.
    #[serde(default)]
    pod_set_updates: Option<Json>,
}

/// The outcome of one case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The case.
    pub name: String,
    /// The difference from the expected verdict.
    pub problem: Option<String>,
}

/// The outcome of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The file with the table.
    pub table: String,
    /// The cases.
    pub outcomes: Vec<Outcome>,
}

impl GivenData {
    /// Reads the data from YAML.
    ///
    /// # Errors
    /// If the YAML has another structure.
    pub fn read(text: &str) -> Result<Self, String> {
        serde_saphyr::from_str(text).map_err(|error| error.to_string())
    }

    /// Returns this data, and the parts that only `other` has.
    fn over(&self, other: &Self) -> Self {
        let mut all = other.clone();
        all.objects.extend(self.objects.clone());
        all.sources.extend(self.sources.clone());
        if !self.starting.is_empty() {
            all.starting.clone_from(&self.starting);
        }
        all
    }
}

impl Data for GivenData {
    fn object(&self, resource: &str, namespace: Option<&str>, name: &str) -> Result<Value, String> {
        let objects = self.objects(resource, namespace)?;
        let named = |object: &Value| {
            let metadata = object.get("metadata");
            let of = |field| metadata.and_then(|metadata| metadata.get(field));
            // A namespaced object is not found without its namespace.
            of("name") == Some(&Value::text(name))
                && (namespace.is_some() || of("namespace").is_none())
        };
        Ok(objects.into_iter().find(named).unwrap_or(Value::Null))
    }

    fn objects(&self, resource: &str, namespace: Option<&str>) -> Result<Vec<Value>, String> {
        let objects = self.objects.get(resource);
        let objects = objects.ok_or_else(|| format!("`objects` has no `{resource}`"))?;
        let of = |object: &&Json| {
            let own = object["metadata"]["namespace"].as_str();
            namespace.is_none_or(|namespace| own.unwrap_or("default") == namespace)
        };
        Ok(objects.iter().filter(of).map(Value::of).collect())
    }

    fn source(&self, name: &str) -> Result<Value, String> {
        let value = self.sources.get(name);
        value
            .map(Value::of)
            .ok_or_else(|| format!("`sources` has no `{name}`"))
    }

    fn starting(&self, _: SignedDuration) -> Result<Vec<Value>, String> {
        let workloads = self.starting.iter().map(|given| {
            let workload = read_workload(given, "rule", Timestamp::UNIX_EPOCH)?;
            Ok(scope::workload(&workload, &Family::of(&workload, [])))
        });
        workloads.collect()
    }
}

/// Returns the `CELCheck` in `text`, which may have several documents in YAML.
///
/// # Errors
/// If there is none, there are several and no name is given, or it is invalid.
pub fn read_rule(text: &str, name: Option<&str>) -> Result<Arc<CELCheck>, String> {
    let documents: Vec<Json> =
        serde_saphyr::from_multiple(text).map_err(|error| error.to_string())?;
    let mut found = documents.into_iter().filter(|document| {
        let named = |name| document["metadata"]["name"] == name;
        document["kind"] == "CELCheck" && name.is_none_or(named)
    });
    let rule = found.next().ok_or("there is no CELCheck in it")?;
    if found.next().is_some() {
        return Err("it has several CELChecks: say which one by its name".to_owned());
    }
    let rule = CELCheck::decode(rule)?;
    rule.validate()?;
    Ok(Arc::new(rule))
}

/// Returns the document in `text`, in YAML.
///
/// # Errors
/// If there is none, or there are several.
pub fn read_document(text: &str) -> Result<Json, String> {
    serde_saphyr::from_str(text).map_err(|error| error.to_string())
}

/// Returns the Workload in `given`. Missing parts are filled in: a name, one pod, quota since
/// `now`.
///
/// # Errors
/// If it is no Workload.
pub fn read_workload(given: &Json, check: &str, now: Timestamp) -> Result<Workload, String> {
    let mut whole = json!({
        "metadata": {"namespace": "default", "name": "job", "uid": "0b6f1d2e-93a4-4c55-8d6e-7f8091a2b3c4"},
        "spec": {"queueName": "queue", "priority": 0, "podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": []}}}]},
    });
    merge(&mut whole, given);
    let mut sets = whole["spec"]["podSets"].take();
    for set in sets.as_array_mut().into_iter().flatten() {
        let mut with_template = json!({"count": 1, "template": {"spec": {"containers": []}}});
        merge(&mut with_template, set);
        *set = with_template;
    }
    whole["spec"]["podSets"] = sets;
    let mut status = json!({
        "conditions": [{"type": "QuotaReserved", "status": "True", "lastTransitionTime": now.to_string()}],
        "admission": {"clusterQueue": "cluster-queue", "podSetAssignments": []},
        "admissionChecks": [{"name": check, "state": "Pending"}],
    });
    merge(&mut status, &whole["status"]);
    whole["status"] = status;
    Workload::from_json(whole).map_err(|error| error.to_string())
}

/// Applies a JSON merge patch.
fn merge(into: &mut Json, patch: &Json) {
    match (into, patch) {
        (_, Json::Null) => {}
        (Json::Object(into), Json::Object(patch)) => {
            for (key, value) in patch {
                merge(into.entry(key.clone()).or_insert(Json::Null), value);
            }
        }
        (into, patch) => *into = patch.clone(),
    }
}

/// Evaluates `rule` for `workload`.
///
/// # Errors
/// If there is no verdict.
pub fn decide(
    rule: &CELCheck,
    workload: &Json,
    data: &GivenData,
    now: Timestamp,
) -> Result<Decided, String> {
    let name = rule.metadata.name.as_deref().unwrap_or("rule");
    let compiled = Rule::new(&rule.spec, &Environment::default()).map_err(|e| e.to_string())?;
    let workload = read_workload(workload, name, now)?;
    let request = RequestBuilder::new(workload, name).now(now);
    let decided = compiled.decide(&request.build(NoParameters), data);
    decided.map_err(|problem| problem.to_string())
}

fn state(verdict: &Verdict) -> &'static str {
    match verdict {
        verdict if verdict.is_ready() => "Ready",
        verdict if verdict.is_rejected() => "Rejected",
        verdict if verdict.is_retry() => "Retry",
        _ => "Pending",
    }
}

/// Returns a value for people, truncated to a maximum number of characters.
fn shown(value: &Value) -> String {
    struct Short(String);
    impl fmt::Write for Short {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.push_str(text);
            if self.0.len() > 4 * SHOWN {
                return Err(fmt::Error);
            }
            Ok(())
        }
    }
    let mut short = Short(String::new());
    let whole = write!(short, "{value}").is_ok();
    match short.0.char_indices().nth(SHOWN) {
        None if whole => short.0,
        end => {
            let end = end.map_or(short.0.len(), |(end, _)| end);
            format!("{}…", &short.0[..end])
        }
    }
}

/// Returns `decided` as text for people.
pub fn describe(decided: &Decided) -> String {
    let verdict = &decided.verdict;
    let mut text = format!(
        "state: {}\nmessage: {}\n",
        state(verdict),
        verdict.message()
    );
    if let Some(recheck) = verdict.recheck() {
        let _ = writeln!(text, "evaluated again after: {} s", recheck.as_secs());
    }
    for update in verdict.updates().as_slice() {
        let _ = writeln!(text, "podSetUpdate: {}", json!(update));
    }
    for (name, value) in &decided.variables {
        let value = match value {
            Ok(value) => shown(value),
            Err(Failure { message, .. }) => format!("(no value: {message})"),
        };
        let _ = writeln!(text, "variables.{name}: {value}");
    }
    let _ = writeln!(text, "steps: {}", decided.steps);
    text
}

/// Runs the cases of the table in the file `path`. Cases without a time use `now`.
///
/// # Errors
/// If there is no table, or no rule.
pub fn try_table(path: &Path, now: Timestamp) -> Result<Report, String> {
    let read = |path: &Path| {
        std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let in_file = |path: &Path, problem: String| format!("{}: {problem}", path.display());
    let text = read(path)?;
    let table: Table =
        serde_saphyr::from_str(&text).map_err(|error| in_file(path, error.to_string()))?;
    let file = path.parent().unwrap_or(Path::new(".")).join(&table.rule);
    let rule = read_rule(&read(&file)?, table.name.as_deref());
    let rule = rule.map_err(|problem| in_file(&file, problem))?;
    if table.cases.is_empty() {
        return Err(in_file(path, "it has no cases".to_owned()));
    }
    let outcomes = table.cases.iter().map(|case| Outcome {
        name: case.name.clone(),
        problem: differs(&rule, case, &case.data.over(&table.data), now),
    });
    Ok(Report {
        table: path.display().to_string(),
        outcomes: outcomes.collect(),
    })
}

/// Returns the difference from what `case` expects.
fn differs(rule: &CELCheck, case: &Case, data: &GivenData, now: Timestamp) -> Option<String> {
    let expected = &case.expect;
    let decided = decide(rule, &case.workload, data, case.now.unwrap_or(now));
    let (found, message, updates) = match &decided {
        Ok(decided) => {
            let verdict = &decided.verdict;
            let updates = json!(verdict.updates().as_slice());
            (state(verdict), verdict.message().to_owned(), updates)
        }
        Err(problem) => ("Error", problem.clone(), Json::Null),
    };
    if found != expected.state {
        return Some(format!(
            "expected {}, and it is {found}: {message}",
            expected.state
        ));
    }
    if let Some(part) = &expected.message
        && !message.contains(part.as_str())
    {
        return Some(format!(
            "expected `{part}` in the message, and it is `{message}`"
        ));
    }
    match &expected.pod_set_updates {
        Some(expected) if *expected != updates => Some(format!(
            "expected podSetUpdates {expected}, and they are {updates}"
        )),
        _ => None,
    }
}

impl Report {
    /// Returns true if every case is as expected.
    pub fn passed(&self) -> bool {
        self.outcomes
            .iter()
            .all(|outcome| outcome.problem.is_none())
    }

    /// Returns the report in the XML of `JUnit`, which CI systems read.
    pub fn to_junit(&self) -> String {
        let failures = self
            .outcomes
            .iter()
            .filter(|outcome| outcome.problem.is_some());
        let mut text = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\">\n",
            escaped(&self.table),
            self.outcomes.len(),
            failures.count()
        );
        for outcome in &self.outcomes {
            let name = escaped(&outcome.name);
            let table = escaped(&self.table);
            let _ = match &outcome.problem {
                None => writeln!(
                    text,
                    "    <testcase classname=\"{table}\" name=\"{name}\"/>"
                ),
                Some(problem) => writeln!(
                    text,
                    "    <testcase classname=\"{table}\" name=\"{name}\"><failure message=\"{}\"/></testcase>",
                    escaped(problem)
                ),
            };
        }
        text + "  </testsuite>\n</testsuites>\n"
    }
}

/// Returns `text` for an attribute of XML. Characters that XML cannot have become spaces.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Writes `ok`, or the difference, for each case.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for outcome in &self.outcomes {
            match &outcome.problem {
                None => writeln!(f, "ok      {}", outcome.name)?,
                Some(problem) => writeln!(f, "FAILED  {}: {problem}", outcome.name)?,
            }
        }
        let failed = self
            .outcomes
            .iter()
            .filter(|outcome| outcome.problem.is_some());
        writeln!(
            f,
            "{} cases, {} failed",
            self.outcomes.len(),
            failed.count()
        )
    }
}
