//! Rows of webhooks and of what they could not be told.

use fettle_store::{
    StoreError,
    event::EventKind,
    id::WebhookId,
    project::Project,
    webhook::{DeadLetter, MOST_WEBHOOKS, SigningSecret, Webhook, WebhookChange, WebhookScope, WebhookState},
};
use sqlx_macros::FromRow;

use crate::{event::EventRow, row};

const WHAT: &str = "webhook";

/// A state or event kind that this version does not know.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is unknown")]
struct Unknown(String);

/// A row as it is stored.
#[derive(FromRow)]
pub struct WebhookRow {
    webhook_id: String,
    org_id: String,
    project_id: String,
    url: String,
    events: String,
    state: String,
    secret: String,
    previous_secret: Option<String>,
    previous_until: Option<i64>,
    delivered_to: i64,
    attempts: i64,
    next_attempt_at: Option<i64>,
    last_answer: Option<String>,
    last_at: Option<i64>,
    dead_letters: i64,
    created_at: i64,
}

impl WebhookRow {
    /// The webhook.
    ///
    /// # Errors
    /// When a column is malformed.
    pub fn webhook(self) -> Result<Webhook, StoreError> {
        let org_id = row::parse(WHAT, &self.org_id)?;
        let scope = match self.project_id.as_str() {
            "" => WebhookScope::Tenant(org_id),
            name => WebhookScope::Project(Project { project_id: row::parse(WHAT, name)?, org_id }),
        };
        let state = WebhookState::ALL.into_iter().find(|state| state.name() == self.state);
        let previous = self.previous_secret.map(SigningSecret::new);
        let last_at = row::optional_time(WHAT, self.last_at)?;
        Ok(Webhook {
            id: row::parse(WHAT, &self.webhook_id)?,
            scope,
            url: self.url,
            events: kinds(&self.events)?,
            state: state.ok_or_else(|| StoreError::corrupt(WHAT, Unknown(self.state)))?,
            secret: SigningSecret::new(self.secret),
            previous: previous.zip(row::optional_time(WHAT, self.previous_until)?),
            delivered_to: self.delivered_to,
            attempts: row::number(WHAT, self.attempts)?,
            next_attempt_at: row::optional_time(WHAT, self.next_attempt_at)?,
            last_answer: self.last_answer.zip(last_at),
            dead_letters: row::number(WHAT, self.dead_letters)?,
            created_at: row::time(WHAT, self.created_at)?,
        })
    }
}

/// A row of what could not be told.
#[derive(FromRow)]
pub struct DeadLetterRow {
    #[sqlx(flatten)]
    event: EventRow,
    attempts: i64,
    last_answer: String,
    failed_at: i64,
    replay_at: Option<i64>,
}

impl DeadLetterRow {
    /// The dead letter.
    ///
    /// # Errors
    /// When a column is malformed.
    pub fn letter(self) -> Result<DeadLetter, StoreError> {
        Ok(DeadLetter {
            event: self.event.event()?,
            attempts: row::number(WHAT, self.attempts)?,
            last_answer: self.last_answer,
            failed_at: row::time(WHAT, self.failed_at)?,
            replay_at: row::optional_time(WHAT, self.replay_at)?,
        })
    }
}

fn kinds(text: &str) -> Result<Vec<EventKind>, StoreError> {
    let names: Vec<String> = row::document(WHAT, text)?;
    let kind = |name: String| EventKind::from_name(&name).ok_or_else(|| StoreError::corrupt(WHAT, Unknown(name)));
    names.into_iter().map(kind).collect()
}

/// Kinds of events as they are stored.
///
/// # Errors
/// Never, in truth.
pub fn names(kinds: &[EventKind]) -> Result<String, StoreError> {
    row::text(WHAT, &kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>())
}

/// What a scope is told when it has as many as it may.
#[must_use]
pub fn too_many() -> StoreError {
    let message = format!("there are {MOST_WEBHOOKS} webhooks here, and more are not kept; delete one first");
    StoreError::conflict("webhook.too_many", message)
}

/// There is none of that id.
#[must_use]
pub fn unknown(id: WebhookId) -> StoreError {
    StoreError::not_found(WHAT, id)
}

/// What a change is called in the audit trail.
#[must_use]
pub const fn action(change: &WebhookChange) -> &'static str {
    match change {
        WebhookChange::Pause => "webhook.pause",
        WebhookChange::Resume => "webhook.resume",
        WebhookChange::Rotate { .. } => "webhook.rotate_secret",
        WebhookChange::Keep { .. } => "webhook.keep_secret",
    }
}
