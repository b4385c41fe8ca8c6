//! Webhooks, as the plane answers them.

use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{PlaneClient, PlaneError, view::Page};

/// Whose webhooks are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookScope {
    /// An organisation's.
    Tenant(String),
    /// The project's that the client is for.
    Project,
}

/// A webhook.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Webhook {
    /// Its id.
    pub webhook_id: String,
    /// The organisation whose events it is sent.
    pub org_id: String,
    /// The project, when it is one project's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// Where they are sent.
    pub url: String,
    /// Names of events; empty is all.
    pub events: Vec<String>,
    /// `active`, `paused` or `gone`.
    pub state: String,
    /// Cursor of the last event that was told, or given up.
    pub delivered_to: String,
    /// How often the event after it was tried.
    pub attempts: u32,
    /// When it is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<String>,
    /// What came of the last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_answer: Option<String>,
    /// When that was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_answer_at: Option<String>,
    /// Until when the old secret signs too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_secret_until: Option<String>,
    /// Events that could not be told.
    pub dead_letters: u64,
    /// When it was made.
    pub created_at: String,
    /// Only where it is made or exchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// An event that could not be told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeadLetter {
    /// Cursor of the event.
    pub cursor: String,
    /// Its name.
    pub event: String,
    /// When it happened.
    pub at: String,
    /// The operation that it is about.
    pub operation_id: String,
    /// What it says.
    pub payload: Value,
    /// How often it was tried.
    pub attempts: u32,
    /// What came of the last attempt.
    pub last_answer: String,
    /// When it was given up.
    pub failed_at: String,
    /// When it is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_at: Option<String>,
}

/// How many dead letters are told again.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Replayed {
    /// So many.
    pub replayed: u64,
}

impl PlaneClient {
    fn webhook_path<'a>(&'a self, scope: &'a WebhookScope, rest: &[&'a str]) -> Vec<&'a str> {
        let mut path = match scope {
            WebhookScope::Tenant(tenant) => vec!["tenants", tenant],
            WebhookScope::Project => vec!["projects", self.project()],
        };
        path.push("webhooks");
        path.extend(rest);
        path
    }

    /// All webhooks of a scope.
    ///
    /// # Errors
    /// When the plane refuses or does not answer.
    pub async fn webhooks(&self, scope: &WebhookScope) -> Result<Vec<Webhook>, PlaneError> {
        Ok(self.get::<Page<Webhook>>(&self.webhook_path(scope, &[]), &[]).await?.items)
    }

    /// Makes a webhook; the answer has its secret.
    ///
    /// # Errors
    /// Everything that is wrong with the address or the events.
    pub async fn create_webhook(
        &self,
        scope: &WebhookScope,
        url: &str,
        events: &[String],
    ) -> Result<Webhook, PlaneError> {
        self.post(&self.webhook_path(scope, &[]), &json!({ "url": url, "events": events })).await
    }

    /// One webhook.
    ///
    /// # Errors
    /// When there is none, or the plane does not answer.
    pub async fn webhook(&self, scope: &WebhookScope, id: &str) -> Result<Webhook, PlaneError> {
        self.get(&self.webhook_path(scope, &[id]), &[]).await
    }

    /// Makes a webhook `active` or `paused`.
    ///
    /// # Errors
    /// When there is none, or the plane does not answer.
    pub async fn set_webhook(&self, scope: &WebhookScope, id: &str, state: &str) -> Result<Webhook, PlaneError> {
        let request = self.request(Method::PATCH, &self.webhook_path(scope, &[id]));
        self.answer(request.json(&json!({ "state": state }))).await
    }

    /// Removes a webhook.
    ///
    /// # Errors
    /// When there is none, or the plane does not answer.
    pub async fn delete_webhook(&self, scope: &WebhookScope, id: &str) -> Result<(), PlaneError> {
        self.accept(self.request(Method::DELETE, &self.webhook_path(scope, &[id]))).await.map(drop)
    }

    /// Exchanges the secret; the answer has the new one.
    ///
    /// # Errors
    /// When there is none, or the plane does not answer.
    pub async fn rotate_webhook_secret(
        &self,
        scope: &WebhookScope,
        id: &str,
        overlap_seconds: u64,
    ) -> Result<Webhook, PlaneError> {
        let path = self.webhook_path(scope, &[id, "rotate-secret"]);
        self.post(&path, &json!({ "overlap_seconds": overlap_seconds })).await
    }

    /// All that a webhook could not be told.
    ///
    /// # Errors
    /// When there is none, or the plane does not answer.
    pub async fn dead_letters(&self, scope: &WebhookScope, id: &str) -> Result<Vec<DeadLetter>, PlaneError> {
        let path = self.webhook_path(scope, &[id, "dead-letters"]);
        let mut found = Vec::new();
        let mut query = vec![("page_size", "200".to_owned())];
        loop {
            let page: Page<DeadLetter> = self.get(&path, &query).await?;
            found.extend(page.items);
            let Some(cursor) = page.next_cursor else { return Ok(found) };
            query.truncate(1);
            query.push(("cursor", cursor));
        }
    }

    /// Has dead letters told again: those of these cursors, or all.
    ///
    /// # Errors
    /// When there is no such webhook, or the plane does not answer.
    pub async fn replay(
        &self,
        scope: &WebhookScope,
        id: &str,
        cursors: Option<&[String]>,
    ) -> Result<Replayed, PlaneError> {
        let body = cursors.map_or_else(|| json!({}), |cursors| json!({ "cursors": cursors }));
        self.post(&self.webhook_path(scope, &[id, "dead-letters", "replay"]), &body).await
    }
}
