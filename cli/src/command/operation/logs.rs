//! `fettle operation logs`

use std::time::Duration;

use clap::Args;

use super::Session;
use crate::{
    command::target::PlaneArguments,
    error::CommandError,
    output,
    plane::{Followed, Follower, LogLine, Patience, PlaneClient},
    watch::plain,
};

/// How often a follower looks whether somebody still reads.
const LOOK: Duration = Duration::from_millis(500);

/// Prints the log of an operation: time, step, text. With `--json`, one JSON value per line.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle operation logs 01J0000000000000000000000A
  fettle operation logs 01J0000000000000000000000A --step pull --follow")]
pub struct Logs {
    /// The operation.
    #[arg(value_name = "ID")]
    id: String,
    /// Of one step only.
    #[arg(long, value_name = "STEP")]
    step: Option<String>,
    /// Go on until the operation is over.
    #[arg(long, short)]
    follow: bool,
    #[command(flatten)]
    plane: PlaneArguments,
}

impl Logs {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let client = self.plane.client(session).await?;
        if self.follow { self.follow(session, &client).await } else { self.pages(session, &client).await }
    }

    async fn pages(&self, session: &Session, client: &PlaneClient) -> Result<(), CommandError> {
        let mut cursor = None;
        loop {
            let (lines, next) = client.logs(&self.id, self.step.as_deref(), cursor.as_deref()).await?;
            for line in &lines {
                show(session, line)?;
            }
            match next {
                Some(next) if !lines.is_empty() => cursor = Some(next),
                Some(_) | None => return Ok(()),
            }
        }
    }

    async fn follow(&self, session: &Session, client: &PlaneClient) -> Result<(), CommandError> {
        let mut follower = Follower::of_logs(client, &self.id, self.step.as_deref(), Patience::default());
        let mut look = tokio::time::interval(LOOK);
        loop {
            tokio::select! {
                heard = follower.next() => match heard.transpose()? {
                    Some(Followed::Log(line)) => show(session, &line)?,
                    Some(Followed::Event { .. } | Followed::Lost | Followed::Back) => {}
                    None => return Ok(()),
                },
                // A reader that went away is otherwise noticed with the next line only, hours later.
                _ = look.tick() => if output::reader_is_gone() {
                    return Err(CommandError::EnoughRead);
                },
            }
        }
    }
}

fn show(session: &Session, line: &LogLine) -> Result<(), CommandError> {
    let text = |line: &LogLine| {
        let at = line.at.as_deref().unwrap_or_default();
        format!("{} {}  {}", plain::time(at), line.step_id, plain::logged(line))
    };
    session.output.line(line, text).map_err(CommandError::output)
}
