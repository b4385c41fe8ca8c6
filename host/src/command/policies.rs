//! `fettle-host policies`: which policy bundles count on this node.

use std::{io::Write as _, path::PathBuf};

use anyhow::Context as _;

use crate::executor::policies::{self, PolicyRecord};

/// Says which policy bundles count on this node, and which activations said so, the oldest first.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Example:\n  fettle-host policies --data /var/lib/fettle-host --json")]
pub(super) struct PoliciesCommand {
    /// What the host keeps; it may run meanwhile.
    #[arg(long, env = "FETTLE_DATA", default_value = "/var/lib/fettle-host")]
    data: PathBuf,
    /// One JSON value instead of text.
    #[arg(long)]
    json: bool,
}

impl PoliciesCommand {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.data.is_dir(),
            "{} is no data directory of a host; name it with --data",
            self.data.display()
        );
        let record = policies::read(&self.data)?;
        let text = if self.json { format!("{}\n", serde_json::to_string_pretty(&record)?) } else { text(&record) };
        let mut output = std::io::stdout().lock();
        match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                Err(error).context("standard output cannot be written")
            }
            _ => Ok(()),
        }
    }
}

fn text(record: &PolicyRecord) -> String {
    let Some(active) = &record.active else {
        return "every policy bundle that is signed counts; no activation ever came\n".to_owned();
    };
    let mut text = format!("revision    {}\nactivation  {}\n", active.revision, active.activation);
    for bundle in &active.bundles {
        text.push_str(&format!("counts      {bundle}\n"));
    }
    text.push_str("\nREVISION  AT                        BROUGHT BY\n");
    for one in &record.history {
        let by = one.task_id.as_ref().map_or_else(|| "the start of the host".to_owned(), |task| format!("task {task}"));
        text.push_str(&format!("{:>8}  {:<24}  {by}\n", one.revision, one.at));
    }
    text
}
