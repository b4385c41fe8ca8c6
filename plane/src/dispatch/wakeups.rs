//! From committed changes to those who wait for them. Nothing here polls.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use fettle_store::{
    change::{Change, Listener},
    id::{NodeId, OperationId},
};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// What wakes the stream of one node.
#[derive(Default)]
pub(crate) struct NodeWake {
    notify: Notify,
    cancels: AtomicBool,
}

impl NodeWake {
    /// Waits until there may be something for the node.
    pub(crate) async fn wait(&self) {
        self.notify.notified().await;
    }

    /// Whether cancels were requested since the last call.
    pub(crate) fn take_cancels(&self) -> bool {
        self.cancels.swap(false, Ordering::AcqRel)
    }
}

/// All who wait.
#[derive(Default)]
pub(crate) struct Wakeups {
    nodes: Mutex<HashMap<NodeId, Arc<NodeWake>>>,
    sessions: Mutex<HashMap<NodeId, CancellationToken>>,
    operations: Mutex<HashMap<OperationId, watch::Sender<()>>>,
    lease: Notify,
    deadline: Notify,
    outbox: Notify,
    webhooks: Notify,
}

impl Wakeups {
    /// What wakes the stream of this node.
    pub(crate) fn node(&self, id: NodeId) -> Arc<NodeWake> {
        Arc::clone(lock(&self.nodes).entry(id).or_default())
    }

    /// Begins the stream of a node and ends the one before: a node has one.
    pub(crate) fn begin_session(&self, id: NodeId, shutdown: &CancellationToken) -> CancellationToken {
        let token = shutdown.child_token();
        if let Some(before) = lock(&self.sessions).insert(id, token.clone()) {
            before.cancel();
        }
        token
    }

    /// Sees every change of the operation after this call.
    pub(crate) fn operation(&self, id: OperationId) -> watch::Receiver<()> {
        let mut operations = lock(&self.operations);
        operations.retain(|_, sender| sender.receiver_count() > 0);
        operations.entry(id).or_insert_with(|| watch::Sender::new(())).subscribe()
    }

    /// Waits until an operation gets a deadline.
    pub(crate) async fn deadline(&self) {
        self.deadline.notified().await;
    }

    /// Waits until there may be new events.
    pub(crate) async fn outbox(&self) {
        self.outbox.notified().await;
    }

    /// Waits until webhooks change.
    pub(crate) async fn webhooks(&self) {
        self.webhooks.notified().await;
    }

    /// Waits until a lease changes.
    pub(crate) async fn lease(&self) {
        self.lease.notified().await;
    }
}

impl Wakeups {
    /// Lets the stream of every node look again for what it has to be told, and whether it may go on.
    pub(crate) fn look_again(&self) {
        for node in lock(&self.nodes).values() {
            node.cancels.store(true, Ordering::Release);
            node.notify.notify_one();
        }
    }

    fn wake_all(&self) {
        self.look_again();
        self.lease.notify_one();
        self.outbox.notify_one();
        self.webhooks.notify_one();
        for sender in lock(&self.operations).values() {
            sender.send_replace(());
        }
    }
}

impl Listener for Wakeups {
    fn changed(&self, change: &Change) {
        match change {
            Change::Everything => self.wake_all(),
            Change::TaskReady(id) => {
                self.node(*id).notify.notify_one();
                // A new operation is told of so, and has an event.
                self.outbox.notify_one();
            }
            Change::CancelRequested(id) => {
                let node = self.node(*id);
                node.cancels.store(true, Ordering::Release);
                node.notify.notify_one();
            }
            Change::NodeRevoked(id) => {
                if let Some(session) = lock(&self.sessions).remove(id) {
                    session.cancel();
                }
            }
            Change::Lease => self.lease.notify_one(),
            Change::Deadline => self.deadline.notify_one(),
            Change::Webhooks => self.webhooks.notify_one(),
            Change::Operation(id) => {
                self.outbox.notify_one();
                if let Some(sender) = lock(&self.operations).get(id) {
                    sender.send_replace(());
                }
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
