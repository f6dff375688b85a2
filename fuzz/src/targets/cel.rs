//! Rules: CEL text of an administrator over foreign data.

use std::sync::LazyLock;

use jiff::{SignedDuration, Timestamp};
use kueue_check::api::Workload;
use kueue_check::{NoParameters, RequestBuilder};
use kueue_check_rule::cel::{
    Data, LONGEST, Program, Run, STEPS, Scope, SourceKind, Type, Value, Variables,
};
use kueue_check_rule::celcheck::resource::CELCheckSpec;
use kueue_check_rule::celcheck::rule::{Environment, Rule};
use serde_json::{Value as Json, json};

use super::{
    DictionaryWords, Form, LARGE, Outcome, Target, assert_line, magnitude, outcome, shape,
};
use crate::mutate::split;
use crate::target::DictionaryWords::{Of, One};

const WORDS: &[DictionaryWords] = &[
    Of("workload pods name data labels has( )"),
    One(".all(x, "),
    One(".exists(x, "),
    One(".map(x, "),
    One(".filter(x, "),
    Of("
        .size() size( .matches(' .contains(' .startsWith(' .split(' .join( quantity(' duration('
        timestamp(' now int( double( string( true false null
    "),
    One(" && "),
    One(" || "),
    One("!"),
    One(" ? "),
    One(" : "),
    One(" == "),
    One(" != "),
    One(" < "),
    One(" >= "),
    One(" in "),
    One(" + "),
    One(" - "),
    One(" * "),
    One(" / "),
    One(" % "),
    Of("
        [ ] { } ' \" r' b' ''' 1u 1e308 9223372036854775807 -9223372036854775808 0x7fffffffffffffff
        .? [? optional.of( .orValue(
    "),
    One("cel.bind(x, "),
    Of("
        [[[[[[[[ (((((((( -------- !!!!!!!! (a|b)*c [0] .getFullYear() .date .time .sum() .min()
        .max() .lowerAscii() .replace( object(' objects(' starting( http('seats') http('absent')
        prometheus('gpu') .value .labels sum( //
    "),
    One("\n"),
    One("\\"),
];

pub(super) const CEL: Target = Target {
    name: "cel",
    about: "expressions of rules, and the JSON that they read",
    form: Form::Parts,
    dictionary: WORDS,
    memory: LARGE,
    run: cel,
};

/// The data in the second part of an input.
struct Foreign(Json);

impl Data for Foreign {
    fn object(&self, _: &str, _: Option<&str>, name: &str) -> Result<Value, String> {
        Ok(Value::of(&self.0[name]))
    }

    fn objects(&self, _: &str, _: Option<&str>) -> Result<Vec<Value>, String> {
        Ok(self
            .0
            .as_array()
            .into_iter()
            .flatten()
            .map(Value::of)
            .collect())
    }

    fn source(&self, name: &str) -> Result<Value, String> {
        match name {
            "absent" => Err("it does not respond".to_owned()),
            "gpu" => {
                let sample = [("labels", Type::map(Type::String)), ("value", Type::Double)];
                let samples = Type::list(Type::object("sample", sample));
                Ok(Value::of_type(&self.0["samples"], &samples))
            }
            _ => Ok(Value::of(&self.0)),
        }
    }

    fn starting(&self, _: SignedDuration) -> Result<Vec<Value>, String> {
        Ok(Vec::new())
    }
}

fn cel(input: &[u8]) -> Outcome {
    let parts = split(input);
    let text = String::from_utf8_lossy(&parts[0]);
    let json: Json = parts
        .get(1)
        .and_then(|part| serde_json::from_slice(part).ok())
        .unwrap_or_default();
    let variables = [
        ("pods", Type::Int, json!(8)),
        ("name", Type::String, json!("team-a/train")),
        ("labels", Type::map(Type::String), json["labels"].clone()),
        ("list", Type::list(Type::Dyn), json["list"].clone()),
        ("any", Type::Dyn, json.clone()),
        ("now", Type::Timestamp, json!("2026-11-21T09:00:00Z")),
        ("memory", Type::Quantity, json!("64Gi")),
    ];
    let scope = Scope {
        variables: variables
            .iter()
            .map(|(name, kind, _)| ((*name).to_owned(), kind.clone()))
            .collect(),
        sources: [
            ("seats", SourceKind::Http),
            ("absent", SourceKind::Http),
            ("gpu", SourceKind::Prometheus),
        ]
        .into_iter()
        .map(|(name, kind)| (name.to_owned(), kind))
        .collect(),
        ..Scope::default()
    };
    let program = match Program::new(&text, &scope) {
        Ok(program) => program,
        Err(mistake) => {
            let mistake = mistake.to_string();
            assert!(mistake.len() < 8 * LONGEST, "{} bytes", mistake.len());
            return outcome(shape(&mistake));
        }
    };
    assert!(text.len() <= LONGEST);
    let values: Vec<Value> = variables
        .iter()
        .map(|(_, kind, json)| Value::of_type(json, kind))
        .collect();
    let data = Foreign(json);
    let evaluate = || {
        let mut run = Run::new(&data);
        let variables = Variables {
            values: &values,
            declared: &[],
        };
        let value = program.evaluate(variables, &mut run);
        assert!(run.steps() <= STEPS);
        (
            value.map(|value| (value.kind(), value.to_string())),
            run.steps(),
        )
    };
    let (value, steps) = evaluate();
    assert_eq!(
        evaluate(),
        (value.clone(), steps),
        "it is not the same each time"
    );
    match value {
        Ok((kind, shown)) => {
            // The value has the type that the compiler returned.
            let promised = program.kind();
            assert!(
                fits(&kind, promised),
                "{text}: {kind} where {promised} was promised: {shown}"
            );
            outcome((
                kind.to_string(),
                magnitude(shown.len()),
                magnitude(usize::try_from(steps).unwrap_or(0)),
            ))
        }
        Err(failure) => outcome((
            shape(&failure.message),
            magnitude(usize::try_from(steps).unwrap_or(0)),
        )),
    }
}

/// Returns true if a value of this type fits the type that the compiler returned.
fn fits(kind: &Type, promised: &Type) -> bool {
    match (kind, promised) {
        (Type::Dyn, _)
        | (_, Type::Dyn)
        | (Type::Map(_) | Type::Object(_) | Type::Null, Type::Object(_)) => true,
        (Type::List(one), Type::List(other))
        | (Type::Map(one), Type::Map(other))
        | (Type::Optional(one), Type::Optional(other)) => fits(one, other),
        (one, other) => one == other,
    }
}

pub(super) const RULE: Target = Target {
    name: "rule",
    about: "specs of a CELCheck, and their verdicts about a Workload",
    form: Form::Json,
    dictionary: &[
        Of("
            ready retry reject message variables name expression data prometheus http url query
            interval maxAge podSetUpdates labels annotations nodeSelector tolerations recheckAfter
            retryAfter 30s 0s workload.labels workload.podSets podSet.name podSet.count vars.x now
            attempt waited '\\u0000' string(now) workload.requests flavors true
        "),
        One("pods > 1"),
        Of("objects('pods') data.seats"),
    ],
    memory: LARGE,
    run: rule,
};

fn rule(input: &[u8]) -> Outcome {
    static WORKLOAD: LazyLock<Option<Workload>> = LazyLock::new(|| {
        let object = json!({
            "metadata": {"namespace": "team-a", "name": "train", "uid": "1", "labels": {"team": "a"}},
            "spec": {"queueName": "main", "podSets": [{"name": "main", "count": 4, "template": {"spec": {
                "containers": [{"resources": {"requests": {"cpu": "2", "nvidia.com/gpu": "1"}}}]}}}]},
            "status": {
                "conditions": [{"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-11-21T09:00:00Z"}],
                "admission": {"clusterQueue": "gpus", "podSetAssignments": [{"name": "main", "count": 4,
                    "flavors": {"cpu": "spot"}, "resourceUsage": {"cpu": "8"}}]},
                "admissionChecks": [{"name": "rule", "state": "Pending"}],
            },
        });
        Workload::from_json(object).ok()
    });
    let spec: CELCheckSpec = match serde_json::from_slice(input) {
        Ok(spec) => spec,
        Err(error) => return outcome(shape(&error.to_string())),
    };
    let environment = Environment {
        resources: Some([String::from("pods")].into()),
        setting: "--watch",
    };
    let rule = match Rule::new(&spec, &environment) {
        Ok(rule) => rule,
        Err(problem) => return outcome((problem.field.len(), shape(&problem.message))),
    };
    let Some(workload) = WORKLOAD.clone() else {
        return 0;
    };
    let now: Result<Timestamp, _> = "2026-11-21T09:30:00Z".parse();
    let request = RequestBuilder::new(workload, "rule")
        .now(now.unwrap_or_default())
        .build(NoParameters);
    let data = Foreign(json!({"free": 3}));
    let decided = rule.decide(request.request(), &data);
    let again = rule.decide(request.request(), &data);
    match (decided, again) {
        (Ok(one), Ok(other)) => {
            assert_eq!(one.verdict, other.verdict);
            assert!(one.steps <= STEPS);
            assert_line(one.verdict.message(), kueue_check::MESSAGE_LIMIT);
            let recheck = one.verdict.recheck();
            assert!(recheck.is_none_or(|recheck| !recheck.is_zero()));
            outcome((
                one.verdict.is_ready(),
                one.verdict.is_pending(),
                one.verdict.is_retry(),
                one.verdict.updates().as_slice().len(),
                recheck.is_some(),
                magnitude(usize::try_from(one.steps).unwrap_or(0)),
            ))
        }
        (Err(one), Err(other)) => {
            assert_eq!(one, other);
            outcome((one.field.len(), shape(&one.message)))
        }
        (one, other) => panic!("{one:?} and {other:?}"),
    }
}
