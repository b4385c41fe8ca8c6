//! `fettle trust init`

use std::{collections::BTreeMap, path::PathBuf};

use clap::Args;
use fettle_supply::{ArtifactKind, PublicKey, Quorum, TrustPolicy};

use super::{Session, check, file};
use crate::error::CommandError;

/// Writes the first trust policy of an installation from the public keys of those who sign: who may replace the policy
/// itself (`--root`), and who may sign each kind of artifact. A kind without a key is trusted from nobody. Nothing is
/// overwritten.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle trust init --root root-1.pub --root root-2.pub --root root-3.pub --root-threshold 2 \\
      --step build.pub --signer platform.pub --policy-bundle security.pub --never-older --output trust.yaml
  fettle trust check trust.yaml")]
pub struct Init {
    /// Public key of somebody who may sign the policy that takes this one's place. Keep its private half offline.
    /// Repeatable.
    #[arg(long, value_name = "FILE", required = true)]
    root: Vec<PathBuf>,
    /// How many of the roots must sign.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    root_threshold: usize,
    /// Public key of somebody who may sign every kind that no other option names. Repeatable.
    #[arg(long, value_name = "FILE")]
    signer: Vec<PathBuf>,
    /// Of somebody who may sign steps. Repeatable.
    #[arg(long, value_name = "FILE")]
    step: Vec<PathBuf>,
    /// Of somebody who may sign catalogs. Repeatable.
    #[arg(long, value_name = "FILE")]
    catalog: Vec<PathBuf>,
    /// Of somebody who may sign operation definitions. Repeatable.
    #[arg(long, value_name = "FILE")]
    definition: Vec<PathBuf>,
    /// Of somebody who may sign policy bundles: profiles, resolver rules and ceilings. Repeatable.
    #[arg(long, value_name = "FILE")]
    policy_bundle: Vec<PathBuf>,
    /// Of somebody who may sign which policy bundles count. Repeatable.
    #[arg(long, value_name = "FILE")]
    policy_activation: Vec<PathBuf>,
    /// Nothing older counts than what a machine has accepted under the same name. Each signature then has to say its
    /// name and version (`--release` of the publishing commands).
    #[arg(long)]
    never_older: bool,
    /// The trust policy to write.
    #[arg(long, value_name = "FILE", default_value = "trust.yaml")]
    output: PathBuf,
}

impl Init {
    pub(super) fn run(&self, session: &Session) -> Result<(), CommandError> {
        let policy = TrustPolicy::first(self.quorums()?)
            .map_err(|source| CommandError::Trust { path: self.output.clone(), source })?;
        file::write_new(&self.output, &policy)?;
        session
            .show(&check::value(&policy), |_| format!("{}written   {}\n", check::text(&policy), self.output.display()))
    }

    fn quorums(&self) -> Result<BTreeMap<ArtifactKind, Quorum>, CommandError> {
        let mut quorums = BTreeMap::new();
        let (roots, signers) = (file::keys(&self.root)?, file::keys(&self.signer)?);
        for (kind, files) in [
            (ArtifactKind::Step, &self.step),
            (ArtifactKind::Catalog, &self.catalog),
            (ArtifactKind::Definition, &self.definition),
            (ArtifactKind::PolicyBundle, &self.policy_bundle),
            (ArtifactKind::PolicyActivation, &self.policy_activation),
        ] {
            let keys = if files.is_empty() { signers.clone() } else { file::keys(files)? };
            warn_of_roots(kind, &keys, &roots);
            if !keys.is_empty() {
                quorums.insert(kind, Quorum { keys, threshold: None, never_older: self.never_older });
            }
        }
        let threshold = (self.root_threshold != 1).then_some(self.root_threshold);
        quorums.insert(ArtifactKind::TrustPolicy, Quorum { keys: roots, threshold, never_older: false });
        Ok(quorums)
    }
}

/// A root that signs every day is on a machine that is used every day.
fn warn_of_roots(kind: ArtifactKind, keys: &[(String, PublicKey)], roots: &[(String, PublicKey)]) {
    for (name, _) in keys.iter().filter(|(_, key)| roots.iter().any(|(_, root)| root == key)) {
        crate::output::remark(&format!(
            "warning: `{name}` is a root and signs `{}` too; whoever gets that key can replace the policy",
            kind.name()
        ));
    }
}
