//! `explain`: why a Workload waits, and what this program would return for it now. It writes
//! nothing: its client refuses every request that is not a read.

mod client;
mod explanation;
mod forecast;
mod read;
mod target;
mod text;

use std::collections::BTreeMap;
use std::time::Duration;

use kube::Client;

use super::{Error, Result};
use crate::Clock;
use crate::api::{AdmissionCheck, Projection, WorkloadObject};
use crate::check::DynCheck;
use crate::runtime::preview::{PreviewInput, forecast};
use explanation::{Facts, explain_workload};
use forecast::{CheckForecast, check_forecast};

pub(super) use client::read_only;
pub use explanation::Explanation;
pub use target::{Target, TargetError};

/// The default timeout of an evaluation, as in `run`.
const LIMIT: Duration = Duration::from_secs(30);

/// Makes the explanation. `client` only reads, and so do the clients of `checks`.
pub(super) async fn explain(
    client: &Client,
    checks: &[DynCheck],
    namespace: &str,
    target: &Target,
    clock: &Clock,
) -> Result<Explanation> {
    let served = read::served(client).await?;
    let whole = read::workload(client, served.version, namespace, target).await?;
    let admission_checks = read::admission_checks(client, served.version).await?;
    let mut projection = Projection::new(checks.iter().flat_map(DynCheck::annotations).collect());
    let object: WorkloadObject =
        serde_json::from_value(whole.clone()).map_err(|error| Error::Read {
            what: format!("the Workload of `{target}`"),
            why: error.to_string(),
        })?;
    let workload = projection.project(object);
    let family = read::family(client, served.version, &workload).await?;
    let now = clock.now();

    let ours: Vec<(&AdmissionCheck, &DynCheck)> = workload
        .checks()
        .iter()
        .filter_map(|entry| {
            let object = admission_checks
                .iter()
                .find(|object| object.name() == entry.name())?;
            let number = DynCheck::serving(checks, object)?;
            Some((object, &checks[number]))
        })
        .collect();
    let flavors = if ours.is_empty() {
        std::sync::Arc::default()
    } else {
        read::flavors(client, served.version).await?
    };
    let reserved = workload
        .conditions()
        .quota_reserved()
        .last_transition_time()
        .filter(|_| workload.holds_quota());
    let mut forecasts: BTreeMap<String, CheckForecast> = BTreeMap::new();
    for (object, check) in ours {
        let kind = check.parameters().kind;
        let result = match read::parameters(client, kind.as_ref(), object).await {
            Err(error) => unread(error.to_string()),
            Ok(parameters) => {
                let input = PreviewInput {
                    check,
                    other_kinds: check.other_kinds(checks),
                    admission_check: object,
                    workload: &workload,
                    family: &family,
                    whole: &whole,
                    parameters,
                    flavors: &flavors,
                    served,
                    now,
                    limit: LIMIT,
                    client,
                };
                let entry = workload.check(object.name());
                check_forecast(forecast(input).await, reserved, entry)
            }
        };
        forecasts.insert(object.name().to_owned(), result);
    }
    let facts = Facts {
        whole: &whole,
        workload: &workload,
        family: &family,
        admission_checks: &admission_checks,
        now,
    };
    Ok(explain_workload(&facts, |check| forecasts.remove(check)))
}

fn unread(why: String) -> CheckForecast {
    CheckForecast::Declined {
        why,
        waits_at_most: None::<forecast::Bound>,
    }
}
