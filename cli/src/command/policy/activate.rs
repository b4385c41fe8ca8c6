//! `fettle policy activate`

use clap::Args;
use fettle_model::{activation::PolicyActivation, reference::Reference};
use fettle_supply::ArtifactKind;

use super::super::{Session, published};
use crate::{error::CommandError, supply::PublishArguments};

/// Signs which policy bundles count from now on, and prints the reference of that activation. Nodes obey it once an
/// operation of `policy.activate@v1` brings it to them, or when they are started with it (`fettle-host run --policies`).
/// A node that has obeyed one runs nothing under other bundles, and obeys no activation of a smaller revision.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle policy activate registry.internal:5000/fettle/policy@sha256:... --revision 7
  fettle policy activate $OLD --revision 8 --roll-back
  fettle operation submit policy.activate --node gpu-1 --input activation=$(fettle policy activate $NEW --revision 9)")]
pub struct Activate {
    /// The policy bundles that count, by their digests; every other does not.
    #[arg(value_name = "BUNDLE", required = true)]
    bundles: Vec<Reference>,
    /// Greater than that of every activation before.
    #[arg(long, value_name = "NUMBER")]
    revision: u64,
    /// Id of a node that it is for; every node that trusts you when absent. Repeatable.
    #[arg(long, value_name = "ID")]
    node: Vec<String>,
    /// Let bundles count again that an earlier activation had replaced.
    #[arg(long)]
    roll_back: bool,
    #[command(flatten)]
    to: PublishArguments,
}

impl Activate {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let activation = PolicyActivation {
            revision: self.revision,
            bundles: self.bundles.clone(),
            nodes: (!self.node.is_empty()).then(|| self.node.iter().cloned().collect()),
            rolls_back: self.roll_back,
        };
        let subject = "the activation".to_owned();
        activation.check().map_err(|violations| CommandError::Broken { subject, violations })?;
        let kind = ArtifactKind::PolicyActivation;
        let published = self.to.publish_document(session, kind, "fettle/policy-activation", &activation).await?;
        published::show(session, &published)
    }
}
