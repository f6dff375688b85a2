//! The metrics of each check binary.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::cell;

/// One metric, from the text exposition format.
#[derive(Default)]
struct Metric {
    name: String,
    kind: String,
    help: String,
    labels: Vec<String>,
}

pub(super) fn page() -> String {
    let mut text = String::from("| metric | type | labels | what |\n| --- | --- | --- | --- |\n");
    for metric in read(&kueue_check::admin::every_metric()) {
        let suffix = match &*metric.kind {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        let labels: Vec<String> = metric.labels.iter().map(|l| format!("`{l}`")).collect();
        let _ = writeln!(
            text,
            "| `{}{suffix}` | {} | {} | {} |",
            metric.name,
            metric.kind,
            labels.join(", "),
            cell(&metric.help)
        );
    }
    text
}

/// Returns the names of all metrics and samples; for a histogram, the names of its parts too.
pub fn names() -> BTreeSet<String> {
    let text = kueue_check::admin::every_metric();
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let mut names: BTreeSet<String> = samples
        .filter_map(|line| line.split(['{', ' ']).next())
        .map(ToOwned::to_owned)
        .collect();
    names.extend(read(&text).into_iter().map(|metric| metric.name));
    names
}

fn read(text: &str) -> Vec<Metric> {
    let mut metrics: Vec<Metric> = Vec::new();
    for line in text.lines() {
        // `TYPE` and `HELP` come in either order.
        let described = line.strip_prefix("# ").and_then(|line| {
            let (what, rest) = line.split_once(' ')?;
            let (name, value) = rest.split_once(' ')?;
            Some((what, name, value))
        });
        if let Some((what, name, value)) = described {
            if metrics.last().is_none_or(|metric| metric.name != name) {
                metrics.push(Metric {
                    name: name.to_owned(),
                    ..Metric::default()
                });
            }
            match (what, metrics.last_mut()) {
                ("TYPE", Some(metric)) => value.clone_into(&mut metric.kind),
                ("HELP", Some(metric)) => value.clone_into(&mut metric.help),
                _ => {}
            }
        } else if let Some(metric) = metrics.last_mut()
            && line.starts_with(&metric.name)
            && metric.labels.is_empty()
        {
            metric.labels = labels(line);
        }
    }
    metrics
}

/// Returns the labels of a sample without `le`, which is the histogram's own.
fn labels(sample: &str) -> Vec<String> {
    let inside = sample.split_once('{').and_then(|(_, l)| l.split_once('}'));
    let pairs = inside.map_or("", |(labels, _)| labels).split(',');
    let names = pairs.filter_map(|pair| pair.split_once('=').map(|(name, _)| name));
    names
        .filter(|name| *name != "le")
        .map(ToOwned::to_owned)
        .collect()
}
