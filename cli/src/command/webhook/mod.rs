//! `fettle webhook`

mod create;
mod letters;
mod look;
mod manage;

use std::fmt::Write as _;

use clap::{Args, Subcommand};

use super::{Session, target::PlaneArguments};
use crate::{
    error::CommandError,
    plane::{PlaneClient, Webhook, WebhookScope},
};

/// Webhooks: events of operations to an address of yours.
#[derive(Debug, Subcommand)]
#[expect(missing_docs, reason = "each command documents itself")]
pub enum WebhookCommand {
    Create(create::Create),
    List(look::List),
    Show(look::Show),
    Pause(manage::Pause),
    Resume(manage::Resume),
    Delete(manage::Delete),
    RotateSecret(manage::RotateSecret),
    DeadLetters(letters::DeadLetters),
    Replay(letters::Replay),
}

impl WebhookCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// When the plane refuses or does not answer.
    pub async fn run(&self, session: &Session) -> Result<(), CommandError> {
        match self {
            Self::Create(command) => command.run(session).await,
            Self::List(command) => command.run(session).await,
            Self::Show(command) => command.run(session).await,
            Self::Pause(command) => command.run(session).await,
            Self::Resume(command) => command.run(session).await,
            Self::Delete(command) => command.run(session).await,
            Self::RotateSecret(command) => command.run(session).await,
            Self::DeadLetters(command) => command.run(session).await,
            Self::Replay(command) => command.run(session).await,
        }
    }
}

/// Whose webhooks: the project's, unless an organisation is named.
#[derive(Clone, Debug, Args)]
struct Place {
    /// Those of an organisation, for all of its projects.
    #[arg(long, value_name = "ORGANISATION")]
    tenant: Option<String>,
    #[command(flatten)]
    plane: PlaneArguments,
}

impl Place {
    async fn open(&self, session: &Session) -> Result<(PlaneClient, WebhookScope), CommandError> {
        let scope = self.tenant.clone().map_or(WebhookScope::Project, WebhookScope::Tenant);
        Ok((self.plane.client(session).await?, scope))
    }
}

/// A webhook as people read it.
fn text(webhook: &Webhook) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<14} {value}");
    };
    let events = webhook.events.join(", ");
    let scope =
        webhook.project_id.as_ref().map_or_else(|| webhook.org_id.clone(), |id| format!("{}/{id}", webhook.org_id));
    line("webhook", &webhook.webhook_id);
    line("events of", &scope);
    line("url", &webhook.url);
    line("events", if events.is_empty() { "all" } else { &events });
    line("state", &webhook.state);
    if let (Some(answer), Some(at)) = (&webhook.last_answer, &webhook.last_answer_at) {
        line("last answer", &format!("{answer} ({at})"));
    }
    if let Some(at) = &webhook.next_attempt_at {
        line("tried again", &format!("{at}, after {} attempts", webhook.attempts));
    }
    line("dead letters", &webhook.dead_letters.to_string());
    if let Some(until) = &webhook.previous_secret_until {
        line("old secret", &format!("good until {until}"));
    }
    if let Some(secret) = &webhook.secret {
        line("secret", secret);
        text.push_str("\nThe secret is shown this once; keep it where the receiver finds it.\n");
    }
    text
}
