//! `fettle operation logs`

use clap::Args;

use super::Session;
use crate::{
    command::target::PlaneArguments,
    error::CommandError,
    plane::{Followed, Follower, LogLine, PlaneClient},
    watch::plain,
};

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
        let client = self.plane.client(session)?;
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
        let mut follower = Follower::of_logs(client, &self.id, self.step.as_deref());
        while let Some(heard) = follower.next().await {
            if let Followed::Log(line) = heard? {
                show(session, &line)?;
            }
        }
        Ok(())
    }
}

fn show(session: &Session, line: &LogLine) -> Result<(), CommandError> {
    let text = |line: &LogLine| {
        let at = line.at.as_deref().unwrap_or_default();
        format!("{} {}  {}", plain::time(at), line.step_id, plain::logged(line))
    };
    session.output.line(line, text).map_err(CommandError::Output)
}
