//! Amounts in the format of Kueue's messages.

/// Formats an amount in Kubernetes' canonical form: `500m`, `2`, `64Gi`.
pub(crate) fn show(resource: &str, amount: i64) -> String {
    match resource {
        "cpu" if amount % 1000 == 0 => (amount / 1000).to_string(),
        "cpu" => format!("{amount}m"),
        "memory" | "ephemeral-storage" => {
            suffixed(amount, 1024, &["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"])
        }
        _ => suffixed(amount, 1000, &["", "k", "M", "G", "T", "P", "E"]),
    }
}

fn suffixed(mut amount: i64, base: i64, suffixes: &[&str]) -> String {
    let mut at = 0;
    while amount != 0 && amount % base == 0 && at + 1 < suffixes.len() {
        amount /= base;
        at += 1;
    }
    format!("{amount}{}", suffixes[at])
}
