//! `fettle trust publish`

use std::path::PathBuf;

use clap::Args;
use fettle_supply::{ArtifactKind, TrustPolicy};

use super::Session;
use crate::{
    command::published,
    error::CommandError,
    supply::{PublishArguments, read},
};

/// Checks a trust policy strictly, pushes it as canonical JSON, signs it, and prints its reference by
/// digest. It takes effect where it is activated, and only if it is signed as the policy in force there
/// demands of the kind `trust_policy`: publish it again with each further key.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle trust publish trust-2.yaml --key root-a.key
  fettle trust publish trust-2.yaml --key root-b.key   # the same reference, one signature more")]
pub struct Publish {
    /// The trust policy, in YAML or JSON.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    to: PublishArguments,
}

impl Publish {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let policy = TrustPolicy::read(&read(&self.file)?)
            .map_err(|source| CommandError::Trust { path: self.file.clone(), source })?;
        if policy.revision() == 0 {
            return Err(CommandError::Missing {
                problem: format!("{} has no revision, so no node could tell that it is newer", self.file.display()),
                fix: "add `revision: N`, with N above that of the policy in force (`fettle trust show`)".to_owned(),
            });
        }
        let kind = ArtifactKind::TrustPolicy;
        let published = self.to.publish_document(session, kind, "fettle/trust", &policy).await?;
        published::show(session, &published)
    }
}
