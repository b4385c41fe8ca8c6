//! Webhooks as they are shown and asked for: the same for a project and an organisation.

use std::time::Duration;

use fettle_model::violation::Violation;
use fettle_store::{
    StoreError,
    event::EventKind,
    id::WebhookId,
    page::Page,
    webhook::{DeadLetter, NewWebhook, Webhook, WebhookChange, WebhookScope, WebhookState},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::page;
use crate::{
    api::Problem,
    identity::Caller,
    state::State,
    webhook::{check_address, new_secret},
};

/// How long the old secret stays good when nothing is said, and at most.
const OVERLAP: Duration = Duration::from_secs(24 * 3600);
const LONGEST_OVERLAP: Duration = Duration::from_secs(30 * 24 * 3600);

/// Dead letters that are named in one request.
const MOST_CURSORS: usize = 1000;

/// A webhook that shall be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WebhookRequest {
    /// Where events are sent: `https://...`.
    url: String,
    /// Names of events: `operation.requested`, `.progress`, `.completed`, `.failed`, `.canceled`. All when absent.
    #[serde(default)]
    events: Vec<String>,
    /// `active` (when absent) or `paused`.
    #[serde(default)]
    state: Option<RequestedState>,
}

/// What a webhook can be told to be.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RequestedState {
    /// Events are sent, also those that it missed.
    Active,
    /// Events wait.
    Paused,
}

/// What shall be changed.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WebhookAmendment {
    /// `active` or `paused`.
    state: RequestedState,
}

/// How the secret is exchanged.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RotationRequest {
    /// Seconds for which requests are signed with the old secret too; a day when absent, 30 days at most.
    #[serde(default)]
    overlap_seconds: Option<u64>,
}

/// Which dead letters are told again.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReplayRequest {
    /// Their cursors; all when absent.
    #[serde(default)]
    cursors: Option<Vec<String>>,
}

/// A webhook. Its secret is shown when it is made, and never again.
#[derive(Serialize, ToSchema)]
pub(crate) struct WebhookView {
    /// Its id.
    webhook_id: String,
    /// The organisation whose events it is sent.
    org_id: String,
    /// The project, when it is one project's.
    #[serde(skip_serializing_if = "Option::is_none")]
    project_id: Option<String>,
    /// Where they are sent.
    url: String,
    /// Names of events; empty is all.
    events: Vec<&'static str>,
    /// `active`, `paused`, or `gone`: the receiver answered 410.
    state: &'static str,
    /// Cursor of the last event that was told, or given up.
    delivered_to: String,
    /// How often the event after it was tried.
    attempts: u32,
    /// When it is tried again, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_attempt_at: Option<String>,
    /// What came of the last attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_answer: Option<String>,
    /// When that was, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_answer_at: Option<String>,
    /// Until when requests are signed with the old secret too, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    previous_secret_until: Option<String>,
    /// Events that could not be told.
    dead_letters: u64,
    /// RFC 3339.
    created_at: String,
}

/// A webhook with its secret.
#[derive(Serialize, ToSchema)]
pub(crate) struct WebhookWithSecret {
    /// The webhook.
    #[serde(flatten)]
    webhook: WebhookView,
    /// `whsec_...`: verifies what it is sent. It is shown this once.
    secret: String,
}

/// Webhooks.
#[derive(Serialize, ToSchema)]
pub(crate) struct Webhooks {
    /// The oldest first.
    items: Vec<WebhookView>,
}

/// An event that could not be told.
#[derive(Serialize, ToSchema)]
pub(crate) struct DeadLetterView {
    /// Cursor of the event.
    cursor: String,
    /// Its name.
    event: &'static str,
    /// When it happened, RFC 3339.
    at: String,
    /// The operation that it is about.
    operation_id: String,
    /// What it says.
    payload: Value,
    /// How often it was tried.
    attempts: u32,
    /// What came of the last attempt.
    last_answer: String,
    /// When it was given up, RFC 3339.
    failed_at: String,
    /// When it is tried again, RFC 3339; absent when it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    replay_at: Option<String>,
}

/// A page of dead letters.
#[derive(Serialize, ToSchema)]
pub(crate) struct DeadLetters {
    /// The oldest event first.
    items: Vec<DeadLetterView>,
    /// Pass it as `cursor` for the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// How many are told again.
#[derive(Serialize, ToSchema)]
pub(crate) struct Replayed {
    /// Dead letters that wait to be sent.
    replayed: u64,
}

/// Which page.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Filter {
    /// `next_cursor` of the page before.
    cursor: Option<String>,
    /// 1 to 1000; 50 when absent.
    page_size: Option<u32>,
}

impl From<Webhook> for WebhookView {
    fn from(webhook: Webhook) -> Self {
        let project = webhook.scope.project_id();
        let (last_answer, last_answer_at) = webhook.last_answer.clone().unzip();
        Self {
            webhook_id: webhook.id.to_string(),
            org_id: webhook.scope.org_id().to_string(),
            project_id: (!project.is_empty()).then(|| project.to_owned()),
            events: webhook.events.iter().map(|kind| kind.name()).collect(),
            state: webhook.state.name(),
            delivered_to: webhook.delivered_to.to_string(),
            attempts: webhook.attempts,
            next_attempt_at: webhook.next_attempt_at.map(|at| at.to_string()),
            last_answer,
            last_answer_at: last_answer_at.map(|at| at.to_string()),
            previous_secret_until: webhook.previous.map(|(_, until)| until.to_string()),
            dead_letters: webhook.dead_letters,
            created_at: webhook.created_at.to_string(),
            url: webhook.url,
        }
    }
}

impl From<DeadLetter> for DeadLetterView {
    fn from(letter: DeadLetter) -> Self {
        Self {
            cursor: letter.event.sequence.to_string(),
            event: letter.event.kind.name(),
            at: letter.event.at.to_string(),
            operation_id: letter.event.operation_id.to_string(),
            payload: letter.event.payload,
            attempts: letter.attempts,
            last_answer: letter.last_answer,
            failed_at: letter.failed_at.to_string(),
            replay_at: letter.replay_at.map(|at| at.to_string()),
        }
    }
}

/// All webhooks of a scope.
pub(super) async fn list(state: &State, scope: &WebhookScope) -> Result<Webhooks, Problem> {
    let webhooks = state.store.webhooks(scope).await?;
    Ok(Webhooks { items: webhooks.into_iter().map(WebhookView::from).collect() })
}

/// Makes a webhook.
pub(super) async fn create(
    state: &State,
    caller: &Caller,
    scope: WebhookScope,
    request: WebhookRequest,
) -> Result<WebhookWithSecret, Problem> {
    let mut found = check_address(&request.url, &state.config.webhooks.private, "/url");
    let events = kinds(&request.events, &mut found);
    if !found.is_empty() {
        return Err(Problem::invalid(found));
    }
    let (id, secret) = (WebhookId::new(state.ulid()?), new_secret(&*state.clock)?);
    let new = NewWebhook {
        id,
        scope,
        url: request.url,
        events,
        state: match request.state {
            None | Some(RequestedState::Active) => WebhookState::Active,
            Some(RequestedState::Paused) => WebhookState::Paused,
        },
        secret: state.vault.kept(id, &secret)?,
    };
    Ok(with_secret(state.store.create_webhook(new, caller.context()).await?, &secret))
}

fn kinds(names: &[String], found: &mut Vec<Violation>) -> Vec<EventKind> {
    let mut kinds = Vec::new();
    for (index, name) in names.iter().enumerate() {
        match EventKind::from_name(name) {
            Some(kind) if kinds.contains(&kind) => {}
            Some(kind) => kinds.push(kind),
            None => {
                let known = EventKind::ALL.map(EventKind::name).join(", ");
                let message =
                    format!("there is no event `{}`; there are {known}", name.chars().take(60).collect::<String>());
                found.push(Violation::new(format!("/events/{index}"), message));
            }
        }
    }
    kinds
}

fn with_secret(webhook: Webhook, secret: &str) -> WebhookWithSecret {
    WebhookWithSecret { webhook: webhook.into(), secret: secret.to_owned() }
}

/// The webhook of a scope, or 404.
async fn find(state: &State, scope: &WebhookScope, id: &str) -> Result<Webhook, Problem> {
    let found = match id.parse::<WebhookId>() {
        Ok(id) => state.store.webhook(scope, id).await?,
        Err(_) => None,
    };
    found.ok_or_else(|| unknown(id))
}

/// One webhook.
pub(super) async fn show(state: &State, scope: &WebhookScope, id: &str) -> Result<WebhookView, Problem> {
    find(state, scope, id).await.map(WebhookView::from)
}

/// Pauses a webhook, or lets it go on.
pub(super) async fn amend(
    state: &State,
    caller: &Caller,
    scope: WebhookScope,
    id: &str,
    amendment: &WebhookAmendment,
) -> Result<WebhookView, Problem> {
    let change = match amendment.state {
        RequestedState::Active => WebhookChange::Resume,
        RequestedState::Paused => WebhookChange::Pause,
    };
    changed(state, caller, scope, id, change).await.map(WebhookView::from)
}

/// Gives a webhook another secret.
pub(super) async fn rotate(
    state: &State,
    caller: &Caller,
    scope: WebhookScope,
    id: &str,
    request: &RotationRequest,
) -> Result<WebhookWithSecret, Problem> {
    let overlap = request.overlap_seconds.map_or(OVERLAP, Duration::from_secs);
    if overlap > LONGEST_OVERLAP {
        let message = format!("write at most {}", LONGEST_OVERLAP.as_secs());
        return Err(Problem::invalid(vec![Violation::new("/overlap_seconds", message)]));
    }
    let secret = new_secret(&*state.clock)?;
    let kept = state.vault.kept(id.parse().map_err(|_| unknown(id))?, &secret)?;
    let change = WebhookChange::Rotate { secret: kept, previous_until: state.after(overlap) };
    changed(state, caller, scope, id, change).await.map(|webhook| with_secret(webhook, &secret))
}

async fn changed(
    state: &State,
    caller: &Caller,
    scope: WebhookScope,
    id: &str,
    change: WebhookChange,
) -> Result<Webhook, Problem> {
    let parsed = id.parse().map_err(|_| unknown(id))?;
    let changed = state.store.change_webhook(scope, parsed, change, caller.context()).await;
    changed.map_err(|error| named(error, id))
}

/// Removes a webhook.
pub(super) async fn delete(state: &State, caller: &Caller, scope: WebhookScope, id: &str) -> Result<(), Problem> {
    let parsed = id.parse().map_err(|_| unknown(id))?;
    let deleted = state.store.delete_webhook(scope, parsed, caller.context()).await;
    deleted.map_err(|error| named(error, id))
}

/// What a webhook could not be told.
pub(super) async fn dead_letters(
    state: &State,
    scope: &WebhookScope,
    id: &str,
    filter: &Filter,
) -> Result<DeadLetters, Problem> {
    let size = page::size(filter.page_size)?;
    let after = page::cursor(filter.cursor.as_deref())?;
    let webhook = find(state, scope, id).await?;
    let letters = state.store.dead_letters(webhook.id, Page { after, size }).await?;
    let next_cursor = page::next(&letters, size, |letter| letter.event.sequence.to_string());
    Ok(DeadLetters { items: letters.into_iter().map(DeadLetterView::from).collect(), next_cursor })
}

/// Has dead letters told again.
pub(super) async fn replay(
    state: &State,
    caller: &Caller,
    scope: WebhookScope,
    id: &str,
    request: &ReplayRequest,
) -> Result<Replayed, Problem> {
    let parsed = id.parse().map_err(|_| unknown(id))?;
    let wrong = |pointer: String, message: &str| Problem::invalid(vec![Violation::new(pointer, message)]);
    let cursor = |(index, text): (usize, &String)| {
        text.parse().map_err(|_| wrong(format!("/cursors/{index}"), "is no cursor of a dead letter"))
    };
    let sequences = match &request.cursors {
        Some(cursors) if cursors.len() > MOST_CURSORS => {
            return Err(wrong("/cursors".to_owned(), "write at most 1000, or leave it out for all"));
        }
        Some(cursors) => Some(cursors.iter().enumerate().map(cursor).collect::<Result<Vec<i64>, _>>()?),
        None => None,
    };
    let replayed = state.store.replay_dead_letters(scope, parsed, sequences, caller.context()).await;
    Ok(Replayed { replayed: replayed.map_err(|error| named(error, id))? })
}

fn named(error: StoreError, id: &str) -> Problem {
    match error {
        StoreError::NotFound { .. } => unknown(id),
        other => other.into(),
    }
}

fn unknown(id: &str) -> Problem {
    Problem::not_found("webhook.unknown", format!("there is no webhook `{id}` here"))
}
