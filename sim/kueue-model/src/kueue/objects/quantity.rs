//! The canonical text of quantities.

use serde_json::{Map, Value};

use kueue_check::api::Quantity;

/// Returns a list of resources with canonical quantities, as Go writes one that it has read
/// (`CanonicalizeBytes` in `pkg/api/resource/quantity.go` of apimachinery 0.36.2): `1000m` and `1`
/// are the same, `1Ki` and `1024` are not. What is not a list of resources stays as it is.
pub(crate) fn with_canonical_quantities(resources: &Value) -> Value {
    let Some(resources) = resources.as_object() else {
        return resources.clone();
    };
    let canonical = resources.iter().map(|(name, amount)| {
        let text = canonical(amount).map_or_else(|| amount.clone(), Value::from);
        (name.clone(), text)
    });
    canonical.collect::<Map<String, Value>>().into()
}

fn canonical(amount: &Value) -> Option<String> {
    let text = match amount {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let quantity: Quantity = text.parse().ok()?;
    let units = quantity.units();
    Some(if text.ends_with('i') && !(-1023..1024).contains(&units) {
        scaled(
            units.into(),
            1024,
            &["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"],
        )
    } else {
        let plain = quantity.to_string();
        let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
        let nanos: i128 = format!("{whole}{fraction:0<9}").parse().ok()?;
        let suffixes = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
        scaled(nanos, 1000, &suffixes)
    })
}

/// Formats an amount with the last of these suffixes that leaves a whole number. Each stands for
/// `base` of the one before.
pub(crate) fn scaled(mut amount: i128, base: i128, suffixes: &[&str]) -> String {
    if amount == 0 {
        return "0".to_owned();
    }
    let mut at = 0;
    while amount % base == 0 && at + 1 < suffixes.len() {
        amount /= base;
        at += 1;
    }
    format!("{amount}{}", suffixes[at])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_have_one_text() {
        for (text, expected) in [
            (json!("1000m"), "1"),
            (json!("0.5"), "500m"),
            (json!(2), "2"),
            (json!("2000"), "2k"),
            (json!("1e3"), "1k"),
            (json!("1.5Gi"), "1536Mi"),
            (json!("1024Ki"), "1Mi"),
            (json!("1048576"), "1048576"),
            (json!("0.5Ki"), "512"),
            (json!("0Gi"), "0"),
            (json!("-1"), "-1"),
        ] {
            let found = with_canonical_quantities(&json!({"cpu": text}));
            assert_eq!(found, json!({"cpu": expected}));
        }
        assert_eq!(with_canonical_quantities(&Value::Null), Value::Null);
    }
}
