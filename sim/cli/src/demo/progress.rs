//! Progress of a scenario, line by line.

use std::collections::BTreeMap;
use std::time::Duration;

use kueue_check::Clock;
use serde_json::Value;

use kueue_check_sim::apiserver::{ApiServer, WatchOptions};
use kueue_check_sim::kueue;
use kueue_check_sim::timeline::summary;

/// The longest wait for a line.
const LONGEST: Duration = Duration::from_millis(400);

/// Prints each change of a Workload's phase or checks. A sleeping thread sets the pace: virtual
/// time stands still meanwhile.
pub(super) async fn show(server: ApiServer, clock: Clock, speed: u32) {
    let Ok(mut watch) = server.watch(WatchOptions::all(&kueue::resource("workloads"))) else {
        return;
    };
    let mut last: BTreeMap<String, String> = BTreeMap::new();
    let mut before = clock.now();
    while let Some(event) = watch.next().await {
        let job = job(&event.object);
        let shown = if event.kind == "DELETED" {
            "deleted".to_owned()
        } else {
            summary(&event.object)
        };
        if last.insert(job.clone(), shown.clone()).as_ref() == Some(&shown) {
            continue;
        }
        let now = clock.now();
        pace(
            Duration::try_from(now.duration_since(before)).unwrap_or_default(),
            speed,
        );
        before = now;
        println!("{now:.0}  {job:<24} {shown}");
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "time is virtual; this is for the person who looks on"
)]
fn pace(passed: Duration, speed: u32) {
    if let Some(wait) = passed.checked_div(speed) {
        std::thread::sleep(wait.min(LONGEST));
    }
}

fn job(workload: &Value) -> String {
    let metadata = &workload["metadata"];
    let owner = metadata
        .pointer("/ownerReferences/0/name")
        .unwrap_or(&metadata["name"]);
    let namespace = metadata["namespace"].as_str().unwrap_or_default();
    format!("{namespace}/{}", owner.as_str().unwrap_or_default())
}
