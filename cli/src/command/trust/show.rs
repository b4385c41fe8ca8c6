//! `fettle trust show`

use std::path::PathBuf;

use clap::Args;

use super::{Session, check};
use crate::{error::CommandError, supply::TrustArguments};

/// Prints the trust policy in force: the configured one, or the newest that was activated in a data
/// directory and follows from it, signature by signature.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle trust show --trust trust.yaml
  fettle trust show --trust trust.yaml --directory /var/lib/fettle-host")]
pub struct Show {
    /// The data directory of a host or a plane.
    #[arg(long, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
    #[command(flatten)]
    trust: TrustArguments,
}

impl Show {
    pub(super) fn run(&self, session: &Session) -> Result<(), CommandError> {
        let trust = self.trust.source(session, self.directory.as_deref())?.current()?;
        let mut value = check::value(trust.policy());
        if let Some(members) = value.as_object_mut() {
            let activations = serde_json::to_value(trust.activations()).unwrap_or_default();
            members.insert("activations".to_owned(), activations);
            members.insert("trusted_root".to_owned(), trust.root().map(|root| root.digest().to_string()).into());
        }
        session.show(&value, |_| {
            let mut text = check::text(trust.policy());
            for activation in trust.activations() {
                let (revision, reference) = (activation.revision, &activation.reference);
                let signers = activation.signed_by.join(", ");
                text.push_str(&format!("activated: revision {revision} {reference}, signed by {signers}\n"));
            }
            text
        })
    }
}
