//! `fettle webhook create`

use clap::Args;

use super::{Place, Session, text};
use crate::error::CommandError;

/// Has events sent to an address, from now on. Prints the secret that verifies them, this once.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle webhook create https://receiver.example/fettle
  fettle webhook create https://receiver.example/fettle --event operation.failed --event operation.completed
  fettle webhook create https://receiver.example/fettle --tenant research --json")]
pub struct Create {
    /// Where events are sent.
    #[arg(value_name = "URL")]
    url: String,
    /// Only events of this name; may be repeated. All, when there is none.
    #[arg(long = "event", value_name = "NAME")]
    events: Vec<String>,
    #[command(flatten)]
    place: Place,
}

impl Create {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let (client, scope) = self.place.open(session).await?;
        let webhook = client.create_webhook(&scope, &self.url, &self.events).await?;
        session.show(&webhook, text)
    }
}
