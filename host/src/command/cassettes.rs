//! `fettle-host cassettes`: what attempts on this node asked and were answered, for whoever has to know.

use std::{io::Write as _, path::PathBuf};

use anyhow::Context as _;
use clap::{Args, Subcommand};

use crate::{
    agent::journal_path,
    executor::journal::{Archive, Entry, Filter},
};

/// Cassettes.
#[derive(Debug, Subcommand)]
pub(super) enum CassettesCommand {
    /// Lists the cassettes that this node keeps, oldest first.
    #[command(
        after_long_help = "Example:\n  fettle-host cassettes list --data /var/lib/fettle-host --operation 01J... --json"
    )]
    List(List),
    /// Writes one cassette, or all that match into a directory, for `fettle step replay`.
    #[command(
        after_long_help = "Example:\n  fettle-host cassettes export --operation 01J... --step pull --attempt 2 --output pull.cassette"
    )]
    Export(Export),
}

/// Which cassettes.
#[derive(Debug, Args)]
struct Which {
    /// What the host keeps; it may run meanwhile.
    #[arg(long, env = "FETTLE_DATA", default_value = "/var/lib/fettle-host")]
    data: PathBuf,
    /// Of this operation.
    #[arg(long, value_name = "ID")]
    operation: Option<String>,
    /// Of this task.
    #[arg(long, value_name = "ID")]
    task: Option<String>,
    /// Of this step.
    #[arg(long, value_name = "NAME")]
    step: Option<String>,
    /// Of this attempt, 1 for the first.
    #[arg(long, value_name = "NUMBER")]
    attempt: Option<u32>,
    /// With this digest, or one that begins so: `sha256:4f0a`.
    #[arg(long)]
    digest: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct List {
    #[command(flatten)]
    which: Which,
    /// One JSON value instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct Export {
    #[command(flatten)]
    which: Which,
    /// The file to write, which must not be there; a directory takes all that match. Standard output when
    /// left out.
    #[arg(long, value_name = "FILE|DIRECTORY")]
    output: Option<PathBuf>,
    /// Say what was written as JSON.
    #[arg(long)]
    json: bool,
}

impl CassettesCommand {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no threads")?;
        runtime.block_on(async {
            match self {
                Self::List(command) => command.run().await,
                Self::Export(command) => command.run().await,
            }
        })
    }
}

impl Which {
    async fn archive(&self) -> anyhow::Result<Archive> {
        Archive::open(&journal_path(&self.data))
            .await
            .with_context(|| format!("{} holds no journal of a host; name it with --data", self.data.display()))
    }

    fn filter(&self) -> Filter {
        Filter {
            operation_id: self.operation.clone(),
            task_id: self.task.clone(),
            step_id: self.step.clone(),
            attempt: self.attempt,
            digest: self.digest.clone(),
        }
    }
}

impl List {
    async fn run(&self) -> anyhow::Result<()> {
        let entries = self.which.archive().await?.list(&self.which.filter()).await?;
        if self.json {
            return print(format!("{}\n", serde_json::to_string_pretty(&entries)?).as_bytes());
        }
        print(table(&entries).as_bytes())
    }
}

/// For people: 80 columns for ids of the usual length.
fn table(entries: &[Entry]) -> String {
    let mut text =
        format!("{:<26}  {:<15} {:>3}  {:<10} {:>9}  {}\n", "OPERATION", "STEP", "TRY", "OUTCOME", "BYTES", "DIGEST");
    for entry in entries {
        let digest: String = entry.digest.hex().chars().take(8).collect();
        text.push_str(&format!(
            "{:<26}  {:<15} {:>3}  {:<10} {:>9}  {digest}\n",
            entry.operation_id, entry.step_id, entry.attempt, entry.outcome, entry.size
        ));
    }
    text
}

impl Export {
    async fn run(&self) -> anyhow::Result<()> {
        let found = self.which.archive().await?.export(&self.which.filter()).await?;
        anyhow::ensure!(!found.is_empty(), "no cassette matches; `fettle-host cassettes list` shows what there is");
        let Some(output) = &self.output else {
            let [(_, content)] = found.as_slice() else { return Err(several(found.len())) };
            return print(content);
        };
        let mut written = Vec::new();
        if output.is_dir() {
            for (entry, content) in &found {
                let digest: String = entry.digest.hex().chars().take(8).collect();
                let name = format!("{}-{}-{}-{digest}.cassette", entry.task_id, entry.step_id, entry.attempt);
                let path = output.join(name.replace('/', "-"));
                write_new(&path, content)?;
                written.push((path, entry));
            }
        } else {
            let [(entry, content)] = found.as_slice() else { return Err(several(found.len())) };
            write_new(output, content)?;
            written.push((output.clone(), entry));
        }
        if self.json {
            let written: Vec<_> =
                written.iter().map(|(path, entry)| serde_json::json!({"path": path, "cassette": entry})).collect();
            return print(format!("{}\n", serde_json::to_string_pretty(&written)?).as_bytes());
        }
        Ok(())
    }
}

fn several(count: usize) -> anyhow::Error {
    anyhow::anyhow!(
        "{count} cassettes match; name one with --step and --attempt or --digest, or a directory with --output"
    )
}

/// A cassette may hold what a node keeps from others: nobody else reads it.
fn write_new(path: &std::path::Path, content: &[u8]) -> anyhow::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .with_context(|| format!("{} cannot be written", path.display()))?;
    file.write_all(content).with_context(|| format!("{} cannot be written", path.display()))
}

fn print(bytes: &[u8]) -> anyhow::Result<()> {
    let mut output = std::io::stdout().lock();
    match output.write_all(bytes).and_then(|()| output.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("standard output cannot be written"),
    }
}
