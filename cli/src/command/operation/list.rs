//! `fettle operation list`

use clap::{Args, ValueEnum};

use super::Session;
use crate::{command::target::PlaneArguments, error::CommandError, output, watch};

/// Lists operations of the project, the newest first.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle operation list
  fettle operation list --status failed --limit 10 --json")]
pub struct List {
    /// Only those in this state.
    #[arg(long, value_enum)]
    status: Option<Status>,
    /// At most this many.
    #[arg(long, default_value_t = 50, value_name = "NUMBER")]
    limit: u16,
    #[command(flatten)]
    plane: PlaneArguments,
}

/// Columns for where it runs: an expression can be long, and `show` has all of it.
const PLACE: usize = 24;

/// Where an operation is.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Status {
    /// Accepted, not started.
    Queued,
    /// Taken by its node.
    Running,
    /// Every step succeeded.
    Succeeded,
    /// It failed for good.
    Failed,
    /// It was canceled.
    Canceled,
}

impl Status {
    const fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
        }
    }
}

impl List {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let client = self.plane.client(session).await?;
        let limit = usize::from(self.limit.max(1));
        let operations = client.operations(self.status.map(Status::name), limit).await?;
        session.show(&operations, |operations| {
            if operations.is_empty() {
                return "there is no such operation; `fettle operation submit` makes one\n".to_owned();
            }
            let rows = operations.iter().map(|one| {
                vec![
                    one.operation_id.clone(),
                    format!("{}@{}", one.operation_type, one.version),
                    one.status.to_string(),
                    console::truncate_str(&watch::clean(&one.place()), PLACE, "...").into_owned(),
                    watch::plain::time(&one.created_at),
                ]
            });
            output::table(&["ID", "OPERATION", "STATUS", "NODE", "CREATED"], &rows.collect::<Vec<_>>())
        })
    }
}
