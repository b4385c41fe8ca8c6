//! `fettle artifact sign`

use clap::Args;
use fettle_model::reference::Reference;
use serde::Serialize;

use super::Session;
use crate::{
    error::CommandError,
    supply::{RegistryArguments, SignatureArguments, SigningArguments},
};

/// Signs an artifact that is in a registry already, and puts the signature beside it.
///
/// Signing again with the same key and annotations changes nothing. Files that were pushed, or what
/// somebody else published, can be signed as well.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle artifact sign registry.internal:5000/models/llama@sha256:... --key team.key
  fettle artifact sign registry.internal:5000/steps/file.render@sha256:... -a environment=production")]
pub struct Sign {
    /// The artifact.
    reference: Reference,
    #[command(flatten)]
    signing: SigningArguments,
    #[command(flatten)]
    signature: SignatureArguments,
    #[command(flatten)]
    registry: RegistryArguments,
}

#[derive(Serialize)]
struct Signed {
    reference: Reference,
    signed_by: String,
}

impl Sign {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let key = self.signing.key(session)?;
        self.signature.sign(&self.registry.client()?, &self.reference, &key, Vec::new()).await?;
        let signed = Signed { reference: self.reference.clone(), signed_by: key.public().id().to_string() };
        session.show(&signed, |signed| format!("{} is signed by {}\n", signed.reference, signed.signed_by))
    }
}
