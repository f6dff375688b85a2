//! A check whose verdict depends on its parameters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kueue_check::api::AdmissionCheck;
use kueue_check::{
    AdmissionCheckController, CheckError, CheckRequest, ControllerName, Inactive, Parameters,
    ParametersKind, Verdict,
};
use serde_json::{Value, json};
use tokio::time::sleep;

/// Parameters with one word.
///
/// ```
/// use kueue_check::Parameters;
/// use kueue_check_sim::scenarios::Word;
///
/// let word = Word::object("by-night", "night");
/// assert_eq!(Word::decode(word).map(|word| word.0).as_deref(), Ok("night"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word(pub String);

impl Word {
    /// Returns an object with this name and this word.
    pub fn object(name: &str, word: &str) -> Value {
        json!({"apiVersion": "example.com/v1", "kind": "Word", "metadata": {"name": name}, "spec": {"word": word}})
    }
}

impl Parameters for Word {
    fn kind() -> Option<ParametersKind> {
        let (group, kind, plural) = ("example.com".into(), "Word".into(), "words".into());
        let versions = vec!["v1".into()];
        Some(ParametersKind {
            group,
            kind,
            plural,
            versions,
        })
    }

    fn decode(object: Value) -> Result<Self, String> {
        let word = object.pointer("/spec/word").and_then(Value::as_str);
        let word = word.ok_or("`spec.word` is missing")?;
        Ok(Self(word.to_owned()))
    }

    /// Panics at the word `panic`, as code with a bug does.
    fn validate(&self) -> Result<(), String> {
        assert!(self.0 != "panic", "the author has made a mistake");
        Ok(())
    }

    fn custom_resource_definition() -> Option<CustomResourceDefinition> {
        let spec = json!({"type": "object", "properties": {"word": {"type": "string"}}});
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
        let names =
            json!({"kind": "Word", "listKind": "WordList", "plural": "words", "singular": "word"});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "words.example.com"},
            "spec": {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]},
        });
        serde_json::from_value(definition).ok()
    }
}

/// A check that returns the word of its parameters as message, after 5 s. Its activation can be
/// made to hang, once.
///
/// ```
/// use kueue_check_sim::{Job, Simulation, scenarios::{Word, Worded}};
///
/// let simulation = Simulation::with_context(|tools| tools.external(Worded::default)).parameters(&Word::object("words", "night"));
/// simulation.run(async |cluster| {
///     cluster.submit(Job::new("train"));
///     cluster.expect_message("train", "by night").await;
/// });
/// ```
#[derive(Clone, Debug, Default)]
pub struct Worded {
    hangs: Arc<AtomicBool>,
}

impl Worded {
    /// Makes the next activation hang.
    pub fn hang_once(&self) {
        self.hangs.store(true, Ordering::Relaxed);
    }
}

impl AdmissionCheckController for Worded {
    type Parameters = Word;

    fn controller_name(&self) -> ControllerName {
        const { ControllerName::from_static("example.com/worded") }
    }

    async fn evaluate(&self, request: CheckRequest<Word>) -> Result<Verdict, CheckError> {
        let message = format!("by {}", request.parameters().0);
        sleep(Duration::from_secs(5)).await;
        Ok(Verdict::ready(message))
    }

    async fn activate(&self, _: &AdmissionCheck, _: &Arc<Word>) -> Result<(), Inactive> {
        if self.hangs.swap(false, Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}
