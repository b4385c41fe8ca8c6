//! `fettle trust activate`

use std::path::PathBuf;

use clap::Args;
use fettle_model::reference::Reference;

use super::Session;
use crate::{error::CommandError, supply::TrustArguments};

/// Puts a newer trust policy in force for the host or plane that uses a data directory. It must be
/// signed as the policy in force there demands of the kind `trust_policy`, and have a higher revision.
/// A host or plane that runs sees it at once; nothing is restarted.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle trust activate --trust trust.yaml --directory /var/lib/fettle-host \\
    registry.internal:5000/fettle/trust@sha256:...")]
pub struct Activate {
    /// The trust policy, as `fettle trust publish` printed it.
    reference: Reference,
    /// The data directory of the host or plane.
    #[arg(long, value_name = "DIRECTORY")]
    directory: PathBuf,
    #[command(flatten)]
    trust: TrustArguments,
}

impl Activate {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let supplier = self.trust.supplier_in(session, Some(&self.directory))?;
        let activation = supplier.activate(&self.reference).await?;
        session.show(&activation, |activation| {
            let signers = activation.signed_by.join(", ");
            format!("revision {} is in force, signed by {signers}\n", activation.revision)
        })
    }
}
