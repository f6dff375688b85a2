{%- assign kind = project-name | upper_camel_case | append: "Rule" -%}
//! The parameters: a custom resource to which AdmissionChecks refer.

use kueue_check::prelude::*;
{%- if source != "none" %}

use crate::http;
{%- endif %}
{%- if source == "none" %}

use crate::rule::NightWindow;
{%- endif %}

/// When jobs may start.
#[kueue_check::parameters(
    group = "{{ controller_name | split: "/" | first }}",
    version = "v1alpha1",
    kind = "{{ kind }}",
    validate = {{ kind }}Spec::validate
)]
#[serde(rename_all = "camelCase")]
pub struct {{ kind }}Spec {
{%- if source == "none" %}
    /// By day, jobs of more pods than this wait for the night.
    pub most_pods_by_day: u32,
    /// The hour with which the night begins, in UTC.
    #[schemars(range(max = 23))]
    pub night_begins: u8,
    /// The hour with which it ends.
    #[schemars(range(max = 23))]
    pub night_ends: u8,
{%- elsif source == "http" %}
    /// The service that returns the number of free pods, such as `http://capacity:8080/free-pods`.
    pub url: String,
{%- else %}
    /// The Prometheus server, such as `http://prometheus:9090`.
    pub url: String,
    /// A query with one number as its result: how many pods are free.
    #[schemars(length(min = 1))]
    pub query: String,
{%- endif %}
{%- if state %}
    /// The time between two starts, such as `10s`.
    pub start_interval: kueue_check::HumanDuration,
{%- endif %}
    #[serde(flatten)]
    pub policy: Policy,
}

impl {{ kind }}Spec {
    /// Validates what a schema can't express. The AdmissionCheck's condition `Active` has the error.
    fn validate(&self) -> Result<(), String> {
{%- if source == "none" %}
        if self.night_begins == self.night_ends {
            return Err(format!("nightBegins and nightEnds are both {}: there would be no night", self.night_begins));
        }
{%- else %}
        http::address(&self.url)?;
{%- endif %}
{%- if state %}
        if std::time::Duration::from(self.start_interval).as_secs() > 3600 {
            return Err(format!("a startInterval of {} is too long: jobs that wait hold quota", self.start_interval));
        }
{%- endif %}
        Ok(())
    }
{%- if source == "none" %}

    pub(crate) fn night(&self) -> NightWindow {
        NightWindow { begins: self.night_begins, ends: self.night_ends }
    }
{%- endif %}
}

#[cfg(test)]
mod tests {
    use kueue_check::serde_json::{Value, json};

    use super::*;

    /// The result of the runtime's validation of a resource with the example's spec and `change`.
    fn validate(change: Value) -> Result<(), String> {
        let mut spec = json!({
{%- if source == "none" %}"mostPodsByDay": 10, "nightBegins": 22, "nightEnds": 6{% elsif source == "http" %}"url": "http://capacity:8080/free-pods"{% else %}"url": "https://prometheus:9090", "query": "free_pods"{% endif -%}
{%- if state %}, "startInterval": "10s"{% endif -%}
        });
        for (field, value) in change.as_object().unwrap() {
            spec[field] = value.clone();
        }
        let object = json!({"apiVersion": "{{ controller_name | split: "/" | first }}/v1alpha1", "kind": "{{ kind }}", "metadata": {"name": "x"}, "spec": spec});
        {{ kind }}::decode(object)?.validate()
    }

    #[test]
    fn each_mistake_is_reported() {
        for (change, expected) in [
            (json!({}), None),
            (json!({"pendingTimeout": {"after": "1h", "then": "Retry"}}), None),
            (json!({"pendingTimeout": {"after": "soon", "then": "Retry"}}), Some("`soon` is not a duration")),
{%- if source == "none" %}
            (json!({"mostPodsByDay": "many"}), Some("invalid type")),
            (json!({"nightBegins": 6}), Some("there would be no night")),
{%- else %}
            (json!({"url": "capacity:8080"}), Some("no URL of a server")),
            (json!({"url": "ftp://capacity/free-pods"}), Some("no URL of a server")),
            (json!({"url": "http://a b"}), Some("no URL")),
{%- endif %}
{%- if state %}
            (json!({"startInterval": "2h"}), Some("is too long")),
{%- endif %}
        ] {
            match (validate(change.clone()), expected) {
                (Ok(()), None) => {}
                (Err(problem), Some(expected)) => assert!(problem.contains(expected), "{change}: {problem}"),
                (result, _) => panic!("{change}: {result:?}"),
            }
        }
    }
}
