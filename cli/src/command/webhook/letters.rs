//! `fettle webhook dead-letters` and `fettle webhook replay`

use clap::Args;

use super::{Place, Session};
use crate::{error::CommandError, output};

/// Lists the events that a webhook could not be told.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle webhook dead-letters 01J9ZK3QH6X0Q2N5T8V4W7Y1AB
  fettle webhook dead-letters 01J9ZK3QH6X0Q2N5T8V4W7Y1AB --json")]
pub struct DeadLetters {
    /// The webhook.
    #[arg(value_name = "WEBHOOK")]
    id: String,
    #[command(flatten)]
    place: Place,
}

/// Has dead letters sent again: all, or those of the named cursors.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle webhook replay 01J9ZK3QH6X0Q2N5T8V4W7Y1AB
  fettle webhook replay 01J9ZK3QH6X0Q2N5T8V4W7Y1AB --cursor 1042 --cursor 1043")]
pub struct Replay {
    /// The webhook.
    #[arg(value_name = "WEBHOOK")]
    id: String,
    /// Only this one; may be repeated.
    #[arg(long = "cursor", value_name = "CURSOR")]
    cursors: Vec<String>,
    #[command(flatten)]
    place: Place,
}

impl DeadLetters {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let (client, scope) = self.place.open(session).await?;
        let letters = client.dead_letters(&scope, &self.id).await?;
        session.show(&letters, |letters| {
            if letters.is_empty() {
                return "every event was told\n".to_owned();
            }
            let rows = letters.iter().map(|one| {
                let told =
                    if one.replay_at.is_some() { "being sent again".to_owned() } else { one.last_answer.clone() };
                vec![one.cursor.clone(), one.event.clone(), one.operation_id.clone(), one.attempts.to_string(), told]
            });
            output::table(&["CURSOR", "EVENT", "OPERATION", "ATTEMPTS", "LAST ANSWER"], &rows.collect::<Vec<_>>())
        })
    }
}

impl Replay {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let (client, scope) = self.place.open(session).await?;
        let cursors = (!self.cursors.is_empty()).then_some(self.cursors.as_slice());
        let replayed = client.replay(&scope, &self.id, cursors).await?;
        session.show(&replayed, |replayed| format!("{} dead letters are sent again\n", replayed.replayed))
    }
}
