//! Webhooks: who is told of events, how far they have been told, and what could not be told.

use std::fmt;

use async_trait::async_trait;
use fettle_model::name::Label;
use jiff::Timestamp;

use crate::{
    StoreError,
    context::Context,
    event::{Event, EventKind},
    id::WebhookId,
    page::Page,
    project::Project,
};

/// Webhooks of one scope at most.
pub const MOST_WEBHOOKS: u32 = 20;

/// Whose events a webhook tells.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WebhookScope {
    /// Those of all projects of an organisation.
    Tenant(Label),
    /// Those of one project.
    Project(Project),
}

/// Whether a webhook is told anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WebhookState {
    /// It is told every event, and those that it missed.
    Active,
    /// Somebody stopped it; what happens meanwhile is told when it goes on.
    Paused,
    /// The receiver answered that it wants no more.
    Gone,
}

/// What a receiver and this plane know and nobody else, as it is kept: a text that begins with `whsec_`, or one that only
/// the plane can open. It never reaches a log: its debug form is empty.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningSecret(String);

/// A webhook.
#[derive(Clone, Debug, PartialEq)]
pub struct Webhook {
    /// Which.
    pub id: WebhookId,
    /// Whose events.
    pub scope: WebhookScope,
    /// Where they are sent.
    pub url: String,
    /// Which of them; empty is all.
    pub events: Vec<EventKind>,
    /// Whether they are sent.
    pub state: WebhookState,
    /// Signs what is sent.
    pub secret: SigningSecret,
    /// Signs too until then: the secret before the last rotation.
    pub previous: Option<(SigningSecret, Timestamp)>,
    /// The last event that needs no more telling.
    pub delivered_to: i64,
    /// How often the event after it was tried.
    pub attempts: u32,
    /// When it is tried again.
    pub next_attempt_at: Option<Timestamp>,
    /// What came of the last attempt, and when.
    pub last_answer: Option<(String, Timestamp)>,
    /// Events that could not be told.
    pub dead_letters: u64,
    /// When it was made.
    pub created_at: Timestamp,
}

/// A webhook that is being made.
#[derive(Clone, Debug)]
pub struct NewWebhook {
    /// Which.
    pub id: WebhookId,
    /// Whose events.
    pub scope: WebhookScope,
    /// Where they are sent.
    pub url: String,
    /// Which of them; empty is all.
    pub events: Vec<EventKind>,
    /// `Active` or `Paused`.
    pub state: WebhookState,
    /// Signs what is sent.
    pub secret: SigningSecret,
}

/// What may be changed of a webhook.
#[derive(Clone, Debug)]
pub enum WebhookChange {
    /// Nothing is told for now.
    Pause,
    /// It is told again, from where it stopped.
    Resume,
    /// Another secret; the one before it is good until then.
    Rotate {
        /// The new one.
        secret: SigningSecret,
        /// How long the old one signs too.
        previous_until: Timestamp,
    },
    /// The same secret is kept in another form, whether it is the present or the previous one. One that has changed
    /// meanwhile stays as it is.
    Keep {
        /// As it is kept now.
        secret: SigningSecret,
        /// As it is kept from now on.
        form: SigningSecret,
    },
}

/// An event that could not be told.
#[derive(Clone, Debug, PartialEq)]
pub struct DeadLetter {
    /// The event, whole.
    pub event: Event,
    /// How often it was tried.
    pub attempts: u32,
    /// What came of the last attempt.
    pub last_answer: String,
    /// When it was given up.
    pub failed_at: Timestamp,
    /// When it is tried again; none when it is not.
    pub replay_at: Option<Timestamp>,
}

/// A plane wants to deliver until then.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The plane, or rather this start of it.
    pub owner: String,
    /// As long as it does not ask again.
    pub until: Timestamp,
}

/// What a plane may deliver.
#[derive(Clone, Debug, Default)]
pub struct Claimed {
    /// These.
    pub webhooks: Vec<Webhook>,
    /// When the first claim of another plane ends.
    pub next: Option<Timestamp>,
}

/// Why an event was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It is the next one.
    Next,
    /// Somebody asked for it again.
    Replay,
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The receiver has it.
    Told,
    /// It is tried again then.
    Again(Timestamp),
    /// It is not tried again.
    Dead,
    /// The receiver wants nothing any more.
    Unwanted,
}

/// The end of one attempt.
#[derive(Clone, Debug)]
pub struct Settlement {
    /// Of which webhook.
    pub webhook: WebhookId,
    /// Whose events it tells.
    pub scope: WebhookScope,
    /// Who tried.
    pub owner: String,
    /// What was sent.
    pub event: Event,
    /// Why.
    pub turn: Turn,
    /// How often it has been tried now.
    pub attempts: u32,
    /// What came of it, in a sentence.
    pub answer: String,
    /// What became of it.
    pub fate: Fate,
}

impl SigningSecret {
    /// Wraps a text.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// The text.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret")
    }
}

impl WebhookState {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Active, Self::Paused, Self::Gone];

    /// The name in documents and databases.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Gone => "gone",
        }
    }
}

impl WebhookScope {
    /// The organisation.
    #[must_use]
    pub const fn org_id(&self) -> &Label {
        match self {
            Self::Tenant(org_id) => org_id,
            Self::Project(project) => &project.org_id,
        }
    }

    /// The project; empty when all of them are meant.
    #[must_use]
    pub fn project_id(&self) -> &str {
        match self {
            Self::Tenant(_) => "",
            Self::Project(project) => project.project_id.as_str(),
        }
    }

    /// As the audit trail names it.
    #[must_use]
    pub fn audit_scope(&self) -> String {
        match self {
            Self::Tenant(org_id) => org_id.to_string(),
            Self::Project(project) => format!("{}/{}", project.org_id, project.project_id),
        }
    }

    /// The name of a webhook as a resource.
    #[must_use]
    pub fn resource_name(&self, id: WebhookId) -> String {
        match self {
            Self::Tenant(org_id) => format!("tenants/{org_id}/webhooks/{id}"),
            Self::Project(project) => format!("projects/{}/webhooks/{id}", project.project_id),
        }
    }

    /// Whether an event happened here.
    #[must_use]
    pub fn covers(&self, event: &Event) -> bool {
        let says = |field: &str| event.payload.get(field).and_then(serde_json::Value::as_str).unwrap_or_default();
        let project = self.project_id();
        says("org_id") == self.org_id().as_str() && (project.is_empty() || says("project_id") == project)
    }
}

impl Webhook {
    /// Whether it is told of an event.
    #[must_use]
    pub fn wants(&self, event: &Event) -> bool {
        (self.events.is_empty() || self.events.contains(&event.kind)) && self.scope.covers(event)
    }
}

/// Webhooks. Verbs about one of them answer `NotFound` when its scope has none of that id.
#[async_trait]
pub trait WebhookStore: Send + Sync {
    /// Makes one. It is told what happens from now on.
    ///
    /// # Errors
    /// `Conflict` when the scope has as many as it may.
    async fn create_webhook(&self, new: NewWebhook, context: Context) -> Result<Webhook, StoreError>;

    /// One of a scope.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn webhook(&self, scope: &WebhookScope, id: WebhookId) -> Result<Option<Webhook>, StoreError>;

    /// All of a scope, the oldest first.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn webhooks(&self, scope: &WebhookScope) -> Result<Vec<Webhook>, StoreError>;

    /// All of all scopes, the oldest first: for the plane itself, never for a tenant.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn every_webhook(&self) -> Result<Vec<Webhook>, StoreError>;

    /// Changes one.
    ///
    /// # Errors
    /// `NotFound`.
    async fn change_webhook(
        &self,
        scope: WebhookScope,
        id: WebhookId,
        change: WebhookChange,
        context: Context,
    ) -> Result<Webhook, StoreError>;

    /// Removes one, with what it could not be told.
    ///
    /// # Errors
    /// `NotFound`.
    async fn delete_webhook(&self, scope: WebhookScope, id: WebhookId, context: Context) -> Result<(), StoreError>;

    /// What one could not be told, the oldest event first.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn dead_letters(&self, id: WebhookId, page: Page<i64>) -> Result<Vec<DeadLetter>, StoreError>;

    /// Has dead letters told again: those of these events, or all. Answers how many there are of them.
    ///
    /// # Errors
    /// `NotFound`.
    async fn replay_dead_letters(
        &self,
        scope: WebhookScope,
        id: WebhookId,
        sequences: Option<Vec<i64>>,
        context: Context,
    ) -> Result<u64, StoreError>;

    /// Dead letters that are to be told again, the one that is due first, first. At most 100.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn replays(&self, id: WebhookId) -> Result<Vec<DeadLetter>, StoreError>;

    /// Whether there is one that is active.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn has_active_webhooks(&self) -> Result<bool, StoreError>;

    /// Takes every active webhook that no other plane has, and keeps those that this one has.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn claim_webhooks(&self, claim: Claim, context: Context) -> Result<Claimed, StoreError>;

    /// Lets other planes take what this one had.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn release_webhooks(&self, owner: String) -> Result<(), StoreError>;

    /// Writes what came of an attempt. Answers false, and writes nothing, when the webhook is another plane's by now.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn settle_delivery(&self, settlement: Settlement, context: Context) -> Result<bool, StoreError>;

    /// How many dead letters there are.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn count_dead_letters(&self) -> Result<u64, StoreError>;
}
