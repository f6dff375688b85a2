//! The estimate of a job: its price per hour and its duration.

use std::collections::BTreeMap;
use std::time::Duration;

use kueue_check::HumanDuration;
use kueue_check::api::{PodSet, Quantity, Workload};

use crate::money::{Amount, Rate};
use crate::resource::Price;

/// An estimate of one Workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// The cost per hour.
    pub rate: Rate,
    /// The expected duration, in seconds.
    pub seconds: u32,
    /// Whether Kueue enforces the duration; otherwise it is an assumption.
    pub bounded: bool,
    /// The longest termination grace period of its pods, in seconds.
    pub grace: u32,
    /// A used resource without a price, and its flavor.
    pub unpriced: Option<(String, String)>,
}

impl Estimate {
    /// Returns the total cost.
    pub fn total(&self) -> Amount {
        self.rate.cost(self.longest())
    }

    /// Formats the duration: `4h and 30s to terminate`.
    pub fn time(&self) -> String {
        let human = |seconds: u32| HumanDuration::from(Duration::from_secs(seconds.into()));
        match self.grace {
            0 => human(self.seconds).to_string(),
            grace => format!("{} and {} to terminate", human(self.seconds), human(grace)),
        }
    }

    /// Returns the seconds for which its pods may use their resources.
    pub fn longest(&self) -> i64 {
        i64::from(self.seconds) + i64::from(self.grace)
    }
}

/// A price list of resources, with the safety factor and the default duration.
#[derive(Clone, Debug, PartialEq)]
pub struct PriceList {
    prices: Vec<Price>,
    safety: Amount,
    default_seconds: u32,
}

/// The bytes of a GiB, by which memory and storage are priced.
const GIB: u64 = 1 << 30;

impl PriceList {
    /// Creates a price list. The first price that matches the flavor and names the resource
    /// applies.
    pub fn new(prices: Vec<Price>, safety: Amount, default_seconds: u32) -> Self {
        Self {
            prices,
            safety,
            default_seconds,
        }
    }

    fn price(&self, flavor: &str, resource: &str) -> Option<Amount> {
        let fits = |price: &&Price| price.flavor == "*" || price.flavor == flavor;
        let mut fitting = self.prices.iter().filter(fits);
        fitting.find_map(|price| price.resources.get(resource).copied())
    }

    /// Returns the estimate of `workload` in its current reservation. Every step rounds up.
    ///
    /// The usage is that of the pods that run or will run ([`PodSet::count`]), with overhead and
    /// defaults.
    pub fn estimate(&self, workload: &Workload) -> Estimate {
        let mut rate = Rate::ZERO;
        let mut unpriced = None;
        for pods in workload.pod_sets() {
            for (resource, flavor, price) in self.lines(pods) {
                match price {
                    Some(price) => {
                        let used = pods
                            .resource(resource)
                            .map(|resource| resource.usage())
                            .unwrap_or_default();
                        rate = rate + Rate::of(thousandths(used), price, divisor(resource));
                    }
                    None => {
                        unpriced =
                            unpriced.or_else(|| Some((resource.to_owned(), flavor.to_owned())));
                    }
                }
            }
        }
        let past = workload.past_execution_time();
        let limit = workload
            .max_execution_time()
            .map(|limit| limit.saturating_sub(past));
        let pod_sets = workload.pod_sets().iter();
        let graces = pod_sets.map(|pods| pods.termination_grace().as_secs());
        Estimate {
            rate: rate.times(self.safety),
            seconds: limit.map_or(self.default_seconds, |limit| {
                u32::try_from(limit.as_secs()).unwrap_or(u32::MAX)
            }),
            bounded: limit.is_some(),
            grace: u32::try_from(graces.max().unwrap_or_default()).unwrap_or(u32::MAX),
            unpriced,
        }
    }

    /// Returns the used resources of `pods` with an assigned flavor, each with flavor and price.
    fn lines<'a>(
        &'a self,
        pods: &'a PodSet,
    ) -> impl Iterator<Item = (&'a str, &'a str, Option<Amount>)> {
        pods.resources()
            .filter(|resource| !resource.usage().is_zero())
            .filter_map(|resource| {
                let flavor = resource.flavor()?;
                let price = self.price(flavor, resource.name());
                Some((resource.name(), flavor, price))
            })
    }

    /// Describes the most expensive resource of `workload`: `8× nvidia.com/gpu a100-spot for 24h
    /// and 30s to terminate`.
    pub fn describe(&self, workload: &Workload, estimate: &Estimate) -> String {
        let mut totals: BTreeMap<(&str, &str), (Quantity, Rate)> = BTreeMap::new();
        for pods in workload.pod_sets() {
            for (resource, flavor, price) in self.lines(pods) {
                let used = pods
                    .resource(resource)
                    .map(|resource| resource.usage())
                    .unwrap_or_default();
                let rate = Rate::of(
                    thousandths(used),
                    price.unwrap_or_default(),
                    divisor(resource),
                );
                let total = totals.entry((resource, flavor)).or_default();
                *total = (total.0 + used, total.1 + rate);
            }
        }
        let most = totals.into_iter().max_by_key(|(_, (_, rate))| *rate);
        let time = estimate.time();
        match most {
            None => format!("nothing for {time}"),
            Some(((resource, flavor), (used, _))) if divisor(resource) == GIB => {
                format!(
                    "{} GiB {resource} {flavor} for {time}",
                    used.units() / (1 << 30)
                )
            }
            Some(((resource, flavor), (used, _))) => {
                format!("{used}× {resource} {flavor} for {time}")
            }
        }
    }
}

fn divisor(resource: &str) -> u64 {
    let by_the_gib =
        matches!(resource, "memory" | "ephemeral-storage") || resource.starts_with("hugepages-");
    if by_the_gib { GIB } else { 1 }
}

/// Returns the quantity in thousandths, even if they exceed 64 bits.
fn thousandths(quantity: Quantity) -> i128 {
    let units = quantity.units();
    if units > i64::MAX / 2000 {
        i128::from(units) * 1000
    } else {
        quantity.millis().into()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn ledger() -> PriceList {
        let prices = json!([
            {"flavor": "a100-spot", "resources": {"nvidia.com/gpu": "1.20", "cpu": "0.012", "memory": "0.0016"}},
            {"flavor": "free", "resources": {"nvidia.com/gpu": "0", "cpu": "0", "memory": "0"}},
            {"flavor": "tpus-free", "resources": {"tpu": "0"}},
            {"flavor": "*", "resources": {"nvidia.com/gpu": "2.90"}},
        ]);
        PriceList::new(
            serde_json::from_value(prices).unwrap(),
            Amount::units(1),
            14_400,
        )
    }

    fn workload(spec: &Value, status: &Value) -> Workload {
        let mut object = json!({
            "metadata": {"namespace": "n", "name": "w", "uid": "u"},
            "spec": {"podSets": [{"name": "main", "count": 8, "template": {}}]},
            "status": {"admission": {"clusterQueue": "cq"}},
        });
        merge(&mut object["spec"], spec);
        merge(&mut object["status"], status);
        Workload::from_json(object).unwrap()
    }

    fn merge(object: &mut Value, patch: &Value) {
        for (key, value) in patch.as_object().unwrap() {
            match value {
                Value::Object(_) if object[key].is_object() => merge(&mut object[key], value),
                _ => object[key] = value.clone(),
            }
        }
    }

    fn assigned(flavors: &Value, usage: &Value) -> Value {
        json!({"admission": {"podSetAssignments": [{"name": "main", "count": 8, "flavors": flavors, "resourceUsage": usage}]}})
    }

    #[test]
    fn usage_times_price_of_the_assigned_flavor_is_the_rate() {
        let all = |flavor: &str| json!({"nvidia.com/gpu": flavor, "cpu": flavor, "memory": flavor});
        let usage = json!({"nvidia.com/gpu": "8", "cpu": "64", "memory": "512Gi"});
        for (flavor, expected, unpriced) in [
            ("a100-spot", "11.1872", false), // 9.6 + 0.768 + 0.8192
            ("a100", "23.2", true),
            ("free", "0", false),
        ] {
            let estimate =
                ledger().estimate(&workload(&json!({}), &assigned(&all(flavor), &usage)));
            assert_eq!(
                (estimate.rate.per_hour(), estimate.unpriced.is_some()),
                (expected.parse().unwrap(), unpriced),
                "{flavor}"
            );
            assert_eq!((estimate.seconds, estimate.bounded), (14_400, false));
        }
    }

    #[test]
    fn what_has_no_price_at_all_is_unpriced_and_not_free() {
        let estimate = ledger().estimate(&workload(
            &json!({}),
            &assigned(&json!({"tpu": "a100"}), &json!({"tpu": "4"})),
        ));
        assert_eq!(
            estimate.unpriced,
            Some(("tpu".to_owned(), "a100".to_owned()))
        );
        // Beside a priced resource too: a price of 0 marks a resource as free.
        let both = |tpu: &str| {
            assigned(
                &json!({"tpu": tpu, "nvidia.com/gpu": tpu}),
                &json!({"tpu": "4", "nvidia.com/gpu": "1"}),
            )
        };
        let estimate = ledger().estimate(&workload(&json!({}), &both("a100")));
        assert_eq!(
            (estimate.unpriced, estimate.rate.per_hour()),
            (
                Some(("tpu".to_owned(), "a100".to_owned())),
                "2.9".parse().unwrap()
            )
        );
        let estimate = ledger().estimate(&workload(&json!({}), &both("tpus-free")));
        assert_eq!(
            (estimate.unpriced, estimate.rate.per_hour()),
            (None, "2.9".parse().unwrap()),
            "what a flavor's own prices leave out has that of the next that fits"
        );
        // A Workload without requests needs no price.
        assert_eq!(
            ledger()
                .estimate(&workload(&json!({}), &json!({})))
                .unpriced,
            None
        );
    }

    #[test]
    fn what_is_left_to_run_is_what_costs() {
        for (case, spec, assigned, reclaimable, pods) in [
            ("whole", 8, 8, 0, 8),
            ("running, 6 pods have succeeded", 8, 8, 6, 2),
            ("evicted with 2 of 4 pods succeeded, and back", 4, 2, 2, 2),
            ("partially admitted, 2 pods have succeeded", 4, 3, 2, 2),
            ("partially admitted", 8, 6, 0, 6),
            ("an elastic job that shrank from 4 to 1", 1, 4, 0, 1),
            ("all pods have succeeded", 4, 4, 4, 0),
        ] {
            let status = json!({
                "admission": {"podSetAssignments": [{
                    "name": "main", "count": assigned, "flavors": {"nvidia.com/gpu": "a100"},
                    "resourceUsage": {"nvidia.com/gpu": assigned.to_string()},
                }]},
                "reclaimablePods": [{"name": "main", "count": reclaimable}],
            });
            let sets = json!({"podSets": [{"name": "main", "count": spec, "template": {}}]});
            let workload = workload(&sets, &status);
            let estimate = ledger().estimate(&workload);
            let price: Amount = "2.9".parse().unwrap();
            assert_eq!(
                estimate.rate.per_hour(),
                Rate::of(pods * 1000, price, 1).per_hour(),
                "{case}"
            );
            let described = ledger().describe(&workload, &estimate);
            let expected = match pods {
                0 => "nothing for 4h and 30s to terminate".to_owned(),
                _ => format!("{pods}× nvidia.com/gpu a100 for 4h and 30s to terminate"),
            };
            assert_eq!(described, expected, "{case}");
        }
    }

    #[test]
    fn the_duration_is_what_kueue_enforces_less_what_has_run() {
        let status = |past: u32| {
            let mut status = assigned(
                &json!({"nvidia.com/gpu": "a100"}),
                &json!({"nvidia.com/gpu": "1"}),
            );
            status["accumulatedPastExecutionTimeSeconds"] = json!(past);
            status
        };
        for (past, seconds) in [(0, 7200), (1800, 5400), (9000, 0)] {
            let estimate = ledger().estimate(&workload(
                &json!({"maximumExecutionTimeSeconds": 7200}),
                &status(past),
            ));
            assert_eq!((estimate.seconds, estimate.bounded), (seconds, true));
        }
    }

    #[test]
    fn pods_cost_until_they_have_terminated() {
        let gpu = assigned(
            &json!({"nvidia.com/gpu": "a100"}),
            &json!({"nvidia.com/gpu": "1"}),
        );
        for (template, seconds) in [
            (json!({}), 31),
            (json!({"terminationGracePeriodSeconds": 0}), 1),
            (json!({"terminationGracePeriodSeconds": 86_400}), 86_401),
            (
                json!({"terminationGracePeriodSeconds": 1_000_000_000_000_i64}),
                i64::from(u32::MAX) + 1,
            ),
        ] {
            let pods = json!([{"name": "main", "count": 8, "template": {"spec": template}}]);
            let spec = json!({"maximumExecutionTimeSeconds": 1, "podSets": pods});
            let estimate = ledger().estimate(&workload(&spec, &gpu));
            assert_eq!(estimate.total(), estimate.rate.cost(seconds), "{template}");
        }
    }

    #[test]
    fn the_safety_factor_applies_to_the_rate() {
        let ledger = PriceList {
            safety: "1.1".parse().unwrap(),
            ..ledger()
        };
        let one = assigned(
            &json!({"nvidia.com/gpu": "a100"}),
            &json!({"nvidia.com/gpu": "1"}),
        );
        let estimate = ledger.estimate(&workload(&json!({}), &one));
        assert_eq!(estimate.rate.per_hour(), "3.19".parse().unwrap());
    }

    #[test]
    fn recorded_workloads_are_estimated() {
        // 4 workers of 8 CPUs, 64 GiB and a GPU, and a driver of the same size.
        let workload = Workload::from_json(kueue_check_testenv::workload(1, 4)).unwrap();
        let estimate = ledger().estimate(&workload);
        assert_eq!(estimate.rate.per_hour(), "14.5".parse().unwrap());
        assert_eq!(
            ledger().describe(&workload, &estimate),
            "5× nvidia.com/gpu a100 for 4h and 30s to terminate"
        );
    }
}
