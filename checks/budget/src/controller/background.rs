//! Background work: watches, polling of sources, allocation of free money to held runs, and status.

use std::sync::Arc;
use std::time::Duration;

use futures::join;
use kueue_check::BackgroundContext;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::shared::SharedState;
use super::{Feature, polling, queues, status, warning_events, watches};
use crate::resource::Running;

/// The interval of allocation passes without a change: time alone frees money, at the end of a
/// period.
const ALLOCATION_INTERVAL: Duration = Duration::from_secs(30);
/// The pause between allocation passes: one pass handles changes that occur together.
const PAUSE: Duration = Duration::from_millis(100);

/// Runs all background work, for as long as the session lasts.
pub(super) async fn run(shared: &Arc<SharedState>, context: BackgroundContext) {
    shared.set_clock(context.clock());
    join!(
        follow_leadership(shared, context.clone()),
        watches::budgets(shared, &context),
        watches::namespace_budgets(shared, &context),
        watches::admission_checks(shared, &context),
        watches::namespaces(shared, &context),
        watches::cluster_queues(shared, &context),
        polling::run(shared, context.clone()),
        expire_suspended(shared, &context),
        grants(shared, context.clone()),
        warnings(shared, context.clone()),
        close_queues(shared, context.clone()),
        show(shared, context.clone()),
    );
}

/// The turns of work that only the leader does: after a change, and at intervals.
struct PageTurns {
    context: BackgroundContext,
    changes: watch::Receiver<()>,
    leads: bool,
}

impl PageTurns {
    fn new(shared: &SharedState, context: BackgroundContext) -> Self {
        Self {
            context,
            changes: shared.changes(),
            leads: false,
        }
    }

    /// Waits for the next turn. Returns true if this replica has begun to lead.
    async fn next(&mut self) -> bool {
        if self.leads {
            sleep(PAUSE).await;
            let _ = timeout(ALLOCATION_INTERVAL, self.changes.changed()).await;
        }
        let led = self.leads && self.context.is_leader();
        while !self.context.is_leader() {
            self.context.leadership_changed().await;
        }
        self.leads = true;
        !led
    }
}

/// Removes suspended Workloads of deleted Budgets and, on a standby, those that the leader has
/// settled.
async fn expire_suspended(shared: &SharedState, context: &BackgroundContext) {
    loop {
        shared.ledgers().drop_orphaned();
        if !context.is_leader() {
            shared.ledgers().expire_suspended(shared.now());
        }
        sleep(ALLOCATION_INTERVAL).await;
    }
}

/// Allocates free money to held runs, without waiting for the API server.
async fn grants(shared: &SharedState, context: BackgroundContext) {
    let mut turns = PageTurns::new(shared, context);
    loop {
        turns.next().await;
        allocate_again(shared);
    }
}

async fn warnings(shared: &SharedState, context: BackgroundContext) {
    let mut events = warning_events::WarningEvents::default();
    let mut turns = PageTurns::new(shared, context.clone());
    loop {
        if turns.next().await {
            events.begin();
        }
        events.publish_new(shared, &context);
    }
}

async fn close_queues(shared: &Arc<SharedState>, context: BackgroundContext) {
    if !shared.has(Feature::CloseLocalQueues) {
        return;
    }
    let mut queues = queues::Queues::default();
    let mut turns = PageTurns::new(shared, context.clone());
    loop {
        turns.next().await;
        queues.open_and_close(shared, &context).await;
    }
}

async fn show(shared: &Arc<SharedState>, context: BackgroundContext) {
    let mut shown = status::StatusWriter::default();
    let mut turns = PageTurns::new(shared, context.clone());
    loop {
        turns.next().await;
        shown.write_changes(shared, &context).await;
    }
}

/// Records since when this replica leads. Counters that only the leader keeps are reset.
async fn follow_leadership(shared: &Arc<SharedState>, mut context: BackgroundContext) {
    /// Ends the leadership when the session ends.
    struct Session<'a>(&'a SharedState);
    impl Drop for Session<'_> {
        fn drop(&mut self) {
            self.0.set_leads_since(None);
        }
    }
    let session = Session(shared);
    loop {
        let leads = context.is_leader();
        if leads {
            for (_, ledger) in session.0.ledgers().all_mut() {
                ledger.begin_leading();
            }
        }
        session.0.set_leads_since(leads.then(|| shared.now()));
        context.leadership_changed().await;
    }
}

fn allocate_again(shared: &SharedState) {
    let now = shared.now();
    let mut triggered = Vec::new();
    for (_, ledger) in shared.ledgers().all_mut() {
        let pass = ledger.allocate(now);
        triggered.extend(pass.granted);
        triggered.extend(pass.outdated_messages);
        // An earlier approval that is not confirmed: its trigger may have been missed.
        triggered.extend(ledger.overdue_approvals(now).cloned());
        if ledger.terms().overspent.0 == Running::Evict {
            triggered.extend(ledger.overspenders(now));
        }
    }
    let waits = |queue: &str| shared.waits_for_quota(queue);
    triggered.extend(shared.ledgers().due_to_yield(now, waits));
    triggered.sort_unstable();
    triggered.dedup();
    for uid in &triggered {
        shared.trigger(uid);
    }
}
