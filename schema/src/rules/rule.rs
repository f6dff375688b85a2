//! One rule.

use std::sync::{Arc, LazyLock, OnceLock};

use cel::common::types::{CelBool, CelOptional, CelString};
use cel::common::value::Val;
use cel::{Context, Env, ExecutionError, Program, extensions};
use serde_json::Value as Json;

use super::value::wrap;
use crate::FieldError;
use crate::{Path, Schema};

/// A rule and the message if it is violated.
///
/// ```
/// use kueue_check_schema::{CEL_ENABLED, violated_rules, compile};
/// use serde_json::json;
///
/// let schema = compile(&json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.min <= self.max", "fieldPath": ".min"}]}));
/// assert_eq!(schema.rules.len(), 1);
/// let errors = violated_rules(&json!({"min": 3, "max": 2}), None, &schema);
/// if CEL_ENABLED {
///     assert_eq!(errors[0].to_string(), "min: Invalid value: failed rule: self.min <= self.max");
/// }
/// ```
#[derive(Debug)]
pub struct Rule {
    source: Source,
    message: String,
    message_expression: Option<Source>,
    reason: &'static str,
    /// The field of the error, relative to the one that has the rule, such as `.min`.
    field_path: String,
    /// Whether the rule is about a change.
    uses_old: bool,
    /// Whether it also runs if there was no earlier value.
    optional_old: bool,
}

/// An expression, parsed when it is first needed: definitions have dozens, a test needs few.
#[derive(Debug)]
struct Source {
    text: String,
    program: OnceLock<Option<Program>>,
}

static LANGUAGE: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut language = Env::stdlib().with_optional_support(true);
    for extension in [extensions::strings, extensions::lists, extensions::math] {
        if let Err(error) = language.add_extension(extension) {
            tracing::warn!(%error, "an extension of CEL is left out");
        }
    }
    Arc::new(language)
});

impl Source {
    fn new(text: &str) -> Self {
        Self {
            text: text.trim().to_owned(),
            program: OnceLock::new(),
        }
    }

    fn program(&self) -> Option<&Program> {
        let read = || match LANGUAGE.compile(&self.text) {
            Ok(program) => Some(program),
            Err(error) => {
                tracing::warn!(rule = %self.text, %error, "a rule can't be read and counts as held");
                None
            }
        };
        self.program.get_or_init(read).as_ref()
    }
}

/// Returns the rules of a node of a definition.
pub(crate) fn rules(source: &Json) -> Vec<Rule> {
    let list = source
        .get("x-kubernetes-validations")
        .and_then(Json::as_array);
    list.into_iter().flatten().map(Rule::new).collect()
}

impl Rule {
    fn new(source: &Json) -> Self {
        let text = |name: &str| source.get(name).and_then(Json::as_str).unwrap_or_default();
        let expression = text("rule");
        let message_expression = text("messageExpression");
        Self {
            source: Source::new(expression),
            message: text("message").trim().to_owned(),
            message_expression: (!message_expression.is_empty())
                .then(|| Source::new(message_expression)),
            reason: match text("reason") {
                "FieldValueForbidden" => "FieldValueForbidden",
                "FieldValueRequired" => "FieldValueRequired",
                "FieldValueDuplicate" => "FieldValueDuplicate",
                _ => "FieldValueInvalid",
            },
            field_path: text("fieldPath").to_owned(),
            uses_old: expression.contains("oldSelf"),
            optional_old: source.get("optionalOldSelf") == Some(&Json::Bool(true)),
        }
    }

    /// Returns the error, if `new` violates the rule. `path` is its place.
    pub(super) fn broken(
        &self,
        new: &Json,
        old: Option<&Json>,
        schema: &Schema,
        path: &Path<'_>,
    ) -> Option<FieldError> {
        let place = || {
            if path.is_root() {
                "<nil>".to_owned()
            } else {
                path.to_string()
            }
        };
        if self.uses_old && old.is_none() && !self.optional_old {
            return None;
        }
        let program = self.source.program()?;
        let mut context = Context::with_env(Arc::clone(&LANGUAGE));
        context.add_variable_as_val("self", wrap(new, Some(schema)));
        if self.uses_old {
            let old = old.map(|old| wrap(old, Some(schema)));
            let old: Box<dyn Val> = if self.optional_old {
                Box::new(CelOptional::from(old))
            } else {
                old?
            };
            context.add_variable_as_val("oldSelf", old);
        }
        match truth(program, &context) {
            Ok(true) => None,
            Ok(false) => Some(self.error(self.failure_message(&context), new, &place())),
            Err(error) => {
                let why = format!("{} evaluating rule: {}", lower(&error), self.plain());
                let shown = format!("\"{}\"", schema.kind.name());
                Some(FieldError::invalid_with_value(place(), &shown, why))
            }
        }
    }

    fn plain(&self) -> String {
        if self.message.is_empty() {
            format!("failed rule: {}", self.source.text)
        } else {
            self.message.clone()
        }
    }

    fn failure_message(&self, context: &Context<'_, '_>) -> String {
        let expression = self.message_expression.as_ref();
        let program = expression.and_then(Source::program);
        let text = program.and_then(|program| {
            let value = cel::Value::resolve_val(program.expression(), context).ok()?;
            let text = value.downcast_ref::<CelString<'_>>()?.inner().to_owned();
            (!text.trim().is_empty()).then_some(text)
        });
        text.unwrap_or_else(|| self.plain())
    }

    fn error(&self, why: String, value: &Json, path: &str) -> FieldError {
        // Only scalars are shown.
        let shown = match value {
            Json::Object(_) | Json::Array(_) => String::new(),
            _ if !self.field_path.is_empty() => String::new(),
            scalar => format!("{scalar}: "),
        };
        let message = match self.reason {
            "FieldValueForbidden" => format!("Forbidden: {why}"),
            "FieldValueRequired" => format!("Required value: {why}"),
            "FieldValueDuplicate" => format!("Duplicate value: {shown}{why}"),
            _ => format!("Invalid value: {shown}{why}"),
        };
        let field = match path {
            "<nil>" if !self.field_path.is_empty() => {
                self.field_path.trim_start_matches('.').to_owned()
            }
            path => format!("{path}{}", self.field_path),
        };
        FieldError {
            field,
            reason: self.reason,
            message,
        }
    }
}

/// Prints an error as the real server does: with a small first letter.
fn lower(error: &ExecutionError) -> String {
    let text = error.to_string();
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_ascii_lowercase());
    first.into_iter().chain(chars).collect()
}

fn truth(program: &Program, context: &Context<'_, '_>) -> Result<bool, ExecutionError> {
    let value = cel::Value::resolve_val(program.expression(), context)?;
    // The API server checks the type of rules when a definition is created.
    Ok(value
        .downcast_ref::<CelBool>()
        .is_some_and(|flag| *flag.inner()))
}
