//! The check on a simulated cluster. Each scenario runs once without faults, and once with each
//! fault at each request and each event.

use std::time::Duration;

use {{ crate_name }}::check;
{%- if source != "none" %}
use {{ crate_name }}::source::Source;
{%- endif %}
use kueue_check::api::CheckState;
{%- if source == "none" %}
use kueue_check::prelude::*;
{%- endif %}
{%- if cleanup %}
use kueue_check_sim::apiserver::Resource;
use kueue_check_sim::{Cluster, Job, Simulation};
{%- else %}
use kueue_check_sim::{Job, Simulation};
{%- endif %}
{% if parameters %}
use crate::deploy::rule;
{%- endif %}
{%- if source != "none" %}
use crate::service::Service;
{%- endif %}

/// The check with what it has in a cluster{% if parameters %}, and the rule of
/// `deploy/example.yaml`{% endif %}.
fn simulation() -> Simulation {
{%- if cleanup or source != "none" %}
    let simulation = Simulation::with_context(|context| {
{%- if source != "none" %}
        let service = context.external(|| Service::with_free_pods(8));
        let source = Source::new(service.fetch(){% unless parameters %}, "http://service"{% endunless %});
{%- endif %}
        check::new({% if cleanup %}context.client.clone(){% if source != "none" %}, {% endif %}{% endif %}{% if source != "none" %}source{% endif %})
    });
{%- else %}
    let simulation = Simulation::new(check::new);
{%- endif %}
    simulation.starting_at("2026-11-21T21:00:00Z"){% if parameters %}.parameters(&rule()){% endif %}
}
{%- if cleanup %}

/// The Workloads for which something is booked.
fn booked(cluster: &Cluster) -> Vec<String> {
    let bookings = cluster.server().objects(&Resource::new("", "v1", "configmaps"), "");
    let lines = bookings.iter().filter_map(|booking| booking["data"].as_object()).flat_map(|lines| lines.values());
    lines.map(|line| line.as_str().unwrap().split(':').next().unwrap().to_owned()).collect()
}
{%- endif %}

#[test]
fn a_job_starts_when_it_may_with_any_fault() {
    let explored = simulation().run_with_each_fault(async |cluster| {
        cluster.submit(Job::new("small").pods(4));
        cluster.expect_admitted("small").await;
        cluster.submit(Job::new("large").pods(16));
{%- if source == "none" %}
        cluster.expect_message("large", "more from 22:00 UTC").await;
        assert_eq!(cluster.state("large"), Some(CheckState::Pending));
        cluster.expect_waiting("large", Duration::from_secs(3000)).await;
        cluster.advance_to("2026-11-21T22:00:00Z").await;
{%- else %}
        cluster.expect_message("large", "16 pods requested, 8 free").await;
        assert_eq!(cluster.state("large"), Some(CheckState::Pending));
        cluster.expect_waiting("large", Duration::from_secs(300)).await;
        cluster.external::<Service>().set_free_pods(16);
{%- endif %}
        cluster.expect_admitted("large").await;
    });
    println!("{explored}");
}
{%- if source == "none" %}

/// Another check of the same queue.
#[admission_check(controller = "example.com/at-eight")]
async fn at_eight(Now(now): Now) -> Verdict {
    let opens = "2026-11-22T08:00:00Z".parse().unwrap();
    match u64::try_from(now.duration_until(opens).as_secs()) {
        Ok(wait) if wait > 0 => Verdict::pending("opens at 08:00").recheck_in(Duration::from_secs(wait)),
        _ => Verdict::ready("open"),
    }
}

#[test]
fn a_job_that_waits_for_another_check_does_not_start_by_day() {
    simulation().and("other", |_| at_eight).run(async |cluster| {
        cluster.submit(Job::new("large").pods(16));
        cluster.advance_to("2026-11-21T22:00:00Z").await;
        cluster.expect_state("large", CheckState::Ready).await;
        cluster.advance_to("2026-11-22T06:00:00Z").await;
        cluster.expect_state("large", CheckState::Pending).await;
        cluster.expect_waiting("large", Duration::from_secs(15 * 3600)).await;
    });
}
{%- endif %}
{%- if parameters %}

#[test]
fn an_invalid_rule_is_reported_until_it_is_valid() {
    let mut wrong = rule();
{%- if source == "none" %}
    wrong["spec"]["nightEnds"] = wrong["spec"]["nightBegins"].clone();
    let expected = "there would be no night";
{%- else %}
    wrong["spec"]["url"] = "nowhere".into();
    let expected = "`nowhere` is no URL";
{%- endif %}
    let simulation = simulation().parameters(&wrong);
    let run = simulation.run(async |cluster| {
        cluster.submit(Job::new("small").pods(4));
        cluster.expect_inactive("check", expected).await;
        assert!(!cluster.is_admitted("small"));
        cluster.apply(&rule());
        cluster.expect_active("check").await;
        cluster.expect_admitted("small").await;
    });
    println!("{} requests", run.requests);
}

#[test]
fn a_changed_rule_changes_the_verdict() {
    let run = simulation().run(async |cluster| {
        cluster.submit(Job::new("large").pods(16));
        cluster.expect_message("large", "16 pods").await;
        let mut other = rule();
{%- if source == "none" %}
        other["spec"]["mostPodsByDay"] = 16.into();
{%- else %}
        cluster.external::<Service>().set_free_pods(16);
        // The responses of the first URL are not used for another one.
        other["spec"]["url"] = "http://elsewhere".into();
{%- endif %}
        cluster.apply(&other);
        cluster.expect_admitted("large").await;
    });
    println!("{} requests", run.requests);
}
{%- endif %}
{%- if source != "none" %}

#[test]
fn an_outage_changes_no_state_and_opens_the_breaker() {
    let run = simulation().run(async |cluster| {
        let service = cluster.external::<Service>();
        service.set_down(true);
        cluster.submit(Job::new("small").pods(4));
        cluster.expect_message("small", "the service is down").await;
        cluster.expect_waiting("small", Duration::from_secs(3600)).await;
        assert_eq!(cluster.state("small"), Some(CheckState::Pending));
        let requests = service.requests().len();
        assert!((5..100).contains(&requests), "{requests} requests in an hour");
        service.set_down(false);
        cluster.expect_admitted("small").await;
    });
    println!("{} requests", run.requests);
}

#[test]
fn one_request_serves_all_jobs{% if source == "http" %}_of_a_namespace{% endif %}() {
    let run = simulation().run(async |cluster| {
        for number in 0..8 {
            cluster.submit(Job::new(format!("job-{number}")).pods(9));
        }
        for number in 0..8 {
            cluster.expect_message(&format!("job-{number}"), "9 pods requested, 8 free").await;
        }
        assert_eq!(cluster.external::<Service>().requests().len(), 1);
    });
    println!("{} requests", run.requests);
}
{%- endif %}
{%- if state %}

#[test]
fn jobs_start_one_after_the_other() {
    let run = simulation().run(async |cluster| {
        let names = ["a", "b", "c"];
        let began = cluster.now();
        for name in names {
            cluster.submit(Job::new(name).pods(2));
        }
        for name in names {
            cluster.expect_admitted(name).await;
        }
        let took = cluster.now().duration_since(began).as_secs();
        assert!((20..60).contains(&took), "three starts, ten seconds apart, took {took} s");
        let waited = cluster.verdicts().all().iter().filter(|recorded| recorded.verdict.message() == "another job has just started").count();
        assert!(waited >= 2, "two jobs waited");
    });
    println!("{} requests", run.requests);
}
{%- endif %}
{%- if cleanup %}

#[test]
fn bookings_are_cancelled_when_the_job_is_over_with_any_fault() {
    let explored = simulation().run_with_each_fault(async |cluster| {
        cluster.submit(Job::new("done").pods(2));
        cluster.submit(Job::new("stopped").pods(2));
        cluster.expect_admitted("done").await;
        cluster.expect_admitted("stopped").await;
        assert_eq!(booked(cluster).len(), 2, "{:?}", booked(cluster));
        cluster.complete("done");
        cluster.merge_workload("stopped", &kueue_check::serde_json::json!({"spec": {"active": false}}));
        cluster.expect_finished("done").await;
        cluster.expect_deactivated("stopped").await;
        cluster.expect("nothing is booked", |cluster| booked(cluster).is_empty()).await;
    });
    println!("{explored}");
}

#[test]
fn what_was_booked_passes_to_the_workload_by_which_an_elastic_job_goes_on() {
    let explored = simulation().run_with_each_fault(async |cluster| {
        cluster.submit(Job::new("train").pods(2).elastic());
        cluster.expect_admitted("train").await;
        cluster.scale("train", 3);
        let grows = |cluster: &Cluster| {
            cluster.workload("train").is_some_and(|workload| workload["spec"]["podSets"][0]["count"] == 3)
        };
        cluster.expect("the growth is there", grows).await;
        cluster.expect_admitted("train").await;
        cluster.advance(Duration::from_mins(1)).await;
        assert_eq!(booked(cluster).len(), 1, "{:?}", booked(cluster));
        cluster.complete("train");
        cluster.expect_finished("train").await;
        cluster.expect("nothing is booked", |cluster| booked(cluster).is_empty()).await;
    });
    println!("{explored}");
}
{%- endif %}
