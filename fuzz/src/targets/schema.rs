//! Schemas and objects: both are foreign text where a definition is installed.

use kueue_check_schema::{
    compile, default_fields, drop_nulls, prune, validate, validate_change, validate_status_change,
    violated_rules,
};
use serde_json::Value;

use super::{Form, LARGE, Outcome, Target, magnitude, outcome, shape};
use crate::target::DictionaryWords::{Of, One};

pub(super) const SCHEMA: Target = Target {
    name: "schema",
    about: "a schema and an object: pruning, defaults, validation, rules",
    form: Form::Json,
    dictionary: &[
        Of("
            schema object old type array string integer number boolean properties
            additionalProperties items required enum default nullable pattern ^[a-z]+$ (a+)+$ format
            date-time int32 int64 double minimum maximum exclusiveMinimum multipleOf minLength
            maxLength minItems maxItems minProperties maxProperties uniqueItems allOf anyOf oneOf
            not x-kubernetes-preserve-unknown-fields x-kubernetes-int-or-string
            x-kubernetes-embedded-resource x-kubernetes-list-type set map atomic
            x-kubernetes-list-map-keys x-kubernetes-map-type x-kubernetes-validations rule message
            messageExpression reason fieldPath optionalOldSelf self oldSelf
        "),
        One("self.size() > 0"),
        One("self == oldSelf"),
        Of("has(self.a) metadata name spec status"),
    ],
    memory: LARGE,
    run: schema,
};

fn schema(input: &[u8]) -> Outcome {
    let Ok(tree) = serde_json::from_slice::<Value>(input) else {
        return 0;
    };
    let schema = compile(&tree["schema"]);
    let mut object = tree["object"].clone();
    let whole = object.clone();
    let unknown = prune(&mut object, &schema);
    assert!(
        is_part(&object, &whole),
        "pruning adds: {object} of {whole}"
    );
    assert!(
        !unknown.is_empty() || object == whole,
        "{object} of {whole}"
    );
    let mut again = object.clone();
    assert!(
        prune(&mut again, &schema).is_empty() && again == object,
        "{object}, {again}"
    );
    default_fields(&mut object, &schema);
    let mut again = object.clone();
    default_fields(&mut again, &schema);
    assert_eq!(again, object, "a default of a default");
    drop_nulls(&mut object, &schema);
    let errors = validate(&object, &schema);
    assert_eq!(
        validate(&object, &schema),
        errors,
        "it is not the same each time"
    );
    let old = tree.get("old");
    if let Some(old) = old {
        let _ = validate_change(&object, old, &schema);
        let _ = validate_status_change(&object, old, &schema);
    }
    let broken = violated_rules(&object, old, &schema);
    let words: Vec<String> = errors
        .iter()
        .map(|error| shape(&error.message))
        .take(3)
        .collect();
    outcome((
        magnitude(unknown.len()),
        magnitude(errors.len()),
        words,
        magnitude(broken.len()),
        schema.has_defaults,
        schema.has_rules,
    ))
}

/// Returns true if everything in `part` is in `whole`.
fn is_part(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => part
            .iter()
            .all(|(key, value)| whole.get(key).is_some_and(|whole| is_part(value, whole))),
        (Value::Array(part), Value::Array(whole)) => {
            part.len() == whole.len()
                && part
                    .iter()
                    .zip(whole)
                    .all(|(part, whole)| is_part(part, whole))
        }
        (part, whole) => part == whole,
    }
}
