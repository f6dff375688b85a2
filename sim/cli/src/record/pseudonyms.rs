//! Pseudonyms for the names of the cluster.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::public::{is_known_reason, is_public};
use super::resources;
use crate::replay::{NAMESPACE, is_reset};

/// The end of a message that Kueue has cut: a note of an event at 1,024 bytes, the message of a
/// condition at 32 KiB (Kueue 0.19.2, `pkg/util/api/api.go`).
const CUT: &str = " ...";
/// The least length of a text that was cut, because no character is split.
const CUT_AT: usize = 1_020;
/// The least length of a beginning by which a message is recognized within a longer text.
const LEAST: usize = 16;

/// The kind of the names of Workloads of Jobs.
const OF_JOB: &str = "job-workload";
const LABEL: &str = "label";
const RESOURCE: &str = "resource";
const VALUE: &str = "value";
/// The pod set of a Job.
const MAIN: &str = "main";

/// The names of the cluster with their pseudonyms.
///
/// A name of a cluster-scoped object has one pseudonym for all kinds, because Kueue's messages do
/// not always contain the kind. A name in a namespace has a pseudonym for each namespace, because a
/// trace has one namespace.
#[derive(Debug, Default)]
pub(super) struct Pseudonyms {
    /// By namespace (empty for none) and name.
    names: BTreeMap<(String, String), Pseudonym>,
    namespaces: BTreeSet<String>,
    /// A namespace of each name that is in one.
    places: BTreeMap<String, String>,
    /// Names of resources and gates, and reasons of other writers than Kueue.
    others: BTreeMap<String, Pseudonym>,
    /// The names of pod sets, which may be any word.
    pod_sets: BTreeMap<String, Pseudonym>,
    /// Messages of other writers than Kueue.
    texts: BTreeMap<String, Pseudonym>,
    counts: BTreeMap<&'static str, usize>,
}

/// A pseudonym and its kind.
#[derive(Clone, Debug)]
struct Pseudonym {
    kind: &'static str,
    text: String,
}

impl Pseudonyms {
    /// Returns the pseudonym of a name; a new one is `kind` and a number.
    pub(super) fn name(&mut self, kind: &'static str, namespace: &str, name: &str) -> String {
        if name.is_empty() {
            return String::new();
        }
        let key = (namespace.to_owned(), name.to_owned());
        if !namespace.is_empty() {
            self.namespaces.insert(key.0.clone());
            let place = self.places.entry(key.1.clone());
            place.or_insert_with(|| key.0.clone());
        }
        let counts = &mut self.counts;
        let known = self.names.entry(key).or_insert_with(|| next(counts, kind));
        if kind == LABEL && known.kind == VALUE {
            // It is a key in messages, too.
            known.kind = kind;
        }
        known.text.clone()
    }

    /// Adds the pseudonym of the Workload of a Job.
    pub(super) fn insert_workload(&mut self, namespace: &str, name: &str, pseudonym: String) {
        let key = (namespace.to_owned(), name.to_owned());
        self.namespaces.insert(key.0.clone());
        let place = self.places.entry(key.1.clone());
        place.or_insert_with(|| key.0.clone());
        let new = Pseudonym {
            kind: OF_JOB,
            text: pseudonym,
        };
        self.names.entry(key).or_insert(new);
    }

    /// Numbers the pseudonyms in the order of the names, because Kueue orders some objects by name,
    /// such as admission check states. The names of Workloads of Jobs are removed, because they are
    /// derived from the names of the Jobs.
    pub(super) fn in_order(mut self) -> Self {
        self.names.retain(|_, known| known.kind != OF_JOB);
        let all = self
            .names
            .iter_mut()
            .map(|((_, name), known)| (name, known));
        let all = all.chain(&mut self.pod_sets).chain(&mut self.texts);
        let all = all.chain(&mut self.others);
        let mut all: Vec<(&String, &mut Pseudonym)> = all.collect();
        all.sort_by_key(|(name, _)| *name);
        let width = |kind: &str| {
            self.counts
                .get(kind)
                .map_or(1, |count| count.to_string().len())
        };
        let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
        for (_, known) in all {
            let count = counts.entry(known.kind).or_default();
            *count += 1;
            known.text = format!("{}-{count:0width$}", known.kind, width = width(known.kind));
        }
        let of_kind = |known: &Pseudonym| known.kind == RESOURCE;
        let named = self.others.iter().filter(|(_, known)| of_kind(known));
        let mut resources = resources::pseudonyms(named.map(|(name, _)| name.as_str()));
        for (name, known) in self.others.iter_mut().filter(|(_, known)| of_kind(known)) {
            known.text = resources.remove(name).unwrap_or_default();
        }
        self
    }

    /// Returns the pseudonym of a message of a check or of a Job.
    pub(super) fn foreign(&mut self, text: &str) -> String {
        if text.is_empty() || is_reset(text) {
            return text.to_owned();
        }
        let counts = &mut self.counts;
        let known = self.texts.entry(text.to_owned());
        known
            .or_insert_with(|| next(counts, "message"))
            .text
            .clone()
    }

    /// Returns the pseudonym of a message at the end of a text, which may be cut there.
    fn last(&mut self, message: &str, is_cut: bool) -> String {
        let whole = message.strip_suffix(CUT).filter(|_| is_cut);
        match whole.and_then(|begin| self.cut(begin)) {
            Some(known) => known.clone(),
            None => self.foreign(message),
        }
    }

    /// Replaces the names of checks and their messages in `NAME: MESSAGE; NAME: MESSAGE`, the note
    /// of the event `UpdatedAdmissionCheck`.
    pub(super) fn of_checks(&mut self, note: &str) -> String {
        let mut parts: Vec<(String, String)> = Vec::new();
        for piece in note.split("; ") {
            let named = piece.split_once(": ").and_then(|(name, message)| {
                let known = self.names.get(&(String::new(), name.to_owned()))?;
                Some((known.text.clone(), message.to_owned()))
            });
            match (named, parts.last_mut()) {
                (Some(named), _) => parts.push(named),
                (None, Some((_, message))) => *message = format!("{message}; {piece}"),
                (None, None) => parts.push((String::new(), piece.to_owned())),
            }
        }
        let is_cut = is_cut(note);
        let parts = parts.into_iter().map(|(name, message)| {
            let message = self.last(&message, is_cut);
            match name.as_str() {
                "" => message,
                name => format!("{name}: {message}"),
            }
        });
        parts.collect::<Vec<_>>().join("; ")
    }

    /// Replaces all known names and messages in a message of Kueue about an object of this
    /// namespace, names with a namespace before them, and messages of checks that it quotes.
    pub(super) fn text(&mut self, namespace: &str, text: &str) -> String {
        let is_cut = is_cut(text);
        for token in text.split(|c| !is_of_path(c)) {
            let unknown = namespaced(token).filter(|(place, name)| {
                let key = ((*place).to_owned(), (*name).to_owned());
                !self.names.contains_key(&key)
            });
            if let Some((place, name)) = unknown.filter(|(_, name)| !is_version(name)) {
                self.name("workload", place, name);
            }
        }
        let Some((before, quoted)) = quoted(text) else {
            return self.known(namespace, text, is_cut);
        };
        let before = self.known(namespace, before, false);
        let after = match quoted {
            Quoted::Message(message) => self.last(message, is_cut),
            Quoted::States(all) => {
                let each = states(all).into_iter().map(|(name, message)| {
                    let name = self.name("check", "", name);
                    match message {
                        Some(message) => format!("{name:?} ({})", self.last(message, is_cut)),
                        None => format!("{name:?}"),
                    }
                });
                each.collect::<Vec<_>>().join("; ")
            }
        };
        before + &after
    }

    /// Replaces all known names and messages in a message of Kueue.
    fn known(&self, namespace: &str, text: &str, is_cut: bool) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        let mut before = "";
        while let Some(first) = rest.chars().next() {
            let end = rest.find(|c| !is_of_name(c)).unwrap_or(rest.len());
            let end = end.max(first.len_utf8());
            let word = match rest[..end].trim_end_matches('.') {
                "" => &rest[..end],
                word => word,
            };
            if let Some((length, known)) = self
                .foreign_at(&out, rest, word)
                .or_else(|| self.cut_at(rest, is_cut))
                .or_else(|| self.key_at(rest))
            {
                out.push_str(known);
                rest = &rest[length..];
                continue;
            }
            if let Some((length, known)) = self.namespaced_at(&out, rest) {
                out.extend([NAMESPACE, "/", known]);
                rest = &rest[length..];
                continue;
            }
            rest = &rest[word.len()..];
            let of_set = before == "set" || rest.starts_with(':');
            let set = self.pod_sets.get(word).filter(|_| of_set);
            let known = match set {
                Some(set) => &set.text,
                None if before == "set" && word == MAIN => word,
                None => self.word(namespace, (&out, before), word),
            };
            out.push_str(known);
            if is_of_name(first) {
                before = word;
            }
        }
        out
    }

    /// Returns the length of the longest message that is a prefix of `rest`, with its pseudonym.
    /// `word` is the first word of `rest`.
    fn foreign_at(&self, before: &str, rest: &str, word: &str) -> Option<(usize, &String)> {
        let all = self.texts.range(word.to_owned()..);
        let all = all.take_while(|(text, _)| text.starts_with(word));
        let whole = all.filter(|(text, _)| is_whole(before, rest, text)).last();
        whole.map(|(text, known)| (text.len(), &known.text))
    }

    /// Returns the length of `rest` if it is the beginning of a message in a text that was cut,
    /// with the message's pseudonym.
    fn cut_at(&self, rest: &str, is_cut: bool) -> Option<(usize, &String)> {
        let begin = rest.strip_suffix(CUT).filter(|_| is_cut)?;
        // A short beginning may be any word.
        (begin.len() >= LEAST).then_some(())?;
        self.cut(begin).map(|known| (rest.len(), known))
    }

    /// Returns the pseudonym of the first other message that begins so.
    fn cut(&self, begin: &str) -> Option<&String> {
        let all = self.texts.range(begin.to_owned()..);
        let mut all = all.take_while(|(text, _)| text.starts_with(begin));
        let whole = all.find(|(text, _)| text.strip_suffix(CUT) != Some(begin));
        whole.map(|(_, known)| &known.text)
    }

    /// Returns the length of a key with a domain at the beginning of `rest`, such as that of a
    /// taint, with its pseudonym.
    fn key_at(&self, rest: &str) -> Option<(usize, &String)> {
        let end = rest.find(|c| !is_of_name(c) && c != '/');
        let key = rest[..end.unwrap_or(rest.len())].trim_end_matches('.');
        key.contains('/').then_some(())?;
        if let Some(known) = self.others.get(key) {
            return Some((key.len(), &known.text));
        }
        let known = self.names.get(&(String::new(), key.to_owned()))?;
        // Values of annotations contain slashes, too.
        (known.kind == LABEL).then_some((key.len(), &known.text))
    }

    /// Returns the length of a name with its namespace at the beginning of `rest`, with the name's
    /// pseudonym.
    fn namespaced_at(&self, before: &str, rest: &str) -> Option<(usize, &str)> {
        let token = rest.split(|c| !is_of_path(c)).next()?;
        let (place, name) = namespaced(token).filter(|_| !before.ends_with(is_of_path))?;
        let known = self.names.get(&(place.to_owned(), name.to_owned()))?;
        Some((place.len() + 1 + name.len(), &known.text))
    }

    /// Returns the pseudonym of a word after `before` and its last word. Kueue's messages contain
    /// the names of LocalQueues without the namespace. The value of a label that is a number is
    /// replaced only as that of a taint.
    fn word<'a>(&'a self, namespace: &str, (before, last): (&str, &str), word: &'a str) -> &'a str {
        let in_taint = || {
            before
                .rfind("taint {")
                .is_some_and(|at| !before[at..].contains('}'))
        };
        let named = |namespace: &str| {
            let key = (namespace.to_owned(), word.to_owned());
            let known = self.names.get(&key);
            let known = known.filter(|known| known.kind != VALUE || !is_number(word) || in_taint());
            known.map(|known| known.text.as_str())
        };
        let found = if last == "LocalQueue" {
            named(namespace).or_else(|| named(""))
        } else {
            named("").or_else(|| named(namespace))
        };
        let other = || self.others.get(word).filter(|known| known.kind == RESOURCE);
        found
            .or_else(|| other().map(|known| known.text.as_str()))
            .or_else(|| self.places.get(word).and_then(|place| named(place)))
            .or_else(|| self.namespaces.contains(word).then_some(NAMESPACE))
            .unwrap_or(word)
    }

    /// Returns the pseudonym of a resource, unless Kubernetes defines it.
    pub(super) fn resource(&mut self, name: &str) -> String {
        if resources::is_standard(name) || name.is_empty() {
            return name.to_owned();
        }
        self.other(RESOURCE, name)
    }

    /// Returns the pseudonym of a gate, unless Kueue defines it. It has a domain, as gates must.
    pub(super) fn gate(&mut self, name: &str) -> String {
        if is_public(name) || name.is_empty() {
            return name.to_owned();
        }
        self.other("example.com/gate", name)
    }

    /// Returns the pseudonym of the reason of a condition of another writer than Kueue, unless Kueue
    /// or Kubernetes defines it.
    pub(super) fn reason(&mut self, reason: &str) -> String {
        if is_known_reason(reason) {
            return reason.to_owned();
        }
        self.other("Reason", reason).replace('-', "_")
    }

    fn other(&mut self, kind: &'static str, name: &str) -> String {
        let counts = &mut self.counts;
        let known = self.others.entry(name.to_owned());
        known.or_insert_with(|| next(counts, kind)).text.clone()
    }

    /// Returns the pseudonym of a pod set; `main`, the pod set of a Job, is kept.
    pub(super) fn pod_set(&mut self, name: &str) -> String {
        if name == MAIN {
            return name.to_owned();
        }
        let counts = &mut self.counts;
        let known = self.pod_sets.entry(name.to_owned());
        known.or_insert_with(|| next(counts, "set")).text.clone()
    }

    /// Replaces keys and values of labels, annotations or a node selector.
    pub(super) fn labels(&mut self, namespace: &str, map: &Value) -> Value {
        let Some(map) = map.as_object() else {
            return Value::Null;
        };
        let replaced = map.iter().map(|(key, value)| {
            let value = value.as_str().unwrap_or_default();
            (self.key(key), self.value(namespace, key, value))
        });
        Value::Object(replaced.collect::<Map<_, _>>())
    }

    /// Replaces the key of a label, annotation or taint.
    pub(super) fn key(&mut self, key: &str) -> String {
        if is_public(key) || key.is_empty() {
            return key.to_owned();
        }
        self.name(LABEL, "", key)
    }

    /// Replaces the value of a label, annotation or taint, except booleans, and numbers of keys of
    /// Kueue.
    pub(super) fn value(&mut self, namespace: &str, key: &str, value: &str) -> Value {
        let of_kueue = key.contains("kueue.x-k8s.io/");
        let plain = ["", "true", "false"].contains(&value) || of_kueue && is_number(value);
        let name = match key.strip_prefix("kueue.x-k8s.io/") {
            // A UID and a boolean.
            Some("job-uid" | "managed") => return value.into(),
            Some("podset") => return self.pod_set(value).into(),
            Some("cluster-queue-name") => return self.name("cluster-queue", "", value).into(),
            Some("queue-name" | "local-queue-name") => {
                return self.name("queue", namespace, value).into();
            }
            Some("admission-gated-by") => {
                let gates = value.split(',').map(|gate| self.gate(gate.trim()));
                return gates.collect::<Vec<_>>().join(",").into();
            }
            Some("priority-class") => return self.name("class", "", value).into(),
            Some("workload" | "workload-slice-name") => {
                return self.name("workload", namespace, value).into();
            }
            Some("workload-slice-replacement-for") => {
                let (namespace, value) = value.split_once('/').unwrap_or((namespace, value));
                let name = self.name("workload", namespace, value);
                return format!("{NAMESPACE}/{name}").into();
            }
            _ if plain || key.ends_with("controller-uid") => return value.into(),
            _ if key.ends_with("job-name") => return self.name("job", namespace, value).into(),
            _ => self.name(VALUE, "", value),
        };
        name.into()
    }
}

fn next(counts: &mut BTreeMap<&'static str, usize>, kind: &'static str) -> Pseudonym {
    let count = counts.entry(kind).or_default();
    *count += 1;
    Pseudonym {
        kind,
        text: format!("{kind}-{count}"),
    }
}

/// Returns true if Kueue has cut the text.
fn is_cut(text: &str) -> bool {
    text.len() >= CUT_AT && text.ends_with(CUT)
}

/// The part of a text in which Kueue quotes checks, up to its end.
enum Quoted<'a> {
    /// `"NAME" (MESSAGE); "NAME"`.
    States(&'a str),
    /// A message.
    Message(&'a str),
}

/// Splits a text of Kueue before the checks that it quotes: `AdmissionChecks in Retry state: "a"
/// (why); "b"` since 0.18, `AdmissionCheck for a was Rejected: why` before.
fn quoted(text: &str) -> Option<(&str, Quoted<'_>)> {
    let after = |sign: &str| text.find(sign).map(|at| text.split_at(at + sign.len()));
    let states = [" in Retry state: ", " in Rejected state: "].into_iter();
    let states = states
        .filter_map(after)
        .min_by_key(|(before, _)| before.len());
    states
        .map(|(before, rest)| (before, Quoted::States(rest)))
        .or_else(|| after(" was Rejected: ").map(|(before, rest)| (before, Quoted::Message(rest))))
}

/// Returns the quoted names with their messages. The end may be cut.
fn states(quoted: &str) -> Vec<(&str, Option<&str>)> {
    let next = quoted.match_indices("; \"").map(|(at, _)| at);
    let next = next.filter(|at| quoted[..*at].ends_with([')', '"']));
    let mut ends: Vec<usize> = next.collect();
    ends.push(quoted.len());
    let mut start = 0;
    let items = ends.into_iter().map(|end| {
        let item = &quoted[start..end];
        start = end + "; ".len();
        match item.split_once("\" (") {
            Some((name, message)) => (name, Some(message.strip_suffix(')').unwrap_or(message))),
            None => (item, None),
        }
    });
    let names = items.map(|(name, message)| (name.trim_matches('"'), message));
    names.collect()
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || ['-', '.', '_'].contains(&c)
}

fn is_of_path(c: char) -> bool {
    is_of_name(c) || c == '/'
}

/// Splits `NAMESPACE/NAME`. A domain is no namespace, nor is a number, and a path has more parts.
fn namespaced(token: &str) -> Option<(&str, &str)> {
    let (place, name) = token.trim_end_matches('.').split_once('/')?;
    let is_of_label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_label = place.chars().all(is_of_label) && place.contains(|c: char| c.is_alphabetic());
    (is_label && !name.is_empty() && !name.contains('/')).then_some((place, name))
}

/// Returns true for the name of a version of an API, such as `v1beta2`.
fn is_version(name: &str) -> bool {
    let number = name.strip_prefix('v');
    number.is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()))
}

fn is_number(word: &str) -> bool {
    word.parse::<f64>().is_ok_and(f64::is_finite)
}

/// Returns true if `text` is a prefix of `rest` and not part of a longer word.
fn is_whole(before: &str, rest: &str, text: &str) -> bool {
    let ends = |c: Option<char>| c.is_none_or(|c| !c.is_ascii_alphanumeric());
    rest.starts_with(text)
        && ends(before.chars().next_back())
        && ends(rest[text.len()..].chars().next())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_in_messages_are_replaced() {
        let mut names = Pseudonyms::default();
        names.name("queue", "team-a", "train");
        names.name("cluster-queue", "", "train");
        names.name("flavor", "", "spot.large");
        names.name("workload", "team-a", "job-nightly-1a2b3");
        names.name("workload", "team-b", "secret-train");
        names.name("job", "team-b", "main");
        names.resource("acme.example/vault-gpu");
        names.value("", "acme.example/cost-centre", "4711");
        names.value("", "acme.example/copies", "2");
        names.foreign("no licence for alice");
        names.pod_set("more");
        names.key("acme.example/vault-team");
        let long = format!("alice {}", "x".repeat(2000));
        names.foreign(&long);
        let cut = |text: &str| format!("{} ...", &text[..1020]);
        let table = [
            (
                "ClusterQueue train is inactive",
                "ClusterQueue cluster-queue-1 is inactive",
            ),
            (
                "LocalQueue train doesn't exist",
                "LocalQueue queue-1 doesn't exist",
            ),
            (
                "insufficient quota for cpu in flavor spot.large. Pending the preemption",
                "insufficient quota for cpu in flavor flavor-1. Pending the preemption",
            ),
            (
                "Created Workload: team-a/job-nightly-1a2b3",
                "Created Workload: t/workload-1",
            ),
            (
                "Preempted workload team-b/secret-train (UID: 1a-2b, JobUID: x); preemptor path: /train",
                "Preempted workload t/workload-2 (UID: 1a-2b, JobUID: x); preemptor path: /cluster-queue-1",
            ),
            (
                "Preempted workload team-c/unknown for secret-train of team-b",
                "Preempted workload t/workload-3 for workload-2 of t",
            ),
            (
                "no batch/v1, 1/2. insufficient quota for acme.example/vault-gpu, request 2 of pod set main",
                "no batch/v1, 1/2. insufficient quota for resource-1, request 2 of pod set main",
            ),
            (
                "untolerated taint {acme.example/cost-centre 4711 NoSchedule}",
                "untolerated taint {acme.example/cost-centre value-1 NoSchedule}",
            ),
            (
                "Admission check(s): licences; no licence for alice.",
                "Admission check(s): licences; message-1.",
            ),
            (
                "pod set more: insufficient quota, 1 more needed",
                "pod set set-1: insufficient quota, 1 more needed",
            ),
            (
                "untolerated taint {acme.example/vault-team value-1 NoSchedule}",
                "untolerated taint {label-1 value-1 NoSchedule}",
            ),
            (&cut(&format!("Finished: {long}")), "Finished: message-2"),
            ("trained", "trained"),
            ("...", "..."),
        ];
        for (text, expected) in table {
            assert_eq!(names.text("team-a", text), expected);
        }
        let note = names.of_checks(&cut(&format!("train: a; b; train: {long}")));
        assert_eq!(
            note,
            "cluster-queue-1: message-3; cluster-queue-1: message-2"
        );
    }

    #[test]
    fn a_key_that_was_a_value_first_is_replaced() {
        let mut names = Pseudonyms::default();
        names.value("", "acme.example/asks", "acme.example/vault-team");
        names.key("acme.example/vault-team");
        let text = names.text("team-a", "untolerated taint {acme.example/vault-team x}");
        assert_eq!(text, "untolerated taint {value-1 x}");
    }

    /// Messages of checks that were written before the recording, which no entry contains.
    #[test]
    fn quoted_messages_of_checks_are_replaced() {
        let long = format!("because {}", "x".repeat(2000));
        let cut = format!("Deactivated due to AdmissionCheck in Rejected state: \"b\" ({long}");
        let cut = format!("{} ...", &cut[..1020]);
        let table = [
            (
                "Evicted due to AdmissionCheck in Retry state: \"b\" (not yet)",
                "Evicted due to AdmissionCheck in Retry state: \"check-1\" (message-1)",
            ),
            (
                "Previously: Evicted due to AdmissionChecks in Retry state: \"b\"; \"c\" (no; (a) \"x\"); \"d\" (not yet)",
                "Previously: Evicted due to AdmissionChecks in Retry state: \"check-1\"; \"check-2\" (message-2); \"check-3\" (message-1)",
            ),
            (
                "The workload is deactivated due to AdmissionCheck in Rejected state: \"c\"",
                "The workload is deactivated due to AdmissionCheck in Rejected state: \"check-2\"",
            ),
            (
                "Deactivating workload because AdmissionCheck for b was Rejected: alice may not",
                "Deactivating workload because AdmissionCheck for check-1 was Rejected: message-3",
            ),
            (
                &cut,
                "Deactivated due to AdmissionCheck in Rejected state: \"check-1\" (message-4)",
            ),
        ];
        let mut names = Pseudonyms::default();
        for (text, expected) in table {
            assert_eq!(names.text("team-a", text), expected);
        }
    }

    #[test]
    fn numbers_follow_the_order_of_names() {
        let mut names = Pseudonyms::default();
        for check in ["budget", "zone", "licence", "a"] {
            names.name("check", "", check);
        }
        (0..9).for_each(|n| drop(names.name("check", "", &format!("x{n}"))));
        let mut names = names.in_order();
        let all = ["a", "budget", "licence", "x8", "zone"];
        assert_eq!(
            all.map(|check| names.name("check", "", check)),
            ["check-01", "check-02", "check-03", "check-12", "check-13"]
        );
    }

    #[test]
    fn public_labels_are_kept() {
        let mut names = Pseudonyms::default();
        let labels = json!({
            "kueue.x-k8s.io/queue-name": "train", "kueue.x-k8s.io/managed": "true",
            "topology.kubernetes.io/zone": "paris-1", "acme.com/owner": "alice", "tier": "2",
            "acme.com.node-restriction.kubernetes.io/vault": "1", "vault.k8s.io/x": "true",
            "kueue.x-k8s.io/job-min-parallelism": "3",
            "kueue.x-k8s.io/admission-gated-by": "acme.com/x, acme.com/y",
        });
        let expected = json!({
            "kueue.x-k8s.io/queue-name": "queue-1", "kueue.x-k8s.io/managed": "true",
            "topology.kubernetes.io/zone": "value-4",
            "label-1": "value-1", "label-2": "value-2", "label-3": "value-3", "label-4": "true",
            "kueue.x-k8s.io/job-min-parallelism": "3",
            "kueue.x-k8s.io/admission-gated-by": "example.com/gate-1,example.com/gate-2",
        });
        assert_eq!(names.labels("team-a", &labels), expected);
    }

    #[test]
    fn the_reset_message_of_kueue_is_kept() {
        let mut names = Pseudonyms::default();
        let reset = "Reset to Pending after eviction. Previously: Retry";
        assert_eq!(names.foreign(reset), reset);
        assert_eq!(names.foreign(""), "");
        assert_eq!(names.foreign("over budget"), "message-1");
        assert_eq!(names.foreign("over budget"), "message-1");
    }
}
