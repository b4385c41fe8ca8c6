//! `fettle webhook list` and `fettle webhook show`

use clap::Args;

use super::{Place, Session, text};
use crate::{error::CommandError, output};

/// Lists the webhooks of a project, or of an organisation.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle webhook list
  fettle webhook list --tenant research --json")]
pub struct List {
    #[command(flatten)]
    place: Place,
}

/// Shows a webhook and what came of the last attempt.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle webhook show 01J9ZK3QH6X0Q2N5T8V4W7Y1AB")]
pub struct Show {
    /// Its id.
    #[arg(value_name = "WEBHOOK")]
    id: String,
    #[command(flatten)]
    place: Place,
}

impl List {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let (client, scope) = self.place.open(session).await?;
        let webhooks = client.webhooks(&scope).await?;
        session.show(&webhooks, |webhooks| {
            if webhooks.is_empty() {
                return "there is no webhook; `fettle webhook create` makes one\n".to_owned();
            }
            let rows = webhooks.iter().map(|one| {
                let dead = one.dead_letters.to_string();
                let answer = one.last_answer.clone().unwrap_or_else(|| "-".to_owned());
                vec![one.webhook_id.clone(), one.state.clone(), dead, one.url.clone(), answer]
            });
            output::table(&["WEBHOOK", "STATE", "DEAD", "URL", "LAST ANSWER"], &rows.collect::<Vec<_>>())
        })
    }
}

impl Show {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let (client, scope) = self.place.open(session).await?;
        session.show(&client.webhook(&scope, &self.id).await?, text)
    }
}
