//! Events to those who asked for them: one courier for each webhook that this plane has claimed.

mod address;
mod attempt;
mod board;
mod courier;
mod message;
mod schedule;
mod signature;
mod vault;

use std::{collections::HashMap, sync::Arc, time::Duration};

use fettle_egress::{Client, ClientError, ClientOptions, Guard};
use fettle_model::egress::Egress;
use fettle_store::{
    StoreError,
    context::Actor,
    id::WebhookId,
    webhook::{Claim, Webhook},
};
use jiff::Timestamp;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) use self::{
    address::check_address,
    signature::new_secret,
    vault::{Vault, seal_what_is_clear},
};
use self::{
    board::{Board, Nudge},
    courier::Courier,
};
use crate::{clock::NoRandomness, state::State};

/// How long to leave a failing store alone.
const AFTER_ERROR: Duration = Duration::from_secs(1);

/// The longest sleep: the clock of the machine may be set meanwhile.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// How webhooks are delivered.
#[derive(Clone, Debug)]
pub struct WebhookConfig {
    /// Private networks that receivers may be in, by host. Only these hosts may be spoken to without TLS.
    pub private: Egress,
    /// How long a receiver may take to answer.
    pub timeout: Duration,
    /// How often an event is tried before it is a dead letter.
    pub attempts: u32,
    /// The longest wait before the second attempt. It doubles with each attempt.
    pub first_delay: Duration,
    /// The longest wait before any attempt.
    pub longest_delay: Duration,
    /// How long a plane that is gone without a word keeps others from delivering.
    pub claim: Duration,
}

impl Default for WebhookConfig {
    fn default() -> Self {
        Self {
            private: Egress::default(),
            timeout: Duration::from_secs(10),
            attempts: 15,
            first_delay: Duration::from_secs(5),
            longest_delay: Duration::from_secs(3600),
            claim: Duration::from_secs(15),
        }
    }
}

/// The client of all couriers: it reaches public addresses, and the private ones of the configuration.
///
/// # Errors
/// When TLS cannot be set up.
pub(crate) fn client(config: &WebhookConfig) -> Result<Client, ClientError> {
    let options = ClientOptions { connect_timeout: config.timeout, ..ClientOptions::default() };
    Client::new(Guard::of_policy(&config.private), &options)
}

/// A courier that runs.
struct Running {
    nudge: Arc<Nudge>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

struct Office {
    state: State,
    client: Client,
    owner: String,
    board: Arc<Board>,
    couriers: HashMap<WebhookId, Running>,
}

/// Delivers until shutdown.
pub(crate) async fn deliver(state: State, client: Client) {
    let owner = match state.ulid() {
        Ok(ulid) => ulid.to_string(),
        Err(NoRandomness { .. }) => {
            tracing::error!("there is no randomness, so no webhook is delivered");
            return;
        }
    };
    let board = Arc::new(Board::default());
    let relay = tokio::spawn(board::relay(state.clone(), Arc::clone(&board)));
    let mut office = Office { state, client, owner, board, couriers: HashMap::new() };
    office.work().await;
    office.close().await;
    if let Err(error) = relay.await {
        tracing::error!(%error, "the relay of events ended badly");
    }
}

impl Office {
    async fn work(&mut self) {
        loop {
            let next = match self.claim().await {
                Ok(next) => next,
                Err(error) => {
                    tracing::error!(%error, "webhooks cannot be claimed");
                    Some(self.state.after(AFTER_ERROR))
                }
            };
            let sleep = next.map_or(LONGEST_SLEEP, |at| until(&self.state, at).min(LONGEST_SLEEP));
            tokio::select! {
                () = self.state.shutdown.cancelled() => return,
                () = tokio::time::sleep(sleep) => {}
                () = self.state.wakeups.webhooks() => {
                    self.couriers.values().for_each(|running| running.nudge.reload());
                }
            }
        }
    }

    /// Claims what there is, starts and stops couriers, and answers when to do so again.
    async fn claim(&mut self) -> Result<Option<Timestamp>, StoreError> {
        if self.couriers.is_empty() && !self.state.store.has_active_webhooks().await? {
            return Ok(None);
        }
        let claim = Claim { owner: self.owner.clone(), until: self.state.after(self.state.config.webhooks.claim) };
        let claimed = self.state.store.claim_webhooks(claim, self.state.context(Actor::Plane, "webhooks")).await?;
        let lost: Vec<WebhookId> = self
            .couriers
            .iter()
            .filter(|(id, running)| running.task.is_finished() || !claimed.webhooks.iter().any(|one| one.id == **id))
            .map(|(id, _)| *id)
            .collect();
        for id in lost {
            self.stop(id).await;
        }
        let renew = (!claimed.webhooks.is_empty()).then(|| self.state.after(self.state.config.webhooks.claim / 3));
        for webhook in claimed.webhooks {
            if !self.couriers.contains_key(&webhook.id) {
                self.start(webhook);
            }
        }
        Ok(renew.into_iter().chain(claimed.next).min())
    }

    fn start(&mut self, webhook: Webhook) {
        let (id, stop) = (webhook.id, self.state.shutdown.child_token());
        // On the board before it looks for the first time: what it does not find then, it is told of.
        let nudge = self.board.put(&webhook);
        let courier = Courier::new(self.state.clone(), self.client.clone(), self.owner.clone(), webhook);
        let task = tokio::spawn(courier.run(Arc::clone(&nudge), stop.clone()));
        self.couriers.insert(id, Running { nudge, stop, task });
    }

    async fn stop(&mut self, id: WebhookId) {
        self.board.remove(id);
        if let Some(running) = self.couriers.remove(&id) {
            running.stop.cancel();
            if let Err(error) = running.task.await {
                tracing::error!(%error, webhook = %id, "a courier ended badly");
            }
        }
    }

    async fn close(&mut self) {
        let all: Vec<WebhookId> = self.couriers.keys().copied().collect();
        for id in &all {
            self.stop(*id).await;
        }
        if !all.is_empty()
            && let Err(error) = self.state.store.release_webhooks(self.owner.clone()).await
        {
            tracing::warn!(%error, "webhooks were not released; another plane waits until the claim ends");
        }
    }
}

/// How long until then.
fn until(state: &State, at: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(state.clock.now())).unwrap_or_default()
}
