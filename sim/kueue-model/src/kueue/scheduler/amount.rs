//! Amounts in the format of Kueue's messages.

use crate::kueue::objects::scaled;

/// Formats an amount in Kubernetes' canonical form: `500m`, `2`, `64Gi`. An amount of bytes that is
/// no multiple of 1,024 has a decimal suffix, such as `500k` (Kueue 0.15.0, `newCanonicalQuantity`
/// in `pkg/resources/requests.go`; 0.19.2, in `pkg/resources/resource_formatter.go`).
pub(crate) fn show(resource: &str, amount: i64) -> String {
    match resource {
        "cpu" if amount % 1000 == 0 => scaled((amount / 1000).into(), 1000, &DECIMAL),
        "cpu" => format!("{amount}m"),
        _ if in_bytes(resource) && amount % 1024 == 0 => scaled(
            amount.into(),
            1024,
            &["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"],
        ),
        _ => scaled(amount.into(), 1000, &DECIMAL),
    }
}

const DECIMAL: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];

fn in_bytes(resource: &str) -> bool {
    ["memory", "ephemeral-storage"].contains(&resource) || resource.starts_with("hugepages-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_canonical() {
        for (resource, amount, expected) in [
            ("cpu", 1500, "1500m"),
            ("cpu", 2000, "2"),
            ("cpu", 1_000_000, "1k"),
            ("cpu", 1_500_000_000, "1500k"),
            ("memory", 0, "0"),
            ("memory", 1500, "1500"),
            ("memory", 2_000_000, "2M"),
            ("memory", 2 << 20, "2Mi"),
            ("memory", 2_048_000, "2000Ki"),
            ("hugepages-2Mi", 4 << 20, "4Mi"),
            ("example.com/gpu", 2048, "2048"),
            ("example.com/gpu", 3000, "3k"),
        ] {
            assert_eq!(show(resource, amount), expected, "{resource} {amount}");
        }
    }
}
