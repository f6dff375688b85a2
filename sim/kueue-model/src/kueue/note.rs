//! The notes of events, as client-go makes them of Kueue's texts.

use super::reconcile::EventRecord;
use super::scheduler::SCHEDULER;

/// The longest note, in bytes (Kueue 0.19.2, `pkg/util/api/api.go`; Kubernetes has the same limit
/// for events of `events.k8s.io`).
const LONGEST: usize = 1024;

/// Returns the note of an event, or `None` if the API server rejects the event because its note is
/// too long.
///
/// Since 0.18 Kueue truncates its texts, and passes those without arguments as the format of
/// `Eventf` (0.18.3, `Evict` in `pkg/workload/workload.go`). Those with arguments have no percent
/// sign. Before, with `counts_messages`, only the scheduler's are truncated, and two texts are
/// formats (0.17.0: `pkg/scheduler/scheduler.go`, `pkg/controller/jobframework/reconciler.go`).
pub(super) fn note_of(event: &EventRecord, counts_messages: bool) -> Option<String> {
    if !counts_messages {
        let note = without_arguments(&truncated(&event.text));
        return (note.len() <= LONGEST).then_some(note);
    }
    let text = if event.reporter == SCHEDULER {
        truncated(&event.text)
    } else {
        event.text.clone()
    };
    let is_format = ["Pending", "UpdatedAdmissionCheck"].contains(&event.reason.as_str());
    Some(if is_format {
        without_arguments(&text)
    } else {
        text
    })
}

/// Truncates a text to 1,024 bytes, as Kueue does.
fn truncated(text: &str) -> String {
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    let mut end = LONGEST - 4;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{} ...", &text[..end])
}

/// Returns what Go's `fmt.Sprintf` returns for this format and no arguments (Go 1.26, `doPrintf` in
/// `src/fmt/print.go`).
fn without_arguments(format: &str) -> String {
    let (mut note, mut rest) = (String::new(), format);
    while let Some((text, verb)) = rest.split_once('%') {
        note.push_str(text);
        rest = put_verb(&mut note, verb);
    }
    note + rest
}

/// Adds what is printed for a verb without an argument. Returns the text after the verb.
fn put_verb<'a>(note: &mut String, after_percent: &'a str) -> &'a str {
    let flags = after_percent.trim_start_matches(['#', '0', '+', '-', ' ']);
    let (mut index, mut rest) = skip_index(flags);
    let mut bad_index = index != Index::None;
    if let Some(after) = rest.strip_prefix('*') {
        note.push_str("%!(BADWIDTH)");
        (index, rest) = (Index::None, after);
    } else {
        rest = skip_number(rest);
    }
    if rest.len() > 1
        && let Some(after) = rest.strip_prefix('.')
    {
        (index, rest) = skip_index(after);
        bad_index |= index != Index::None;
        if let Some(after) = rest.strip_prefix('*') {
            note.push_str("%!(BADPREC)");
            (index, rest) = (Index::None, after);
        } else {
            rest = skip_number(rest);
        }
    }
    if index != Index::Number {
        (index, rest) = skip_index(rest);
        bad_index |= index != Index::None;
    }
    let mut verbs = rest.chars();
    match verbs.next() {
        None => note.push_str("%!(NOVERB)"),
        Some('%') => note.push('%'),
        Some(verb) => {
            let why = if bad_index { "BADINDEX" } else { "MISSING" };
            note.extend(["%!", verb.encode_utf8(&mut [0; 4]), "(", why, ")"]);
        }
    }
    verbs.as_str()
}

/// The index of an argument before a part of a verb.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Index {
    None,
    /// It is `[3]`, and there is no such argument.
    Number,
    /// It is another text in brackets, or has no end.
    Other,
}

/// Removes an index such as `[3]` from the start. Of one without an end only the bracket goes.
fn skip_index(text: &str) -> (Index, &str) {
    let Some(inside) = text.strip_prefix('[') else {
        return (Index::None, text);
    };
    match inside.split_once(']').filter(|_| text.len() > 2) {
        Some((number, rest)) if is_number(number) => (Index::Number, rest),
        Some((_, rest)) => (Index::Other, rest),
        None => (Index::Other, inside),
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && after_number(text) == Some("")
}

/// Removes a number from the start, or the whole text if the number is too large.
fn skip_number(text: &str) -> &str {
    after_number(text).unwrap_or_default()
}

/// Returns the text after a number, or `None` if a digit follows a number above a million.
fn after_number(text: &str) -> Option<&str> {
    const MOST: u64 = 1_000_000;
    let mut number = 0;
    for (at, byte) in text.bytes().enumerate() {
        if !byte.is_ascii_digit() {
            return Some(&text[at..]);
        }
        if number > MOST {
            return None;
        }
        number = number * 10 + u64::from(byte - b'0');
    }
    Some("")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kueue::reconcile::WORKLOAD_CONTROLLER;

    /// The results are those of Go 1.26.8.
    #[test]
    fn a_text_is_printed_as_a_format_without_arguments() {
        for (format, expected) in [
            ("80% done", "80%!d(MISSING)one"),
            ("80%", "80%!(NOVERB)"),
            ("100%% sure", "100% sure"),
            ("50%d", "50%!d(MISSING)"),
            ("a%5.2f!", "a%!f(MISSING)!"),
            ("%[1]d", "%!d(BADINDEX)"),
            ("%[x]s ok", "%!s(BADINDEX) ok"),
            ("%*d", "%!(BADWIDTH)%!d(MISSING)"),
            ("%.*f", "%!(BADPREC)%!f(MISSING)"),
            ("%-+# 07x", "%!x(MISSING)"),
            ("% ", "%!(NOVERB)"),
            ("%é", "%!é(MISSING)"),
            ("%[2]*.[1]*f", "%!(BADWIDTH)%!(BADPREC)%!f(BADINDEX)"),
            ("plain", "plain"),
            ("%!", "%!!(MISSING)"),
            ("(50%)", "(50%!)(MISSING)"),
            ("%.", "%!.(MISSING)"),
            ("%5.", "%!.(MISSING)"),
            ("%12345678d x", "%!(NOVERB)"),
            ("50% [a]", "50%!(NOVERB)"),
            ("%[", "%!(NOVERB)"),
            ("%[3]", "%!(NOVERB)"),
            ("%[1]%", "%"),
            ("%w%v", "%!w(MISSING)%!v(MISSING)"),
            ("%1.[2", "%!(NOVERB)"),
            ("99.9%, 5% left", "99.9%!,(MISSING) 5%!l(MISSING)eft"),
            ("%.[1]*[2]d", "%!(BADPREC)%!d(BADINDEX)"),
            ("%[1][2]d", "%![(BADINDEX)2]d"),
            ("%-[1]5d", "%!d(BADINDEX)"),
            ("%[]", "%!](BADINDEX)"),
            ("%[12345678][1]x", "%!x(BADINDEX)"),
            ("%1234567d", "%!d(MISSING)"),
        ] {
            assert_eq!(without_arguments(format), expected, "{format}");
        }
    }

    #[test]
    fn some_texts_are_truncated_and_some_are_formats() {
        let long = "x".repeat(2000);
        let cut = format!("{} ...", "x".repeat(1020));
        let full = format!("1%{}", "x".repeat(1020));
        // Reason, reporter, text; the notes since 0.18 and before.
        let (other, scheduler) = (WORKLOAD_CONTROLLER, SCHEDULER);
        for (reason, by, text, since, before) in [
            ("EvictedDueToPreempted", other, &*long, Some(&*cut), &*long),
            ("QuotaReserved", scheduler, &*long, Some(&*cut), &*cut),
            (
                "Pending",
                scheduler,
                "5%",
                Some("5%!(NOVERB)"),
                "5%!(NOVERB)",
            ),
            ("Stopped", other, "5%", Some("5%!(NOVERB)"), "5%"),
            ("AdmissionCheckRejected", other, &*full, None, &*full),
        ] {
            let event = EventRecord::normal(reason, text, by);
            let notes = [false, true].map(|counts| note_of(&event, counts));
            let [now, then] = notes.each_ref().map(Option::as_deref);
            assert_eq!((now, then), (since, Some(before)), "{reason}");
        }
    }
}
