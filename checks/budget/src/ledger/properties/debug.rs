//! A test that prints one history: `SEED=7 cargo test -p kueue-check-budget --lib
//! print_one_history -- --ignored --nocapture`.

use super::plan::smaller;
use super::*;

#[test]
#[ignore = "prints one history"]
fn print_one_history() {
    let seed = std::env::var("SEED").unwrap().parse().unwrap();
    let plan = smaller(Plan::random(seed), &|plan| run(plan, Mutant::None).0 > 0);
    let mut model = Model::new(&plan, Mutant::None);
    for step in 0..STEPS {
        model.cluster();
        let fault = model.faults();
        model.receive();
        model.source(fault);
        let live_runs: Vec<String> = model
            .leader
            .ledger
            .live
            .iter()
            .map(|(uid, live)| {
                format!(
                    "{}:{:?}/{:?}",
                    &uid.to_string()[34..],
                    live.approval,
                    live.claim.state
                )
            })
            .collect();
        model.decide(fault);
        let period = model.terms.schedule.at(time(model.now)).unwrap();
        for (account, names) in &accounts() {
            let balance = model
                .leader
                .ledger
                .balance(account, period, time(model.now));
            let mut truth = model.spent(names, period.start.as_second(), model.now);
            for (job, phase) in model.phases.iter().enumerate() {
                let plan = &plan.jobs[job];
                let left = match phase {
                    Phase::Reserved { ready: true, .. }
                    | Phase::Running { .. }
                    | Phase::Stopping { .. }
                    | Phase::Parked { ready: true, .. } => plan.longest - model.ran[job],
                    _ => 0,
                };
                let left = (left * STEP).min(period.end.as_second() - model.now);
                if names.contains(&plan.namespace) {
                    truth += i128::from(model.rates[job]) * i128::from(left) * 1_000_000 / 3600;
                }
            }
            for (job, rate, until) in &model.terminating {
                let left = (*until).min(period.end.as_second()) - model.now;
                if names.contains(&plan.jobs[*job].namespace) {
                    let percent = i128::from(plan.jobs[*job].real_percent);
                    truth += i128::from(*rate) * percent * i128::from(left) * 10_000 / 3600;
                }
            }
            if balance.used().in_millionths() + 5 < truth {
                println!(
                    "step {step}: the ledger has {} of {} for {account}, the truth {truth}; W {:?}",
                    balance.used(),
                    balance.limit,
                    model
                        .leader
                        .ledger
                        .watermark(account)
                        .map(|w| (w - START) / STEP)
                );
                println!("  before: {}", live_runs.join(" "));
                for (job, phase) in model.phases.iter().enumerate() {
                    if !matches!(phase, Phase::Over | Phase::Waiting) {
                        println!(
                            "  {job:02x} {phase:?} ran {} of {} rate {} inbox {:?}",
                            model.ran[job],
                            plan.jobs[job].longest,
                            model.rates[job],
                            model.leader.ledger.live.get(&model.uids[job]).map(|live| (
                                live.approval,
                                live.claim.state,
                                live.claim.seconds,
                                live.claim.rate
                            ))
                        );
                    }
                }
                return;
            }
        }
    }
}
