//! Bounds that a schema cannot express.

use std::time::Duration;

use kueue_check::HumanDuration;

/// Returns an error unless `value`, that of the field `spec.FIELD`, is from `least` to `most`.
pub(crate) fn within(
    field: &str,
    value: Option<HumanDuration>,
    least: Duration,
    most: Duration,
) -> Result<(), String> {
    let outside = |value: HumanDuration| !(least..=most).contains(&Duration::from(value));
    if value.is_some_and(outside) {
        return Err(format!(
            "`spec.{field}` must be from {} to {}",
            HumanDuration::from(least),
            HumanDuration::from(most)
        ));
    }
    Ok(())
}
