//! Which courier a new event concerns: the outbox is read once for all of them.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
};

use fettle_store::{StoreError, event::Event, id::WebhookId, page::Page, webhook::Webhook};
use tokio::sync::Notify;

use super::AFTER_ERROR;
use crate::state::State;

/// Events read at once.
const BATCH: u32 = 500;

/// What wakes a courier.
pub(super) struct Nudge {
    notify: Notify,
    /// The first event that it has not been told of yet.
    first: AtomicI64,
    reload: AtomicBool,
}

impl Nudge {
    /// Waits until there may be something to do.
    pub(super) async fn wait(&self) {
        self.notify.notified().await;
    }

    /// The webhook is another than it was.
    pub(super) fn reload(&self) {
        self.reload.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    /// Whether it is, since the last call.
    pub(super) fn take_reload(&self) -> bool {
        self.reload.swap(false, Ordering::AcqRel)
    }

    /// The first event since the last call; none when there was none.
    pub(super) fn take_first(&self) -> Option<i64> {
        let first = self.first.swap(i64::MAX, Ordering::AcqRel);
        (first < i64::MAX).then_some(first)
    }

    fn tell(&self, sequence: i64) {
        self.first.fetch_min(sequence, Ordering::AcqRel);
        self.notify.notify_one();
    }
}

/// The webhooks of this plane.
#[derive(Default)]
pub(super) struct Board {
    entries: Mutex<HashMap<WebhookId, (Webhook, Arc<Nudge>)>>,
    filled: Notify,
}

impl Board {
    /// Adds one.
    pub(super) fn put(&self, webhook: &Webhook) -> Arc<Nudge> {
        let nudge =
            Arc::new(Nudge { notify: Notify::new(), first: AtomicI64::new(i64::MAX), reload: AtomicBool::new(false) });
        self.lock().insert(webhook.id, (webhook.clone(), Arc::clone(&nudge)));
        self.filled.notify_one();
        nudge
    }

    pub(super) fn remove(&self, id: WebhookId) {
        self.lock().remove(&id);
    }

    fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn tell(&self, event: &Event) {
        for (webhook, nudge) in self.lock().values().filter(|(webhook, _)| webhook.wants(event)) {
            tracing::trace!(webhook = %webhook.id, sequence = event.sequence, "an event waits");
            nudge.tell(event.sequence);
        }
    }

    /// Any event may be new.
    fn tell_all(&self) {
        self.lock().values().for_each(|(_, nudge)| nudge.tell(0));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<WebhookId, (Webhook, Arc<Nudge>)>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads what is added to the outbox, and wakes whom it concerns. Reads nothing while there are no webhooks.
pub(super) async fn relay(state: State, board: Arc<Board>) {
    let mut position = None;
    loop {
        match read(&state, &board, position).await {
            Ok(reached) => position = reached,
            Err(error) => {
                tracing::error!(%error, "events cannot be read");
                tokio::time::sleep(AFTER_ERROR).await;
                position = None;
                if state.shutdown.is_cancelled() {
                    return;
                }
                continue;
            }
        }
        tokio::select! {
            () = state.shutdown.cancelled() => return,
            () = state.wakeups.outbox() => {}
            () = board.filled.notified() => {}
        }
    }
}

async fn read(state: &State, board: &Board, position: Option<i64>) -> Result<Option<i64>, StoreError> {
    if board.is_empty() {
        return Ok(None);
    }
    let Some(mut position) = position else {
        let newest = state.store.newest_event().await?;
        // Whoever was on the board may have looked before.
        board.tell_all();
        return Ok(Some(newest));
    };
    loop {
        let events = state.store.outbox(Page { after: Some(position), size: BATCH }).await?;
        let Some(last) = events.last() else { return Ok(Some(position)) };
        position = last.sequence;
        events.iter().for_each(|event| board.tell(event));
    }
}
