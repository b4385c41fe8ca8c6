//! Laws of webhooks: one plane at a time, nothing skipped, nothing forgotten.

use jiff::Timestamp;

use super::fixture::{all, at, key, project, report, running, started, submit, succeeded, ulid, when};
use crate::{
    Store, StoreError,
    event::{Event, EventKind},
    id::WebhookId,
    webhook::{
        Claim, Claimed, Fate, MOST_WEBHOOKS, NewWebhook, Settlement, SigningSecret, Turn, Webhook, WebhookChange,
        WebhookScope, WebhookState,
    },
};

fn new(number: u128, scope: WebhookScope) -> NewWebhook {
    NewWebhook {
        id: WebhookId::new(ulid(number)),
        scope,
        url: "https://receiver.example/events".to_owned(),
        events: Vec::new(),
        state: WebhookState::Active,
        secret: SigningSecret::new("whsec_first".to_owned()),
    }
}

fn here() -> WebhookScope {
    WebhookScope::Project(project("demo"))
}

async fn made(store: &dyn Store) -> Webhook {
    store.create_webhook(new(70, here()), when(2)).await.unwrap()
}

async fn claim(store: &dyn Store, owner: &str, seconds: i64, until: i64) -> Claimed {
    store.claim_webhooks(Claim { owner: owner.to_owned(), until: at(until) }, when(seconds)).await.unwrap()
}

fn settlement(webhook: &Webhook, owner: &str, event: &Event, turn: Turn, fate: Fate) -> Settlement {
    Settlement {
        webhook: webhook.id,
        scope: webhook.scope.clone(),
        owner: owner.to_owned(),
        event: event.clone(),
        turn,
        attempts: 3,
        answer: "status 500".to_owned(),
        fate,
    }
}

async fn settle(store: &dyn Store, webhook: &Webhook, event: &Event, turn: Turn, fate: Fate) -> bool {
    store.settle_delivery(settlement(webhook, "a", event, turn, fate), when(40)).await.unwrap()
}

async fn show(store: &dyn Store, webhook: &Webhook) -> Webhook {
    store.webhook(&webhook.scope, webhook.id).await.unwrap().unwrap()
}

/// Two steps of an operation, after the webhook was made.
async fn told(store: &dyn Store) -> (Webhook, Vec<Event>) {
    let (node, _, lease) = running(store).await;
    let webhook = made(store).await;
    let lease = key(&node, &lease);
    report(store, lease, 1, started("first")).await;
    report(store, lease, 2, succeeded("first", serde_json::json!({}))).await;
    let mut events = store.outbox(all()).await.unwrap();
    events.retain(|event| event.sequence > webhook.delivered_to);
    (webhook, events)
}

/// A webhook is told what happens after it was made, and the outbox is everybody's, in order.
pub async fn a_webhook_begins_with_what_happens_next(store: &dyn Store) {
    let (webhook, events) = told(store).await;
    assert_eq!(events.len(), 2);
    assert_eq!(webhook.delivered_to, events[0].sequence - 1);
    assert_eq!(store.newest_event().await.unwrap(), events[1].sequence);
    assert!(events.iter().all(|event| webhook.wants(event)));
    let elsewhere = Webhook { scope: WebhookScope::Project(project("other")), ..webhook.clone() };
    let organisation = Webhook { scope: WebhookScope::Tenant("default".parse().unwrap()), ..webhook.clone() };
    let ends = Webhook { events: vec![EventKind::Failed], ..webhook };
    assert!(!elsewhere.wants(&events[0]) && organisation.wants(&events[0]) && !ends.wants(&events[0]));
}

/// It is seen in its scope only, by nobody else, and its secret is in no debug text.
pub async fn a_webhook_belongs_to_its_scope(store: &dyn Store) {
    let webhook = made(store).await;
    let tenant = WebhookScope::Tenant("default".parse().unwrap());
    for other in [&tenant, &WebhookScope::Project(project("other"))] {
        assert_eq!(store.webhook(other, webhook.id).await.unwrap(), None);
        assert!(store.webhooks(other).await.unwrap().is_empty());
        let error = store.delete_webhook(other.clone(), webhook.id, when(3)).await.unwrap_err();
        assert!(matches!(error, StoreError::NotFound { .. }), "{error}");
        let error = store.change_webhook(other.clone(), webhook.id, WebhookChange::Pause, when(3)).await.unwrap_err();
        assert!(matches!(error, StoreError::NotFound { .. }), "{error}");
    }
    assert_eq!(store.webhooks(&here()).await.unwrap(), std::slice::from_ref(&webhook));
    assert!(!format!("{webhook:?}").contains("whsec_"));
    store.delete_webhook(here(), webhook.id, when(3)).await.unwrap();
    assert_eq!(store.webhook(&here(), webhook.id).await.unwrap(), None);
    let audited = store.audit(all()).await.unwrap();
    assert_eq!(audited.iter().map(|row| row.action.as_str()).collect::<Vec<_>>(), ["webhook.create", "webhook.delete"]);
}

/// A scope has only so many.
pub async fn a_scope_has_only_so_many_webhooks(store: &dyn Store) {
    for number in 0..u128::from(MOST_WEBHOOKS) {
        store.create_webhook(new(100 + number, here()), when(2)).await.unwrap();
    }
    let error = store.create_webhook(new(99, here()), when(2)).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict { code: "webhook.too_many", .. }), "{error}");
    store.create_webhook(new(98, WebhookScope::Tenant("default".parse().unwrap())), when(2)).await.unwrap();
}

/// After a rotation both secrets are there.
pub async fn a_rotated_secret_stays_good_for_a_while(store: &dyn Store) {
    let webhook = made(store).await;
    let secret = SigningSecret::new("whsec_second".to_owned());
    let rotation = WebhookChange::Rotate { secret: secret.clone(), previous_until: at(99) };
    let rotated = store.change_webhook(here(), webhook.id, rotation, when(3)).await.unwrap();
    assert_eq!((rotated.secret, rotated.previous), (secret, Some((webhook.secret, at(99)))));
}

/// Whichever of the two a secret is by now, it is kept in another form; what is another one stays as it is.
pub async fn a_secret_is_kept_in_another_form(store: &dyn Store) {
    let webhook = made(store).await;
    let secret = |text: &str| SigningSecret::new(text.to_owned());
    let keep = |kept: &str, form: &str| WebhookChange::Keep { secret: secret(kept), form: secret(form) };
    let change = |change: WebhookChange| store.change_webhook(here(), webhook.id, change, when(3));
    change(WebhookChange::Rotate { secret: secret("whsec_second"), previous_until: at(99) }).await.unwrap();
    for (kept, form, expected) in [
        ("whsec_first", "a", ("whsec_second", "a")),
        ("whsec_second", "b", ("b", "a")),
        ("whsec_first", "c", ("b", "a")),
        ("whsec_another", "c", ("b", "a")),
    ] {
        let changed = change(keep(kept, form)).await.unwrap();
        let expected = (secret(expected.0), Some((secret(expected.1), at(99))));
        assert!((changed.secret, changed.previous) == expected, "{kept}");
    }
    let elsewhere = WebhookScope::Tenant("default".parse().unwrap());
    let other = store.create_webhook(new(98, elsewhere), when(4)).await.unwrap();
    let mut expected = vec![webhook.id, other.id];
    expected.sort();
    let every = store.every_webhook().await.unwrap();
    assert_eq!(every.iter().map(|one| one.id).collect::<Vec<_>>(), expected, "those of all scopes");
    assert_eq!(every.iter().find(|one| one.id == other.id).unwrap().secret, other.secret, "nobody else's is changed");
}

/// One plane delivers; another one takes over when the claim ends, or is given back.
pub async fn one_plane_at_a_time_has_a_webhook(store: &dyn Store) {
    let (webhook, events) = told(store).await;
    assert_eq!(claim(store, "a", 10, 20).await.webhooks.len(), 1);
    let refused = claim(store, "b", 11, 21).await;
    assert_eq!((refused.webhooks.len(), refused.next), (0, Some(at(20))));
    assert_eq!(claim(store, "a", 15, 25).await.webhooks.len(), 1, "its own claim is made longer");
    assert_eq!(claim(store, "b", 24, 34).await.webhooks.len(), 0);
    assert_eq!(claim(store, "b", 25, 35).await.webhooks.len(), 1, "it had ended");
    assert!(!settle(store, &webhook, &events[0], Turn::Next, Fate::Told).await, "a has lost it");
    assert_eq!(show(store, &webhook).await.delivered_to, webhook.delivered_to);
    store.release_webhooks("b".to_owned()).await.unwrap();
    assert_eq!(claim(store, "a", 26, 36).await.webhooks.len(), 1, "it was given back");
    assert!(settle(store, &webhook, &events[0], Turn::Next, Fate::Told).await);
    assert_eq!(show(store, &webhook).await.delivered_to, events[0].sequence);
}

/// When an event is tried again is in the database, and survives whoever tried.
pub async fn the_next_attempt_is_remembered(store: &dyn Store) {
    let (webhook, events) = told(store).await;
    claim(store, "a", 10, 99).await;
    settle(store, &webhook, &events[0], Turn::Next, Fate::Again(at(50))).await;
    let waits = show(store, &webhook).await;
    assert_eq!((waits.delivered_to, waits.attempts), (webhook.delivered_to, 3));
    assert_eq!((waits.next_attempt_at, waits.last_answer), (Some(at(50)), Some(("status 500".to_owned(), at(40)))));
    settle(store, &webhook, &events[0], Turn::Next, Fate::Told).await;
    let told = show(store, &webhook).await;
    assert_eq!((told.delivered_to, told.attempts, told.next_attempt_at), (events[0].sequence, 0, None));
}

/// What cannot be told is kept whole, and what follows goes on.
pub async fn a_dead_letter_is_kept_and_told_again(store: &dyn Store) {
    let (webhook, events) = told(store).await;
    claim(store, "a", 10, 99).await;
    settle(store, &webhook, &events[0], Turn::Next, Fate::Dead).await;
    let letters = store.dead_letters(webhook.id, all()).await.unwrap();
    assert_eq!((&letters[0].event, letters[0].attempts, letters[0].replay_at), (&events[0], 3, None));
    assert_eq!((letters[0].last_answer.as_str(), letters[0].failed_at), ("status 500", at(40)));
    let after = show(store, &webhook).await;
    assert_eq!((after.delivered_to, after.dead_letters), (events[0].sequence, 1));
    assert_eq!(store.count_dead_letters().await.unwrap(), 1);

    let replay = |sequences: Option<Vec<i64>>| store.replay_dead_letters(here(), webhook.id, sequences, when(60));
    assert_eq!(replay(Some(vec![events[1].sequence])).await.unwrap(), 0, "that one was told");
    assert!(store.replays(webhook.id).await.unwrap().is_empty());
    assert_eq!(replay(None).await.unwrap(), 1);
    assert_eq!(replay(None).await.unwrap(), 0, "it is being told already");
    assert_eq!(due(store, &webhook).await, [Some(at(60))]);
    settle(store, &webhook, &events[0], Turn::Replay, Fate::Again(at(70))).await;
    assert_eq!(due(store, &webhook).await, [Some(at(70))]);
    settle(store, &webhook, &events[0], Turn::Replay, Fate::Dead).await;
    assert!(due(store, &webhook).await.is_empty());
    assert_eq!(replay(Some(vec![events[0].sequence])).await.unwrap(), 1);
    settle(store, &webhook, &events[0], Turn::Replay, Fate::Told).await;
    assert_eq!(store.count_dead_letters().await.unwrap(), 0);
    assert_eq!(show(store, &webhook).await.delivered_to, events[0].sequence, "a replay moves nothing on");
}

async fn due(store: &dyn Store, webhook: &Webhook) -> Vec<Option<Timestamp>> {
    store.replays(webhook.id).await.unwrap().into_iter().map(|letter| letter.replay_at).collect()
}

/// Whoever wants no more is told no more, until somebody says otherwise; then nothing is missing.
pub async fn a_receiver_that_is_gone_is_left_alone(store: &dyn Store) {
    let (webhook, events) = told(store).await;
    claim(store, "a", 10, 99).await;
    settle(store, &webhook, &events[0], Turn::Next, Fate::Unwanted).await;
    assert_eq!(show(store, &webhook).await.state, WebhookState::Gone);
    assert!(claim(store, "a", 11, 99).await.webhooks.is_empty());
    let last = store.audit(all()).await.unwrap().pop().unwrap();
    assert_eq!(last.action, "webhook.disable");
    let resumed = store.change_webhook(here(), webhook.id, WebhookChange::Resume, when(12)).await.unwrap();
    assert_eq!((resumed.state, resumed.delivered_to), (WebhookState::Active, webhook.delivered_to));
    assert!(store.has_active_webhooks().await.unwrap());
    store.change_webhook(here(), webhook.id, WebhookChange::Pause, when(12)).await.unwrap();
    assert!(!store.has_active_webhooks().await.unwrap());
    assert!(claim(store, "a", 13, 99).await.webhooks.is_empty());
}

/// A deleted webhook takes along what it could not be told.
pub async fn a_deleted_webhook_leaves_no_dead_letters(store: &dyn Store) {
    let (webhook, events) = told(store).await;
    claim(store, "a", 10, 99).await;
    settle(store, &webhook, &events[0], Turn::Next, Fate::Dead).await;
    store.delete_webhook(here(), webhook.id, when(50)).await.unwrap();
    assert_eq!(store.count_dead_letters().await.unwrap(), 0);
    assert!(!settle(store, &webhook, &events[1], Turn::Next, Fate::Told).await);
    let node = super::fixture::node(store, 2, 1).await;
    submit(store, 5, &node).await;
}
