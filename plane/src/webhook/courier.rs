//! The courier of one webhook: one event after the other, the next one when the one before was told or given up.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use fettle_egress::Client;
use fettle_store::{
    StoreError,
    context::Actor,
    event::Event,
    page::Page,
    webhook::{Fate, Settlement, Turn, Webhook, WebhookState},
};
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::{
    AFTER_ERROR, LONGEST_SLEEP,
    attempt::{self, Answer},
    board::Nudge,
    schedule, until,
};
use crate::state::State;

/// Events read at once.
const BATCH: u32 = 200;

pub(super) struct Courier {
    state: State,
    client: Client,
    owner: String,
    webhook: Webhook,
    /// Events that are to be sent, all up to `seen` that it wants.
    waiting: VecDeque<Event>,
    seen: i64,
    /// Whether there was nothing after `seen` when it was read last.
    caught_up: bool,
    /// Whether there may be dead letters to send again.
    replays: bool,
}

/// What to do next.
enum Next {
    Send { event: Event, turn: Turn, attempts: u32 },
    Wait(Option<Timestamp>),
}

impl Courier {
    pub(super) fn new(state: State, client: Client, owner: String, webhook: Webhook) -> Self {
        let seen = webhook.delivered_to;
        Self { state, client, owner, webhook, waiting: VecDeque::new(), seen, caught_up: false, replays: true }
    }

    /// Delivers until it is stopped, or the webhook is not this plane's any more.
    pub(super) async fn run(mut self, nudge: Arc<Nudge>, stop: CancellationToken) {
        loop {
            if stop.is_cancelled() {
                return;
            }
            let sleep = match self.turn(&nudge, &stop).await {
                Ok(None) => return,
                Ok(Some(Duration::ZERO)) => continue,
                Ok(Some(sleep)) => sleep,
                Err(error) => {
                    tracing::error!(%error, webhook = %self.webhook.id, "a webhook cannot be delivered");
                    AFTER_ERROR
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(sleep) => {}
                () = nudge.wait() => {}
            }
        }
    }

    /// One step. Answers how long to wait for the next one; none when the webhook is lost.
    async fn turn(&mut self, nudge: &Nudge, stop: &CancellationToken) -> Result<Option<Duration>, StoreError> {
        if nudge.take_reload() && !self.reload().await? {
            return Ok(None);
        }
        // Whoever had read everything wants nothing before that one: what is between belongs to others.
        if let Some(first) = nudge.take_first()
            && self.caught_up
        {
            self.seen = self.seen.max(first.saturating_sub(1));
        }
        match self.next().await? {
            Next::Wait(at) => {
                let sleep = at.map_or(LONGEST_SLEEP, |at| until(&self.state, at).min(LONGEST_SLEEP));
                Ok(Some(sleep.max(Duration::from_millis(1))))
            }
            Next::Send { event, turn, attempts } => {
                let held = self.send(event, turn, attempts, stop).await?;
                Ok(held.then_some(Duration::ZERO))
            }
        }
    }

    async fn reload(&mut self) -> Result<bool, StoreError> {
        self.replays = true;
        let found = self.state.store.webhook(&self.webhook.scope, self.webhook.id).await?;
        let Some(webhook) = found.filter(|webhook| webhook.state == WebhookState::Active) else { return Ok(false) };
        self.webhook = webhook;
        Ok(true)
    }

    async fn next(&mut self) -> Result<Next, StoreError> {
        let now = self.state.clock.now();
        let mut later = None;
        if self.replays {
            let replays = self.state.store.replays(self.webhook.id).await?;
            match replays.into_iter().next() {
                None => self.replays = false,
                Some(letter) if letter.replay_at.is_none_or(|at| at <= now) => {
                    return Ok(Next::Send { event: letter.event, turn: Turn::Replay, attempts: letter.attempts });
                }
                Some(letter) => later = letter.replay_at,
            }
        }
        if let Some(at) = self.webhook.next_attempt_at.filter(|at| *at > now) {
            return Ok(Next::Wait(later.into_iter().chain([at]).min()));
        }
        self.fill().await?;
        Ok(match self.waiting.front() {
            Some(event) => Next::Send { event: event.clone(), turn: Turn::Next, attempts: self.webhook.attempts },
            None => Next::Wait(later),
        })
    }

    /// Reads on until there is an event to send, or no more events.
    async fn fill(&mut self) -> Result<(), StoreError> {
        while self.waiting.is_empty() {
            let events = self.state.store.outbox(Page { after: Some(self.seen), size: BATCH }).await?;
            self.caught_up = events.is_empty();
            let Some(last) = events.last() else { return Ok(()) };
            self.seen = last.sequence;
            self.waiting.extend(events.into_iter().filter(|event| self.webhook.wants(event)));
        }
        Ok(())
    }

    /// Sends an event and writes down what came of it. Answers whether the webhook is still this plane's.
    async fn send(
        &mut self,
        event: Event,
        turn: Turn,
        before: u32,
        stop: &CancellationToken,
    ) -> Result<bool, StoreError> {
        let answer = tokio::select! {
            // What was sent without an answer is sent again, by whoever comes next.
            () = stop.cancelled() => return Ok(false),
            answer = attempt::send(&self.state, &self.client, &self.webhook, &event) => answer,
        };
        let attempts = before.saturating_add(1);
        let fate = self.fate(&answer, attempts);
        self.state.metrics.webhook_deliveries.with([name(fate)]).inc();
        let settlement = Settlement {
            webhook: self.webhook.id,
            scope: self.webhook.scope.clone(),
            owner: self.owner.clone(),
            event,
            turn,
            attempts,
            answer: answer.to_string(),
            fate,
        };
        let context = self.state.context(Actor::Plane, "webhooks");
        if !self.settle(&settlement, context).await? || fate == Fate::Unwanted {
            return Ok(false);
        }
        match (turn, fate) {
            (Turn::Next, Fate::Again(at)) => {
                self.webhook.attempts = attempts;
                self.webhook.next_attempt_at = Some(at);
            }
            (Turn::Next, _) => {
                self.waiting.pop_front();
                self.webhook.attempts = 0;
                self.webhook.next_attempt_at = None;
            }
            (Turn::Replay, _) => {}
        }
        Ok(true)
    }

    /// The receiver has it; that may not be forgotten for a moment's trouble with the store.
    async fn settle(
        &self,
        settlement: &Settlement,
        context: fettle_store::context::Context,
    ) -> Result<bool, StoreError> {
        match self.state.store.settle_delivery(settlement.clone(), context.clone()).await {
            Err(StoreError::Unavailable { .. }) => {
                tokio::time::sleep(AFTER_ERROR).await;
                self.state.store.settle_delivery(settlement.clone(), context).await
            }
            answer => answer,
        }
    }

    fn fate(&self, answer: &Answer, attempts: u32) -> Fate {
        let config = &self.state.config.webhooks;
        match answer {
            Answer::Accepted(_) => Fate::Told,
            Answer::Unwanted => Fate::Unwanted,
            _ if attempts >= schedule::most(config, answer) => Fate::Dead,
            _ => {
                let mut random = [0; 8];
                // Without randomness all receivers are tried in step, which is better than not at all.
                let _ = self.state.clock.random(&mut random);
                Fate::Again(self.state.after(schedule::delay(config, answer, attempts, u64::from_be_bytes(random))))
            }
        }
    }
}

/// As metrics name it.
const fn name(fate: Fate) -> &'static str {
    match fate {
        Fate::Told => "delivered",
        Fate::Again(_) => "retried",
        Fate::Dead => "dead",
        Fate::Unwanted => "unwanted",
    }
}
