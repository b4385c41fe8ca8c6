//! `fettle artifact`

mod copy;
mod sign;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use fettle_model::reference::{Reference, Repository};
use serde::Serialize;

use super::{Session, kind::Kind, verdict};
use crate::{
    error::CommandError,
    supply::{RegistryArguments, TrustArguments},
};

/// Artifacts: push files of any size, sign, verify, copy.
#[derive(Debug, Subcommand)]
#[expect(missing_docs, reason = "each command documents itself")]
pub enum ArtifactCommand {
    Push(Push),
    Verify(Verify),
    Sign(sign::Sign),
    Copy(copy::Copy),
}

/// Pushes files as one OCI artifact, a layer each, titled with the file's name, and prints its reference
/// by digest. Files of any size: they are streamed.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle artifact push models/llama weights.safetensors tokenizer.json
  fettle artifact push registry.internal:5000/models/llama weights.safetensors")]
pub struct Push {
    /// Where to push to: `host:port/path`, or a path in the registry of the context file.
    #[arg(value_name = "REPOSITORY")]
    repository: String,
    /// The files.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    registry: RegistryArguments,
}

/// What was pushed.
#[derive(Serialize)]
struct Pushed {
    reference: Reference,
}

impl ArtifactCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// When a file cannot be read, or the registry fails.
    pub async fn run(&self, session: &Session) -> Result<(), CommandError> {
        match self {
            Self::Push(push) => push.run(session).await,
            Self::Verify(verify) => {
                verdict::show(session, &verify.trust, verify.kind.into(), &verify.reference, verify.attestations).await
            }
            Self::Sign(sign) => sign.run(session).await,
            Self::Copy(copy) => copy.run(session).await,
        }
    }
}

/// Fetches an artifact of any kind and verifies it as a node would; see `fettle step verify`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle artifact verify --kind policy-bundle registry.internal:5000/fettle/policy@sha256:...")]
pub struct Verify {
    /// The artifact.
    reference: Reference,
    /// What it should be: trust is given per kind.
    #[arg(long, value_enum)]
    kind: Kind,
    /// A step must also have a bill of materials and a provenance that hold; lists all that is attached.
    #[arg(long)]
    attestations: bool,
    #[command(flatten)]
    trust: TrustArguments,
}

impl Push {
    async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let repository = self.repository(session)?;
        let titled =
            |file: &PathBuf| (file.file_name().unwrap_or_default().to_string_lossy().into_owned(), file.clone());
        let files: Vec<_> = self.files.iter().map(titled).collect();
        let reference = self.registry.client()?.push_files(&repository, &files).await?;
        session.show(&Pushed { reference }, |pushed| format!("{}\n", pushed.reference))
    }

    fn repository(&self, session: &Session) -> Result<Repository, CommandError> {
        let text = &self.repository;
        let whole = text.parse::<Repository>().ok();
        let in_context = || format!("{}/{text}", session.context.registry.as_ref()?).parse().ok();
        whole.or_else(in_context).ok_or_else(|| CommandError::Missing {
            problem: format!(
                "`{text}` is not a repository, and no context file names a registry that it could be a path in"
            ),
            fix: "write `host:port/path`, or start a registry with `fettle dev`".to_owned(),
        })
    }
}
