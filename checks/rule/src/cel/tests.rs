use std::time::Duration;

use jiff::SignedDuration;
use kueue_check::api::Quantity;
use serde_json::json;
use tokio::time::Instant;

use super::*;

fn scope() -> Scope {
    let pod_set = Type::object("podSet", [("name", Type::String), ("count", Type::Int)]);
    let workload = Type::object(
        "workload",
        [
            ("name", Type::String),
            ("namespace", Type::String),
            ("labels", Type::map(Type::String)),
            ("priority", Type::Int),
            ("queue", Type::String),
            ("podSets", Type::list(pod_set)),
        ],
    );
    Scope {
        variables: vec![
            ("workload".to_owned(), workload),
            ("now".to_owned(), Type::Timestamp),
            ("any".to_owned(), Type::Dyn),
        ],
        declared: vec![
            ("hour".to_owned(), Type::Int),
            ("broken".to_owned(), Type::Dyn),
        ],
        resources: Some(["configmaps".to_owned(), "namespaces".to_owned()].into()),
        resources_setting: "--watch".to_owned(),
        sources: [
            ("price".to_owned(), SourceKind::Http),
            ("alerts".to_owned(), SourceKind::Prometheus),
        ]
        .into(),
    }
}

struct Stored;

impl Data for Stored {
    fn starting(&self, within: SignedDuration) -> Result<Vec<Value>, String> {
        let jobs = [
            json!({"name": "a", "priority": 2}),
            json!({"name": "b", "priority": 3}),
        ];
        let count = if within.as_mins() > 5 { 2 } else { 1 };
        Ok(jobs[..count].iter().map(Value::of).collect())
    }

    fn object(&self, _: &str, namespace: Option<&str>, name: &str) -> Result<Value, String> {
        Ok(match (namespace, name) {
            (Some("kueue"), "holidays") => Value::of(&json!({"data": {"2026-12-25": "x"}})),
            (None, "team-a") => Value::of(&json!({"metadata": {"labels": {"tier": "gold"}}})),
            _ => Value::Null,
        })
    }

    fn objects(&self, _: &str, namespace: Option<&str>) -> Result<Vec<Value>, String> {
        Ok(vec![Value::Int(1); if namespace.is_some() { 1 } else { 3 }])
    }

    fn source(&self, name: &str) -> Result<Value, String> {
        match name {
            "price" => Ok(Value::of(&json!({"eur": 0.25}))),
            _ => Err("the data source `alerts` has not responded yet".to_owned()),
        }
    }
}

fn run(text: &str) -> Result<Value, String> {
    let program = Program::new(text, &scope()).map_err(|mistake| mistake.to_string())?;
    let workload = Value::of(&json!({
        "name": "train", "namespace": "team-a", "labels": {"team": "vision", "a/b": "c"}, "priority": 7,
        "podSets": [{"name": "main", "count": 4}, {"name": "ps", "count": 1}],
    }));
    let now = Value::Timestamp("2026-11-23T20:15:30.250Z".parse().unwrap());
    let declared = [Ok(Value::Int(20)), Err(Failure::new("no hour"))];
    let variables = Variables {
        values: &[
            workload,
            now,
            Value::of(&json!({"n": 3, "s": "x", "l": [1, 2.5], "z": null})),
        ],
        declared: &declared,
    };
    program
        .evaluate(variables, &mut Run::new(&Stored))
        .map_err(|failure| failure.message)
}

#[test]
fn what_expressions_are_worth() {
    for (text, expected) in [
        // Operators.
        ("1 + 2 * 3", "7"),
        ("7 / 2", "3"),
        ("-7 % 3", "-1"),
        ("7 / 2.0", "3.5"),
        ("1 == 1.0 && 1 < 1.5 && 2 > 1.5", "true"),
        ("9223372036854775807 == 9223372036854775808.0", "false"),
        ("'a' + \"b\"", r#""ab""#),
        ("[1] + [2.5]", "[1,2.5]"),
        ("!(1 in [2, 3])", "true"),
        ("'a' in {'a': 1}", "true"),
        ("[1, [2]] == [1.0, [2]]", "true"),
        ("{'a': 1, 2: true}[2]", "true"),
        ("true ? 1 : 2", "1"),
        ("1 == null", "false"),
        // The deciding side makes the other side irrelevant.
        ("false && any.missing", "false"),
        ("any.missing && false", "false"),
        ("any.missing || true", "true"),
        ("[1, 2, 0].exists(x, 4 / x == 2)", "true"),
        ("[0, 1].all(x, 1 / x == 2)", "false"),
        // Fields.
        ("workload.labels.team", r#""vision""#),
        ("workload.labels['a/b']", r#""c""#),
        ("has(workload.queue)", "false"),
        ("has(workload.labels.team)", "true"),
        ("has(any.z)", "true"),
        ("has(any.z.x)", "false"),
        ("workload.?queue.orValue('none')", r#""none""#),
        ("workload.labels[?'team'].value()", r#""vision""#),
        ("any.?x.?y.hasValue()", "false"),
        ("[?workload.?queue, ?optional.of('x')]", r#"["x"]"#),
        ("{?'a': any.?x}.size()", "0"),
        ("variables.hour + 1", "21"),
        // Macros.
        ("workload.podSets.map(p, p.count)", "[4,1]"),
        (
            "workload.podSets.map(p, p.count > 1, p.name)",
            r#"["main"]"#,
        ),
        ("workload.podSets.filter(p, p.count > 1).size()", "1"),
        ("workload.podSets.exists_one(p, p.name == 'ps')", "true"),
        ("workload.labels.all(key, key.size() > 0)", "true"),
        ("[1, 2].map(x, [x, 3].map(x, x * 2))", "[[2,6],[4,6]]"),
        ("workload.podSets.map(p, p.count).sum()", "5"),
        (
            "[quantity('1')].filter(q, false).sum() < quantity('1')",
            "true",
        ),
        (
            "[duration('1m')].filter(d, false).sum() == duration('0s')",
            "true",
        ),
        ("[1.5].filter(d, false).sum() + 0.5", "0.5"),
        ("['a'].filter(x, false).sum() == ''", "true"),
        ("[[1]].filter(x, false).sum().size()", "0"),
        // Text.
        ("'héllo'.size()", "5"),
        ("'héllo'.substring(1, 3)", r#""él""#),
        ("'héllo'.indexOf('l')", "2"),
        ("'a,b,c'.split(',')", r#"["a","b","c"]"#),
        ("['a', 'b'].join('-')", r#""a-b""#),
        ("' x '.trim().upperAscii()", r#""X""#),
        ("'abc'.replace('b', 'xx')", r#""axxc""#),
        ("'job-17'.matches('^job-[0-9]+$')", "true"),
        ("'job-17'.find('[0-9]+')", r#""17""#),
        ("'a1b22'.findAll('[0-9]+')", r#"["1","22"]"#),
        (
            "'%s has %d of %.2f%%'.format(['x', 3, 1.5])",
            r#""x has 3 of 1.50%""#,
        ),
        (
            "'hello'.charAt(1) + 'hello'.lastIndexOf('l').format([]) ",
            "!",
        ),
        (
            "string(1) + string(true) + string(1.5) + string(duration('90s'))",
            r#""1true1.590s""#,
        ),
        (
            "int('42') + int(3.9) + int(timestamp('1970-01-01T00:00:01Z'))",
            "46",
        ),
        ("double('1.5') + double(quantity('500m'))", "2"),
        ("bool('true')", "true"),
        ("type(now)", r#""timestamp""#),
        // Times.
        ("now.getHours()", "20"),
        ("now.getHours('Europe/Berlin')", "21"),
        ("now.getHours('-05:30')", "14"),
        ("now.getDayOfWeek()", "1"),
        (
            "[now.getFullYear(), now.getMonth(), now.getDate(), now.getDayOfMonth(), now.getDayOfYear()]",
            "[2026,10,23,22,326]",
        ),
        (
            "[now.getMinutes(), now.getSeconds(), now.getMilliseconds()]",
            "[15,30,250]",
        ),
        ("now.date('Pacific/Auckland')", r#""2026-11-24""#),
        ("now.time('Europe/Berlin') >= '20:00'", "true"),
        ("now - duration('30m') < now", "true"),
        (
            "(now - timestamp('2026-11-23T20:00:00Z')).getMinutes()",
            "15",
        ),
        ("duration('1h30m').getMinutes()", "90"),
        // Quantities and numbers.
        ("quantity('1.5Gi') > quantity('1G')", "true"),
        ("quantity('1Gi').isGreaterThan(quantity('1G'))", "true"),
        (
            "quantity('1').add(quantity('500m')) + quantity(1)",
            r#""2.5""#,
        ),
        ("quantity('2k').asInteger()", "2000"),
        ("isQuantity('2 GB')", "false"),
        ("math.greatest(1, 2.5) + math.least([3, 1])", "3.5"),
        (
            "[math.greatest(1), math.greatest(1, 3, 2, 2.5), math.least(4, 3.5, 5)]",
            "[1,3,3.5]",
        ),
        ("math.greatest(dyn('x'), 1)", "!"),
        ("math.abs(-2) + 0", "2"),
        (
            "[math.ceil(1.2), math.floor(1.8), math.round(1.5)]",
            "[2,1,2]",
        ),
        ("[3, 1, 2].max() + [3, 1, 2].min()", "4"),
        ("[1, 2].isSorted() && ![2, 1].isSorted()", "true"),
        ("['a', 'b'].indexOf('b')", "1"),
        (
            "[3, 1.5, 2].sort() + ['b', 'a', 'c'].sort()",
            r#"[1.5,2,3,"a","b","c"]"#,
        ),
        ("[].sort()", "[]"),
        ("[1, 'a'].sort()", "!"),
        ("[[1], [2]].sort()", "!"),
        ("[0.0 / 0.0, 1.0].sort()", "!"),
        (
            "['ccc', 'a', 'bb', 'd'].sortBy(x, -size(x))",
            r#"["ccc","bb","a","d"]"#,
        ),
        ("{'b': 2, 'a': 3}.sortBy(k, k)", r#"["a","b"]"#),
        ("[1, 2].sortBy(x, [x])", "!"),
        ("[1, 2, 3].reverse().slice(0, 2)", "[3,2]"),
        ("[1, 2].slice(1, 3)", "!"),
        ("[1, 2].slice(2, 1)", "!"),
        ("[1, 2].slice(-1, 1)", "!"),
        ("[1, 2, 1, 1.0, 3].distinct()", "[1,2,3]"),
        // Data.
        (
            "now.date() in object('configmaps', 'kueue', 'holidays').data",
            "false",
        ),
        ("object('configmaps', 'kueue', 'missing') == null", "true"),
        (
            "objects('configmaps').size() + objects('configmaps', 'x').size()",
            "4",
        ),
        ("namespaceObject.metadata.labels.tier == 'gold'", "true"),
        ("http('price').eur < 0.3", "true"),
        (
            "starting('10m').map(w, w.priority).sum() + starting('5m').size()",
            "6",
        ),
    ] {
        let value = run(text).map(|value| value.to_string());
        if expected == "!" {
            assert!(value.is_err(), "{text}: {value:?}");
        } else {
            assert_eq!(value.as_deref(), Ok(expected), "{text}");
        }
    }
}

#[test]
fn mistakes_are_found_before_there_are_values() {
    for (text, expected) in [
        ("1 +", "line 1, column 4: syntax: "),
        (
            "wrkload.name",
            "line 1, column 1: there is no variable `wrkload`: did you mean `workload`?",
        ),
        (
            "workload.nmae == 'x'",
            "column 9: a workload has no field `nmae`: did you mean `name`?",
        ),
        (
            "workload.podSets[0].cont > 1",
            "a podSet has no field `cont`: did you mean `count`?",
        ),
        ("workload.name > 3", "there is no string > int"),
        ("workload.name == 3", "there is no string == int"),
        ("workload.priority + 'x'", "there is no int + string"),
        (
            "workload.priority && true",
            "each side of `&&` is a bool, not an int",
        ),
        (
            "workload.priority ? 1 : 2",
            "the condition of `? :` is a bool, not an int",
        ),
        ("workload.name.priority", "a string has no fields"),
        ("workload.podSets['x']", "has no element [string]"),
        (
            "workload.podSets.exists(p, p.count)",
            "the condition for each element is a bool, not an int",
        ),
        (
            "workload.name.startWith('x')",
            "column 15: there is no function `startWith` here: did you mean `startsWith`?",
        ),
        (
            "1 > 0 && 'é'\n  .trmi ()",
            "line 2, column 4: there is no function `trmi` here: did you mean `trim`?",
        ),
        (
            "math.least(1, 2, 'x')",
            "`math.least` is not for (int, int, string): it is `math.least(list)` or `math.least(number, …)`",
        ),
        ("math.abz(1)", "column 6: there is no function `math.abz`"),
        ("starting(5)", "column 10: write `starting('10m')`"),
        ("starting('5')", "column 10: write `starting('10m')`"),
        (
            "starting('2h') + starting('25h')",
            "write `starting('10m')`",
        ),
        (
            "starting('1h').exists(w, w.nmae == '')",
            "a workload has no field `nmae`: did you mean `name`?",
        ),
        ("sizee('x')", "column 1: there is no function `sizee`"),
        ("true || now.date(3) == ''", "column 13: `date` is not for"),
        (
            "'é😀' == 'x' && nope",
            "column 16: there is no variable `nope`",
        ),
        (
            "startsWith(workload.name, 'x')",
            "it is called as `string.startsWith(string)`",
        ),
        (
            "workload.name.startsWith(3)",
            "`startsWith` is not for (string, int): it is `string.startsWith(string)`",
        ),
        (
            "now.getHours('Europe/Berln')",
            "column 14: `Europe/Berln` is no time zone",
        ),
        ("'x'.matches('(')", "no regular expression: unclosed group"),
        ("duration('5 x')", "`5 x` is no duration"),
        ("quantity('5 x')", "`5 x` is not a quantity"),
        ("timestamp('today')", "`today` is no point in time"),
        (
            "object('configmap', 'a', 'b')",
            "`configmap` are not watched: did you mean `configmaps`?",
        ),
        (
            "objects('nodes')",
            "`nodes` are not watched: add `--watch nodes` to the arguments of the check",
        ),
        ("object(workload.name, 'b')", "with the resource in quotes"),
        (
            "http('prices')",
            "`spec.data` has no `prices`: did you mean `price`?",
        ),
        (
            "http('alerts')",
            "`alerts` is queried by `prometheus('alerts')`",
        ),
        (
            "prometheus('alerts')[0].valu > 0.0",
            "a sample has no field `valu`: did you mean `value`?",
        ),
        (
            "variables.hours > 2",
            "there is no variable `hours` before this one: did you mean `hour`?",
        ),
        ("variables", "write `variables.NAME`"),
        ("1u + 2u", "unsigned numbers are not supported"),
        ("b'abc'", "bytes are not supported"),
        ("Thing{a: 1}", "there is no type `Thing`"),
        ("has(workload)", "has() requires a field"),
        (
            "true\n&& workload.prioritty > 3",
            "line 2, column 12: a workload has no field `prioritty`",
        ),
        ("", "line 1, column 1: "),
    ] {
        let result = Program::new(text, &scope()).map(|program| program.kind().clone());
        let mistake = result.expect_err(text).to_string();
        assert!(mistake.contains(expected), "{text}: {mistake}");
    }
}

#[test]
fn an_expression_without_a_value_returns_the_reason() {
    for (text, expected) in [
        ("any.missing", "there is no `missing`"),
        ("any.z.x", "there is nothing that could have a `x`"),
        ("any.l[7]", "there is no element 7"),
        ("any.n / 0", "a whole number is divided by zero"),
        ("9223372036854775807 + 1", "the number is too large"),
        ("any.s + 1", "there is no string + int"),
        ("any.s > any.n", "a string and an int have no order"),
        ("any.n ? 1 : 2", "expected a bool, not an int"),
        ("[].max()", "the list is empty"),
        ("int('x')", "`x` is no whole number"),
        ("any.?x.value()", "the value is absent"),
        (
            "prometheus('alerts').size()",
            "the data source `alerts` has not responded yet",
        ),
        ("variables.broken", "no hour"),
        ("any.missing && true", "there is no `missing`"),
        ("now + duration('99999999h')", "the time is too far away"),
        ("'%s'.format([])", "format() has more places than values"),
        (
            "'%x'.format([1])",
            "format() does not support `%x`: expected %s, %d, %f or %%",
        ),
        ("[1, 'x'].map(x, dyn(x) + 1)", "there is no string + int"),
    ] {
        assert_eq!(
            run(text).map(|value| value.to_string()),
            Err(expected.to_owned()),
            "{text}"
        );
    }
}

#[test]
fn the_inputs_of_an_expression_are_listed() {
    let uses = |text| Program::new(text, &scope()).unwrap().uses().clone();
    let found =
        uses("now > timestamp(0) && object('configmaps', 'a', 'b') == null && http('price') == 1");
    assert_eq!(found.variables, ["now".to_owned()].into());
    assert_eq!(found.resources, ["configmaps".to_owned()].into());
    assert_eq!(found.sources, ["price".to_owned()].into());
    let found = uses("namespaceObject.metadata.name");
    assert_eq!(found.resources, ["namespaces".to_owned()].into());
}

/// Each ends within the step limit, with its own error.
#[test]
fn evaluation_is_bounded_in_steps() {
    let doubled = (0..28).fold("'xxxxxxxxxxxxxxxx'".to_owned(), |text, level| {
        format!("[{text}].map(v{level}, v{level} + v{level})[0]")
    });
    let nested = (0..30).fold("[1,2,3,4,5,6,7,8]".to_owned(), |text, level| {
        format!("[1,2,3,4,5,6,7,8].map(v{level}, {text})")
    });
    let shared = (0..28).fold("[1, 2]".to_owned(), |text, level| {
        format!("[{text}].map(v{level}, [v{level}, v{level}])[0]")
    });
    let absorbed = (0..20).fold("true".to_owned(), |text, level| {
        format!("[1,2,3,4,5,6,7,8].exists(v{level}, false || {text} && false)")
    });
    let big = |text: &str, levels: u32| {
        (0..levels).fold(format!("'{text}'"), |text, level| {
            format!("[{text}].map(v{level}, v{level} + v{level})[0]")
        })
    };
    let hundred = vec!["1"; 100].join(",");
    for (text, expected) in [
        (doubled, "steps"),
        (nested, "steps"),
        (format!("{shared} == {shared}"), "steps"),
        (absorbed, "steps"),
        ("'x'.matches('((a{100}){100}){100}')".to_owned(), "too large"),
        ("[1,2,3,4,5,6,7,8,9].map(a, [1,2,3,4,5,6,7,8,9,10,11,12].map(b, ('x' + string(a) + string(b)).matches('[a-z]{50}' + string(a * 100 + b))))".to_owned(), "steps"),
        // A short pattern that is compiled to thousands of states.
        (
            big("01010101010101010", 14) + ".matches('[01]*1[01]{2000}')",
            "steps",
        ),
        // Each search for the next match reads the text up to its end.
        (format!("{}.findAll('.*[^A-Z]|[A-Z]')", big("AAAAAAAAAAAAAAAA", 14)), "steps"),
        (
            big("1111111111111111", 9) + ".findAll('[01]*1[01]{200}x|[01]')",
            "steps",
        ),
        // Classes of Unicode are slow to compile, also if the whole is too large.
        (
            format!(
                "[{hundred}].exists(i, 'x'.matches({}))",
                big(r"\\w\\w\\w\\w\\w\\w", 8)
            ),
            "steps",
        ),
        // Conversions read their text.
        (
            format!(
                "[{}].map(t, [{hundred}].all(a, [{hundred}].all(b, isQuantity(t + 'Ei'))))",
                big("1111111111111111", 14)
            ),
            "steps",
        ),
        (format!("'x'.matches({})", big(r"\\\\w\\\\w\\\\w\\\\w\\\\w\\\\w", 10)), "too large"),
        // One character of the template prints 300 digits.
        (
            format!(
                "[{}].map(a, [{}].map(b, '{}'.format([{}])))",
                vec!["1"; 100].join(","),
                vec!["1"; 100].join(","),
                "%f".repeat(100),
                vec!["1e308"; 100].join(",")
            ),
            "steps",
        ),
        (format!("{}1{}", "(".repeat(4000), ")".repeat(4000)), ""),
        (format!("{}1{}", "[".repeat(4000), "]".repeat(4000)), ""),
        (format!("1{}", "+1".repeat(4000)), "deeper"),
        (format!("true{}", "&&true".repeat(1300)), ""),
        ("!".repeat(8000), ""),
        ("a.".repeat(4000), ""),
        ("true ? ".repeat(1000), ""),
        ("\u{0}\u{202e}".repeat(100), ""),
        ("1".repeat(9000), "more than 8192 characters"),
    ] {
        let begun = Instant::now();
        let result = run(&text).map(|value| value.kind());
        let took = begun.elapsed();
        let shown: String = text.chars().take(60).collect();
        if !expected.is_empty() {
            let problem = result.clone().unwrap_err();
            assert!(problem.contains(expected), "{shown}: {problem}");
        }
        assert!(took < Duration::from_secs(20), "{shown}: {took:?}");
        println!("{took:>10.1?} {shown} → {result:.120?}", result = result.map_err(|e| e.chars().take(100).collect::<String>()));
    }
}

#[test]
fn types_come_from_the_schema_of_a_document() {
    let schema = json!({
        "type": "object",
        "properties": {
            "at": {"type": "string", "format": "date-time"},
            "maybe": {"type": ["integer", "null"], "format": "int64"},
            "tags": {"type": "object", "additionalProperties": {"type": "string"}},
            "parts": {"type": "array", "items": {"$ref": "#/$defs/Part"}},
            "one": {"anyOf": [{"$ref": "#/$defs/Part"}, {"type": "null"}]},
        },
    });
    let definitions = json!({"Part": {"type": "object", "properties": {"n": {"type": "number"}}}});
    let part = Type::object("Part", [("n", Type::Double)]);
    let expected = Type::object(
        "thing",
        [
            ("at", Type::Timestamp),
            ("maybe", Type::Int),
            ("tags", Type::map(Type::String)),
            ("parts", Type::list(part.clone())),
            ("one", part),
        ],
    );
    assert_eq!(Type::of_schema(&schema, &definitions, "thing"), expected);
    let value = Value::of_type(
        &json!({"at": "2026-11-23T00:00:00Z", "maybe": 3}),
        &expected,
    );
    assert!(matches!(
        value.field(&"at".into()),
        Some(Value::Timestamp(_))
    ));
    assert_eq!(Value::Quantity(Quantity::ZERO).to_string(), r#""0""#);
}

/// Reproducible random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    fn of(&mut self, all: &[&str]) -> String {
        all[self.below(all.len())].to_owned()
    }
}

/// Returns a random expression of a kind: `i`nt, `b`ool, `s`tring, `l`ist of ints, `t`exts, `m`ap.
fn expression(random: &mut Random, kind: char, depth: usize) -> String {
    let sub = |random: &mut Random, kind| expression(random, kind, depth.saturating_sub(1));
    if depth == 0 {
        return match kind {
            'i' => random.of(&[
                "0",
                "1",
                "2",
                "7",
                "-3",
                "9223372036854775807",
                "v.n",
                "v.missing",
            ]),
            'b' => random.of(&["true", "false", "v.yes", "v.missing"]),
            's' => random.of(&["''", "'a'", "'b c'", "'\u{e9}x'", "v.s"]),
            'l' => random.of(&["[]", "[1]", "[3, 1, 2]", "v.l"]),
            't' => random.of(&["[]", "['a', 'b']", "['x']"]),
            _ => random.of(&["{}", "{'a': 1, 'b': 2}", "v.m"]),
        };
    }
    match kind {
        'i' => match random.below(9) {
            0..4 => {
                let sign = random.of(&["+", "-", "*", "/", "%"]);
                format!("({} {sign} {})", sub(random, 'i'), sub(random, 'i'))
            }
            4 => format!(
                "({} ? {} : {})",
                sub(random, 'b'),
                sub(random, 'i'),
                sub(random, 'i')
            ),
            5 => format!("{}[{}]", sub(random, 'l'), sub(random, 'i')),
            6 => format!("size({})", sub(random, 's')),
            7 => format!("{}.size()", sub(random, 'l')),
            _ => format!("{}.{}", sub(random, 'm'), random.of(&["a", "b", "c"])),
        },
        'b' => match random.below(11) {
            0 | 1 => format!("({} && {})", sub(random, 'b'), sub(random, 'b')),
            2 | 3 => format!("({} || {})", sub(random, 'b'), sub(random, 'b')),
            4 => format!("!{}", sub(random, 'b')),
            5 => {
                let sign = random.of(&["<", "<=", ">", ">=", "==", "!="]);
                let kind = ['i', 's'][random.below(2)];
                format!("({} {sign} {})", sub(random, kind), sub(random, kind))
            }
            6 => format!("({} == {})", sub(random, 'l'), sub(random, 'l')),
            7 => format!("({} in {})", sub(random, 'i'), sub(random, 'l')),
            8 => {
                let each = random.of(&["all", "exists", "exists_one"]);
                let list = sub(random, 'l');
                let body = sub(random, 'i');
                format!("{list}.{each}(x, x > {body} || 6 / x == 3)")
            }
            9 => format!(
                "{}.{}({})",
                sub(random, 's'),
                random.of(&["contains", "startsWith", "endsWith"]),
                sub(random, 's')
            ),
            _ => format!("has({}.{})", sub(random, 'm'), random.of(&["a", "c"])),
        },
        's' => match random.below(7) {
            0 => format!("({} + {})", sub(random, 's'), sub(random, 's')),
            1 => format!(
                "({} ? {} : {})",
                sub(random, 'b'),
                sub(random, 's'),
                sub(random, 's')
            ),
            2 => format!("string({})", sub(random, 'i')),
            3 => format!("{}.replace('a', {})", sub(random, 's'), sub(random, 's')),
            4 => format!("{}.upperAscii()", sub(random, 's')),
            5 => format!(
                "{}.substring({})",
                sub(random, 's'),
                random.of(&["0", "1", "2"])
            ),
            _ => format!("{}.join({})", sub(random, 't'), sub(random, 's')),
        },
        'l' => match random.below(4) {
            0 => format!("({} + {})", sub(random, 'l'), sub(random, 'l')),
            1 => format!("{}.map(x, x + {})", sub(random, 'l'), sub(random, 'i')),
            2 => format!("{}.filter(x, x > {})", sub(random, 'l'), sub(random, 'i')),
            _ => format!("[{}, {}]", sub(random, 'i'), sub(random, 'i')),
        },
        't' => match random.below(3) {
            0 => format!("{}.split('b')", sub(random, 's')),
            1 => format!("[{}, {}]", sub(random, 's'), sub(random, 's')),
            _ => format!("{}.map(x, string(x))", sub(random, 'l')),
        },
        _ => format!("{{'a': {}, 'c': {}}}", sub(random, 'i'), sub(random, 'i')),
    }
}

/// Returns the value of `text` in the crate's own evaluation.
fn by_the_crate(text: &str, variable: &impl serde::Serialize) -> Option<serde_json::Value> {
    fn json(value: &cel::Value) -> serde_json::Value {
        match value {
            cel::Value::Int(whole) => json!(whole),
            cel::Value::Bool(flag) => json!(flag),
            cel::Value::String(text) => json!(text.as_str()),
            cel::Value::List(list) => list.iter().map(json).collect(),
            cel::Value::Map(map) => map
                .map
                .iter()
                .map(|(key, value)| (key.to_string(), json(value)))
                .collect(),
            _ => serde_json::Value::Null,
        }
    }
    let mut language = cel::Env::stdlib();
    for extension in [cel::extensions::strings, cel::extensions::lists] {
        language.add_extension(extension).unwrap();
    }
    let program = language.compile(text).unwrap();
    let mut context = cel::Context::with_env(std::sync::Arc::new(language));
    context.add_variable("v", variable).unwrap();
    program.execute(&context).ok().map(|value| json(&value))
}

/// The evaluation here and the crate's have the same values for the same expressions.
#[test]
fn random_expressions_have_the_values_that_the_crate_finds() {
    // The crate gets signed integers too.
    #[derive(serde::Serialize)]
    struct Given {
        n: i64,
        yes: bool,
        s: &'static str,
        l: [i64; 3],
        m: std::collections::BTreeMap<&'static str, i64>,
    }
    let given = Given {
        n: 5,
        yes: true,
        s: "abc",
        l: [4, 0, 5],
        m: [("a", 9), ("d", 1)].into(),
    };
    let variable = json!(given);
    let scope = Scope {
        variables: vec![("v".to_owned(), Type::Dyn)],
        ..Scope::default()
    };
    let values = [Value::of(&variable)];
    let variables = Variables {
        values: &values,
        declared: &[],
    };
    let (mut random, mut with_value) = (Random(7), 0);
    for number in 0..3000 {
        let kind = ['i', 'b', 's', 'l', 't'][number % 5];
        let depth = 1 + random.below(4);
        let text = expression(&mut random, kind, depth);
        let program = Program::new(&text, &scope).unwrap_or_else(|error| panic!("{text}: {error}"));
        let ours = program.evaluate(variables, &mut Run::new(&Nothing)).ok();
        let ours = ours
            .map(|value| serde_json::from_str::<serde_json::Value>(&value.to_string()).unwrap());
        let theirs = by_the_crate(&text, &given);
        assert_eq!(ours, theirs, "{text}");
        with_value += usize::from(ours.is_some());
    }
    assert!(
        (1000..2900).contains(&with_value),
        "{with_value} have a value"
    );
}
