//! What a host keeps of its attempts, and of the components that they ran.

use std::path::{Path, PathBuf};

use clap::Args;
use fettle_host::{
    agent::journal_path,
    executor::journal::{Archive, Entry, Filter},
};
use fettle_model::{cassette::Cassette, digest::Digest};
use fettle_supply::{ArtifactKind, ContentStore, SupplyError};

use super::Component;
use crate::error::{CommandError, count};

/// Which attempts of a host.
#[derive(Debug, Args)]
pub(super) struct Which {
    /// What a host keeps, its `--data`; it may run meanwhile.
    #[arg(long, value_name = "DIR")]
    pub(super) data: Option<PathBuf>,
    /// Of this operation.
    #[arg(long, value_name = "ID", requires = "data")]
    operation: Option<String>,
    /// Of this step.
    #[arg(long, value_name = "NAME", requires = "data")]
    step: Option<String>,
    /// This attempt, 1 for the first; the last one when left out.
    #[arg(long, value_name = "NUMBER", requires = "data")]
    attempt: Option<u32>,
    /// The cassette with this digest, or one that begins so: `sha256:4f0a`.
    #[arg(long, requires = "data")]
    digest: Option<String>,
    /// Every attempt that matches, a line each.
    #[arg(long, requires = "data")]
    pub(super) all: bool,
}

impl Which {
    pub(super) fn filter(&self) -> Filter {
        Filter {
            operation_id: self.operation.clone(),
            task_id: None,
            step_id: self.step.clone(),
            attempt: self.attempt,
            digest: self.digest.clone(),
        }
    }
}

/// The data directory of a host. It is only read.
pub(super) struct Host {
    data: PathBuf,
    archive: Archive,
}

impl Host {
    /// Opens it.
    pub(super) async fn open(data: &Path) -> Result<Self, CommandError> {
        let path = journal_path(data);
        if !path.is_file() {
            return Err(CommandError::NotThere {
                problem: format!("{} holds no journal of a host", data.display()),
                fix:
                    "name what `fettle-host run` was given with --data; that of a `fettle dev` is `host` below its own"
                        .to_owned(),
            });
        }
        let archive = Archive::open(&path).await.map_err(CommandError::Journal)?;
        Ok(Self { data: data.to_owned(), archive })
    }

    /// The attempts that match, at least one, oldest first.
    pub(super) async fn list(&self, filter: &Filter) -> Result<Vec<Entry>, CommandError> {
        let found = self.archive.list(filter).await.map_err(CommandError::Journal)?;
        if found.is_empty() {
            return Err(CommandError::NotThere {
                problem: format!("{} keeps no attempt that matches", self.data.display()),
                fix: format!("`fettle-host cassettes list --data {}` shows what there is", self.data.display()),
            });
        }
        Ok(found)
    }

    /// The recording of an attempt.
    pub(super) async fn cassette(&self, entry: &Entry) -> Result<Cassette, CommandError> {
        let filter = Filter {
            operation_id: Some(entry.operation_id.clone()),
            task_id: Some(entry.task_id.clone()),
            step_id: Some(entry.step_id.clone()),
            attempt: Some(entry.attempt),
            digest: Some(entry.digest.to_string()),
        };
        let found = self.archive.export(&filter).await.map_err(CommandError::Journal)?;
        let Some((_, content)) = found.into_iter().next() else {
            return Err(CommandError::NotThere {
                problem: format!("{} was forgotten meanwhile: a host keeps only so many", named(entry).trim_end()),
                fix: "let the host keep more with `fettle-host run --keep-cassettes`".to_owned(),
            });
        };
        let path = PathBuf::from(entry.digest.to_string());
        Cassette::read(&content).map_err(|source| CommandError::Cassette { path, source })
    }

    /// The component with this digest, if the host keeps it. It is hashed again: what is in a file is
    /// believed for its digest only.
    pub(super) async fn component(&self, digest: Digest) -> Result<Option<Component>, CommandError> {
        let artifacts = self.data.join("artifacts");
        let read = ContentStore::peek(&artifacts, digest, ArtifactKind::Step.layer_limit()).await;
        let failed = |source| SupplyError::Store { artifact: digest.to_string(), source };
        match read.map_err(failed)? {
            Some(content) => Component::compile(&PathBuf::from(digest.to_string()), content).await.map(Some),
            None => Ok(None),
        }
    }

    /// What to say when it does not.
    pub(super) fn not_kept(&self, digest: Digest) -> CommandError {
        CommandError::NotThere {
            problem: format!("{} does not keep the component {digest}", self.data.display()),
            fix: "pass it with --component, as a file or as its reference, which `fettle operation plan` shows"
                .to_owned(),
        }
    }
}

/// One attempt in a line.
pub(super) fn named(entry: &Entry) -> String {
    format!("operation {}, step {}, attempt {}\n", entry.operation_id, entry.step_id, entry.attempt)
}

/// Most attempts that an error lists.
const LISTED: usize = 20;

/// The last attempt of the one step that matches.
pub(super) fn newest(entries: Vec<Entry>) -> Result<Entry, CommandError> {
    let step = |entry: &Entry| (entry.operation_id.clone(), entry.task_id.clone(), entry.step_id.clone());
    let is_one_step = entries.windows(2).all(|pair| step(&pair[0]) == step(&pair[1]));
    let last = entries.iter().map(|entry| entry.attempt).max();
    let mut matching: Vec<Entry> =
        entries.into_iter().filter(|entry| !is_one_step || Some(entry.attempt) == last).collect();
    match (matching.pop(), matching.len()) {
        (Some(one), 0) => Ok(one),
        (last, before) => {
            matching.extend(last);
            let lines: String = matching.iter().take(LISTED).map(line).collect();
            let more = if before < LISTED { String::new() } else { format!("\n  and {} more", before + 1 - LISTED) };
            Err(CommandError::Missing {
                problem: format!("{} match:{lines}{more}", count(before + 1, "attempt")),
                fix: "name one with --operation, --step and --attempt, or with --digest; --all replays all of them"
                    .to_owned(),
            })
        }
    }
}

fn line(entry: &Entry) -> String {
    let digest: String = entry.digest.hex().chars().take(8).collect();
    let Entry { operation_id, step_id, attempt, outcome, .. } = entry;
    format!("\n  {operation_id}  {step_id:<15} {attempt:>3}  {outcome:<10} sha256:{digest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(operation: &str, step: &str, attempt: u32) -> Entry {
        Entry {
            operation_id: operation.to_owned(),
            task_id: format!("task of {operation}"),
            step_id: step.to_owned(),
            attempt,
            kind: "a@v1".to_owned(),
            outcome: "failed".to_owned(),
            recorded_at: 0,
            size: 0,
            digest: Digest::of(format!("{operation} {step} {attempt}").as_bytes()),
        }
    }

    #[test]
    fn the_last_attempt_of_one_step_is_taken() {
        let found = newest(vec![entry("one", "pull", 1), entry("one", "pull", 3), entry("one", "pull", 2)]).unwrap();
        assert_eq!(found.attempt, 3);
    }

    #[test]
    fn several_steps_or_operations_are_listed_instead_of_guessed() {
        for other in [entry("two", "pull", 2), entry("one", "render", 2)] {
            let error = newest(vec![entry("one", "pull", 1), other.clone()]).unwrap_err();
            let text = format!("{error}\n{}", error.help().unwrap());
            assert!(text.starts_with("2 attempts match:\n  one  pull"), "{text}");
            assert!(text.contains(&other.digest.to_string()[..15]) && text.contains("--operation"), "{text}");
            assert!(text.lines().all(|line| line.len() <= 100), "{text}");
        }
        let many = (0..50).map(|number| entry(&number.to_string(), "pull", 1)).collect();
        let text = newest(many).unwrap_err().to_string();
        assert!(text.starts_with("50 attempts") && text.ends_with("and 30 more"), "{text}");
    }

    #[test]
    fn an_attempt_that_was_recorded_twice_is_not_guessed() {
        let mut undone = entry("one", "pull", 1);
        undone.digest = Digest::of(b"undo");
        assert!(newest(vec![entry("one", "pull", 1), undone]).is_err());
    }
}
