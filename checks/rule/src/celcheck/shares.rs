//! The step limits of rules: for all rules of a program together, and for each.
//!
//! Evaluations run on the threads that also renew the Lease. A rule that takes a million steps for
//! each of five thousand Workloads each minute would starve the other rules. So the steps of a
//! minute are shared among the rules that were evaluated in it.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

const MINUTE: Duration = Duration::from_mins(1);
/// The default number of steps of all rules of a program in a minute.
const STEPS_PER_MINUTE: u64 = 1_000_000_000;
/// The cost of an evaluation besides the steps of its expressions.
const EVALUATION: u64 = 100;
/// The minimum delay until a rule that has used its share is evaluated again.
const SHORTEST: Duration = Duration::from_secs(1);

/// The shares of rules, by AdmissionCheck.
#[derive(Debug)]
pub(super) struct Shares {
    per_minute: u64,
    rules: BTreeMap<String, Share>,
}

#[derive(Debug)]
struct Share {
    /// The remaining steps; negative if more were taken.
    left: i64,
    at: Instant,
}

impl Default for Shares {
    fn default() -> Self {
        Self::new(STEPS_PER_MINUTE)
    }
}

impl Shares {
    /// Creates shares of `per_minute` steps in a minute; twice as many in a minute that follows one
    /// with fewer.
    pub(super) fn new(per_minute: u64) -> Self {
        Self {
            per_minute,
            rules: BTreeMap::new(),
        }
    }

    /// Returns an error with the remaining wait unless the rule of `check` may be evaluated at
    /// `now`.
    pub(super) fn may_evaluate(&mut self, check: &str, now: Instant) -> Result<(), Duration> {
        self.rules
            .retain(|name, share| name == check || now < share.at + MINUTE || share.left < 0);
        let rules = self.rules.len() + usize::from(!self.rules.contains_key(check));
        let rules = u64::try_from(rules).unwrap_or(u64::MAX);
        let most = i64::try_from((self.per_minute / rules).max(1)).unwrap_or(i64::MAX);
        let fresh = Share {
            left: most,
            at: now,
        };
        let share = self.rules.entry(check.to_owned()).or_insert(fresh);
        let gone = now.saturating_duration_since(share.at).min(MINUTE);
        let millis = i64::try_from(gone.as_millis()).unwrap_or(i64::MAX);
        // The steps added since then; a fraction of a millisecond is kept.
        let more = most.saturating_mul(millis) / 60_000;
        share.left = share.left.saturating_add(more).min(most);
        share.at = now;
        if share.left > 0 {
            return Ok(());
        }
        let missing = share.left.unsigned_abs().saturating_add(1);
        let millis = missing.saturating_mul(60_000) / most.unsigned_abs();
        Err(Duration::from_millis(millis).max(SHORTEST))
    }

    /// Records that an evaluation of `check` took `steps`.
    pub(super) fn spent(&mut self, check: &str, steps: u64) {
        if let Some(share) = self.rules.get_mut(check) {
            let steps = i64::try_from(steps.saturating_add(EVALUATION)).unwrap_or(i64::MAX);
            share.left = share.left.saturating_sub(steps);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of evaluations of each rule with its steps in `seconds`, ten tries a
    /// second.
    fn evaluations(shares: &mut Shares, rules: &[(&str, u64)], seconds: u32) -> Vec<u64> {
        let begun = Instant::now();
        let mut steps = vec![0; rules.len()];
        for tenth in 0..seconds * 10 {
            let now = begun + tenth * Duration::from_millis(100);
            for ((check, of_each), taken) in rules.iter().zip(&mut steps) {
                if shares.may_evaluate(check, now).is_ok() {
                    shares.spent(check, of_each - EVALUATION);
                    *taken += of_each;
                }
            }
        }
        steps
    }

    #[tokio::test(start_paused = true)]
    async fn the_rules_of_a_program_take_a_bounded_number_of_steps_together() {
        for rules in [1, 2, 10] {
            let mut shares = Shares::new(60_000);
            let names: Vec<String> = (0..rules).map(|number| number.to_string()).collect();
            let all: Vec<_> = names.iter().map(|name| (name.as_str(), 1000)).collect();
            let taken: u64 = evaluations(&mut shares, &all, 600).iter().sum();
            // Ten minutes, the steps that may be saved for one, and the last evaluation of each.
            let most = 60_000 * 13 + rules * 1000;
            assert!((580_000..=most).contains(&taken), "{rules}: {taken}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_rule_that_takes_too_much_leaves_the_others_theirs() {
        let mut shares = Shares::new(60_000);
        let rules = [("hostile", 30_000), ("good", 200)];
        let taken = evaluations(&mut shares, &rules, 600);
        // 200 steps ten times a second would be 1,200,000.
        assert!(taken[0] <= 390_000, "{taken:?}");
        assert!(taken[1] >= 290_000, "{taken:?}");
        let taken = evaluations(&mut Shares::new(600_000), &rules, 600);
        assert_eq!(taken[1], 200 * 6000, "never throttled: {taken:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_throttled_rule_gets_the_time_until_its_next_evaluation() {
        let mut shares = Shares::new(60_000);
        let now = Instant::now();
        assert_eq!(shares.may_evaluate("a", now), Ok(()));
        shares.spent("a", 90_000 - EVALUATION);
        let wait = shares.may_evaluate("a", now).unwrap_err();
        assert_eq!(wait.as_secs(), 30);
        assert_eq!(shares.may_evaluate("a", now + wait), Ok(()));
        // A rule that is not evaluated any more has no share.
        assert_eq!(shares.may_evaluate("b", now + 3 * MINUTE), Ok(()));
        assert_eq!(shares.rules.len(), 1);
    }
}
