//! `fettle-host refusals`: what this node did not do for its plane.

use std::{io::Write as _, path::PathBuf, process::ExitCode};

use anyhow::Context as _;

use crate::refusals::{self, Record};

/// Lists what this node refused to do for its plane, oldest first, and checks that nobody changed the record. Exits
/// with 2 when somebody did.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Example:\n  fettle-host refusals --data /var/lib/fettle-host --json")]
pub(super) struct RefusalsCommand {
    /// What the host keeps; it may run meanwhile.
    #[arg(long, env = "FETTLE_DATA", default_value = "/var/lib/fettle-host")]
    data: PathBuf,
    /// One JSON value instead of text.
    #[arg(long)]
    json: bool,
}

impl RefusalsCommand {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        anyhow::ensure!(
            self.data.is_dir(),
            "{} is no data directory of a host; name it with --data",
            self.data.display()
        );
        let records = refusals::read(&self.data)?;
        let broken = refusals::first_broken(&records);
        let text = if self.json {
            let value = serde_json::json!({ "items": records, "first_broken": broken });
            format!("{}\n", serde_json::to_string_pretty(&value)?)
        } else {
            records.iter().map(block).collect()
        };
        let mut output = std::io::stdout().lock();
        match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                return Err(error).context("standard output cannot be written");
            }
            _ => {}
        }
        let Some(number) = broken else { return Ok(ExitCode::SUCCESS) };
        eprintln!(
            "fettle-host: the record was changed at or before number {number}; each hash is also in the host's own log"
        );
        Ok(ExitCode::from(2))
    }
}

/// One refusal, for people: a line with its place, and one with its reason.
fn block(record: &Record) -> String {
    let left_out = if record.left_out > 0 { format!("  ({} more before)", record.left_out) } else { String::new() };
    let task = record.about.task_id.as_deref().unwrap_or("-");
    format!("{:>5}  {}  {}{left_out}\n       task {task}: {}\n", record.number, record.at, record.code, record.reason)
}
