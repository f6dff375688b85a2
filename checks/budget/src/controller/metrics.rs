//! What can be counted. Account names reveal what tenants spend: let only the collector read the endpoint.

use std::fmt::Write;

use super::shared::Shared;
use crate::terms::Account;

/// All lines, in the OpenMetrics text format.
pub(super) fn text(shared: &Shared) -> String {
    let now = shared.now();
    let mut families: [(&str, &str, String); 7] = [
        (
            "limit",
            "The limit of an account in the current period, with top-ups",
            String::new(),
        ),
        (
            "spent",
            "What an account has spent in the current period, as far as is known",
            String::new(),
        ),
        (
            "committed",
            "What jobs of an account may still spend",
            String::new(),
        ),
        ("remaining", "What is left", String::new()),
        (
            "overspent",
            "By how much more than the limit has been spent",
            String::new(),
        ),
        (
            "held_workloads",
            "Workloads that wait for money",
            String::new(),
        ),
        (
            "watermark_age_seconds",
            "How old the newest known spending is",
            String::new(),
        ),
    ];
    let mut totals = String::new();
    let books = shared.books();
    for (budget, book) in books.all() {
        let _ = writeln!(
            totals,
            "budget_unsanctioned_total{{budget=\"{budget}\"}} {}",
            book.unsanctioned()
        );
        if let Some(known) = book.spend().watermarks().common {
            let _ = writeln!(
                families[6].2,
                "budget_watermark_age_seconds{{budget=\"{budget}\"}} {}",
                now.as_second() - known
            );
        }
        let Some(period) = book.period(now) else {
            continue;
        };
        for account in book.known_accounts(now) {
            let balance = book.balance(&account, period, now);
            let kind = if matches!(account, Account::Pool(_)) {
                "pool"
            } else {
                "namespace"
            };
            let labels = format!(
                "{{budget=\"{budget}\",account=\"{}\",kind=\"{kind}\"}}",
                account.name()
            );
            let values = [
                balance.limit.as_f64(),
                balance.spent.as_f64(),
                balance.committed.total().as_f64(),
                balance.remaining().as_f64(),
                balance.overspent().unwrap_or_default().as_f64(),
                f64::from(book.held(&account).0),
            ];
            for ((name, _, lines), value) in families.iter_mut().zip(values) {
                let _ = writeln!(lines, "budget_{name}{labels} {value}");
            }
        }
    }
    drop(books);
    let mut text = String::new();
    for (name, help, lines) in families {
        let _ = write!(
            text,
            "# TYPE budget_{name} gauge\n# HELP budget_{name} {help}\n{lines}"
        );
    }
    counter(
        &mut text,
        "unsanctioned",
        "Runs that had our word without our having given it",
        &totals,
    );
    counter(
        &mut text,
        "source_requests",
        "Questions to sources, by result",
        &by_result("source_requests", shared.questions()),
    );
    counter(
        &mut text,
        "decisions",
        "Decisions about Workloads that were new, by result",
        &by_result("decisions", shared.decisions()),
    );
    text
}

fn counter(text: &mut String, name: &str, help: &str, lines: &str) {
    let _ = write!(
        text,
        "# TYPE budget_{name} counter\n# HELP budget_{name} {help}\n{lines}"
    );
}

fn by_result(
    name: &str,
    counts: std::collections::BTreeMap<(String, &'static str), u64>,
) -> String {
    let mut lines = String::new();
    for ((budget, result), count) in counts {
        let _ = writeln!(
            lines,
            "budget_{name}_total{{budget=\"{budget}\",result=\"{result}\"}} {count}"
        );
    }
    lines
}
