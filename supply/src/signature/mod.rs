//! Signatures: as they are fetched ([`Evidence`], not believed), and what they say once they have been
//! checked ([`Signed`]) or why they are worth nothing ([`Rejection`]).
//!
//! Nothing of a signature is parsed for its meaning, and none of its annotations is read, before the
//! cryptography holds for a key or an identity.

mod bundle;
mod cosign;
mod identity;
mod keyless;
mod rejection;
mod root;
mod signed;
mod statement;

use fettle_model::digest::Digest;
use serde::{Deserialize, Serialize};

pub use rejection::Rejection;
pub use root::{TrustedRoot, TrustedRootError};
pub use signed::{Signed, Signer, Workflow};

pub(crate) use bundle::{BUNDLE_LIMIT, BUNDLE_MEDIA_TYPE, Bundle, What};
pub(crate) use cosign::{CosignSignature, PAYLOAD_LIMIT, PAYLOAD_MEDIA_TYPE, tag};
pub(crate) use statement::{SIGN_PREDICATE, Statement};

use crate::{
    key::PublicKey,
    mutation::{Protection, off},
};

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
    /// A Sigstore bundle that refers to the artifact.
    Bundle(Bundle),
    /// Something in the place of a signature that is none, and why.
    Unfit(String),
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
            Form::Bundle(bundle) => bundle.statement_by(artifact, keys, root),
            Form::Unfit(reason) => Err(Rejection::Unreadable(reason.clone())),
        }
    }
}

/// A signature counts for the artifact that it names.
pub(crate) fn about(artifact: Digest, subject: Digest, signer: &Signer) -> Result<(), Rejection> {
    if subject == artifact || off(Protection::SubjectIsTheArtifact) {
        return Ok(());
    }
    Err(Rejection::OtherSubject { signer: Box::new(signer.clone()), signed: subject.to_string() })
}

impl Evidence {
    /// Whether it came as a bundle.
    pub(crate) const fn is_bundle(&self) -> bool {
        matches!(self.form, Form::Bundle(_))
    }

    /// Something in the place of a signature that is none. One such does not hide the others.
    pub(crate) fn unfit(reason: String) -> Self {
        Self { form: Form::Unfit(reason) }
    }
}

impl From<Bundle> for Evidence {
    fn from(bundle: Bundle) -> Self {
        Self { form: Form::Bundle(bundle) }
    }
}

impl From<CosignSignature> for Evidence {
    fn from(signature: CosignSignature) -> Self {
        Self { form: Form::Cosign(signature) }
    }
}
