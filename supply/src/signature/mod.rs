//! Signatures: as they are fetched ([`Evidence`], not believed), and what they say once they have been
//! checked ([`Signed`]) or why they are worth nothing ([`Rejection`]).
//!
//! Nothing of a signature is parsed for its meaning, and none of its annotations is read, before the
//! cryptography holds for a key or an identity.

mod cosign;
mod rejection;
mod root;
mod signed;

use fettle_model::digest::Digest;
use serde::{Deserialize, Serialize};

pub use rejection::Rejection;
pub use root::{TrustedRoot, TrustedRootError};
pub use signed::{Signed, Signer, Workflow};

pub(crate) use cosign::{CosignSignature, PAYLOAD_LIMIT, PAYLOAD_MEDIA_TYPE, SIGNATURE_ANNOTATION, tag};

use crate::key::PublicKey;

/// Most signatures looked at for one artifact.
pub(crate) const COUNT_LIMIT: usize = 64;

/// One signature as it was fetched. Nothing in it is believed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Evidence {
    form: Form,
}

/// In which format it came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Form {
    /// A layer of a cosign `.sig` manifest.
    Cosign(CosignSignature),
}

impl Evidence {
    /// Checks the cryptography, and that what was signed is exactly `artifact`. A signature by a key
    /// counts when the key is one of `keys`; one by an identity counts, whoever it is, when `root`
    /// proves the identity.
    ///
    /// # Errors
    /// Why it is worth nothing.
    pub fn statement_by(
        &self,
        artifact: Digest,
        keys: &[PublicKey],
        root: Option<&TrustedRoot>,
    ) -> Result<Signed, Rejection> {
        match &self.form {
            Form::Cosign(signature) => signature.statement_by(artifact, keys, root),
        }
    }
}

impl From<CosignSignature> for Evidence {
    fn from(signature: CosignSignature) -> Self {
        Self { form: Form::Cosign(signature) }
    }
}
