//! The work beside the answers: to hear of Budgets, to ask sources, to give what becomes free to those who wait, to show balances.

use std::sync::Arc;
use std::time::Duration;

use futures::join;
use kueue_check::Background;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::shared::Shared;
use super::{event, feeds, observe, queues, status};
use crate::resource::Running;

/// How often the books are walked if nothing happens: time alone frees money, at the end of a period.
const WALK: Duration = Duration::from_secs(30);
/// How soon a walk may follow the last: what happens together is walked once.
const PAUSE: Duration = Duration::from_millis(100);

/// Does all of it, for as long as the session lasts.
pub(super) async fn run(shared: &Arc<Shared>, context: Background) {
    shared.set_clock(context.clock());
    join!(
        follow_leadership(shared, context.clone()),
        feeds::budgets(shared, &context),
        feeds::namespace_budgets(shared, &context),
        feeds::admission_checks(shared, &context),
        feeds::namespaces(shared, &context),
        feeds::cluster_queues(shared, &context),
        observe::run(shared, context.clone()),
        forget(shared, &context),
        grants(shared, context.clone()),
        warnings(shared, context.clone()),
        close_queues(shared, context.clone()),
        show(shared, context.clone()),
    );
}

/// Work that the leader does when something has changed, and now and then.
struct Turns {
    context: Background,
    changes: watch::Receiver<()>,
    leads: bool,
}

impl Turns {
    fn new(shared: &Shared, context: Background) -> Self {
        Self {
            context,
            changes: shared.changes(),
            leads: false,
        }
    }

    /// Waits until there is something to do. Whether this replica has begun to lead.
    async fn next(&mut self) -> bool {
        if self.leads {
            sleep(PAUSE).await;
            let _ = timeout(WALK, self.changes.changed()).await;
        }
        let led = self.leads && self.context.is_acting();
        while !self.context.is_acting() {
            self.context.acting_changed().await;
        }
        self.leads = true;
        !led
    }
}

/// A standby forgets what the leader has long settled.
async fn forget(shared: &Shared, context: &Background) {
    loop {
        if !context.is_acting() {
            shared.books().forget_old_parked(shared.now());
        }
        sleep(WALK).await;
    }
}

/// Gives what becomes free to those who wait. Nothing in it waits for the API server.
async fn grants(shared: &Shared, context: Background) {
    let mut turns = Turns::new(shared, context);
    loop {
        turns.next().await;
        walk(shared);
    }
}

async fn warnings(shared: &Shared, context: Background) {
    let mut told = event::Told::new(&context);
    let mut turns = Turns::new(shared, context);
    loop {
        if turns.next().await {
            told.begin();
        }
        told.warn(shared).await;
    }
}

async fn close_queues(shared: &Arc<Shared>, context: Background) {
    let mut queues = queues::Queues::default();
    let mut turns = Turns::new(shared, context.clone());
    loop {
        turns.next().await;
        queues.open_and_close(shared, &context).await;
    }
}

async fn show(shared: &Arc<Shared>, context: Background) {
    let mut shown = status::Shown::default();
    let mut turns = Turns::new(shared, context.clone());
    loop {
        turns.next().await;
        shown.show(shared, &context).await;
    }
}

/// Records since when this replica leads. What is counted only by the leader begins anew.
async fn follow_leadership(shared: &Arc<Shared>, mut context: Background) {
    /// A session that ends leads no more.
    struct Session<'a>(&'a Shared);
    impl Drop for Session<'_> {
        fn drop(&mut self) {
            self.0.set_leads_since(None);
        }
    }
    let session = Session(shared);
    loop {
        let leads = context.is_acting();
        if leads {
            for (_, book) in session.0.books().all_mut() {
                book.begin_leading();
            }
        }
        session.0.set_leads_since(leads.then(|| shared.now()));
        context.acting_changed().await;
    }
}

fn walk(shared: &Shared) {
    let now = shared.now();
    let mut woken = Vec::new();
    for (_, book) in shared.books().all_mut() {
        let walked = book.walk(now);
        woken.extend(walked.granted);
        woken.extend(walked.retold);
        // What was granted earlier and is not shown yet: its wake-up may have been missed.
        woken.extend(book.late_liens(now).cloned());
        if book.terms().overspent.0 == Running::Evict {
            woken.extend(book.overspenders(now));
        }
    }
    let waits = |queue: &str| shared.waits_for_quota(queue);
    woken.extend(shared.books().due_to_yield(now, waits));
    woken.sort_unstable();
    woken.dedup();
    for uid in &woken {
        shared.wake(uid);
    }
}
