//! `fettle webhook pause`, `resume`, `delete` and `rotate-secret`

use clap::Args;
use serde_json::json;

use super::{Place, Session, text};
use crate::error::CommandError;

/// Keeps events of a webhook back; they are sent when it goes on.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle webhook pause 01J9ZK3QH6X0Q2N5T8V4W7Y1AB")]
pub struct Pause {
    #[command(flatten)]
    one: One,
}

/// Lets a webhook go on where it stopped: one that was paused, or whose receiver had answered 410.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle webhook resume 01J9ZK3QH6X0Q2N5T8V4W7Y1AB")]
pub struct Resume {
    #[command(flatten)]
    one: One,
}

/// Removes a webhook, with what it could not be told.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle webhook delete 01J9ZK3QH6X0Q2N5T8V4W7Y1AB")]
pub struct Delete {
    #[command(flatten)]
    one: One,
}

/// Gives a webhook another secret. For a while what it is sent is signed with both.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle webhook rotate-secret 01J9ZK3QH6X0Q2N5T8V4W7Y1AB
  fettle webhook rotate-secret 01J9ZK3QH6X0Q2N5T8V4W7Y1AB --overlap 0s")]
pub struct RotateSecret {
    #[command(flatten)]
    one: One,
    /// For how long the old secret stays good.
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = humantime::parse_duration)]
    overlap: std::time::Duration,
}

#[derive(Debug, Args)]
struct One {
    /// Its id.
    #[arg(value_name = "WEBHOOK")]
    id: String,
    #[command(flatten)]
    place: Place,
}

impl One {
    async fn set(&self, session: &Session, state: &str) -> Result<(), CommandError> {
        let (client, scope) = self.place.open(session).await?;
        session.show(&client.set_webhook(&scope, &self.id, state).await?, text)
    }
}

impl Pause {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        self.one.set(session, "paused").await
    }
}

impl Resume {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        self.one.set(session, "active").await
    }
}

impl Delete {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let (client, scope) = self.one.place.open(session).await?;
        client.delete_webhook(&scope, &self.one.id).await?;
        let told = json!({ "webhook_id": self.one.id, "deleted": true });
        session.show(&told, |_| format!("webhook {} is gone\n", self.one.id))
    }
}

impl RotateSecret {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let (client, scope) = self.one.place.open(session).await?;
        let rotated = client.rotate_webhook_secret(&scope, &self.one.id, self.overlap.as_secs()).await?;
        session.show(&rotated, text)
    }
}
