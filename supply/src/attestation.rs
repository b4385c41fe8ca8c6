//! Attestations: signed statements about an artifact, such as its SBOM or its provenance.
//!
//! An attestation tells that its signer stated something, and what. It does not make the statement true,
//! and it is no signature of the artifact: [`crate::Supplier::artifact`] does not count it.
//!
//! ```no_run
//! # use fettle_supply::*;
//! # async fn example(client: RegistryClient, step: fettle_model::reference::Reference, key: SigningKey)
//! # -> Result<(), Box<dyn std::error::Error>> {
//! let provenance = serde_json::json!({ "buildDefinition": {} });
//! client.attest(&step, &key, "https://slsa.dev/provenance/v1", &provenance).await?;
//! for evidence in client.fetch_attestations(&step).await? {
//!     let attestation = evidence.statement_by(step.digest, &[key.public().clone()], None)?;
//!     println!("{} states {}", attestation.signer, attestation.predicate_type);
//! }
//! # Ok(())
//! # }
//! ```

use fettle_model::digest::Digest;
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    key::PublicKey,
    signature::{self, Bundle, Rejection, Signer, TrustedRoot, What},
};

/// Largest attestation, in bytes. Larger ones are not fetched.
pub const ATTESTATION_LIMIT: u64 = 16 << 20;

/// An attestation as it was fetched. Nothing in it is believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttestationEvidence {
    digest: Digest,
    bundle: Bundle,
}

/// A statement about an artifact whose signature holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attestation {
    /// Who stated it.
    pub signer: Signer,
    /// Which kind of statement: a URI such as `https://spdx.dev/Document`.
    pub predicate_type: String,
    /// What was stated.
    pub predicate: Value,
    /// When a log or a timestamp authority saw it, if that is proven.
    pub integrated_time: Option<Timestamp>,
}

impl AttestationEvidence {
    pub(crate) const fn new(digest: Digest, bundle: Bundle) -> Self {
        Self { digest, bundle }
    }

    /// The digest of the bundle's bytes: its name in the registry.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// The bundle's bytes, as other tools read them.
    #[must_use]
    pub fn bundle(&self) -> &[u8] {
        self.bundle.as_bytes()
    }

    /// Checks who stated this, by the rules of [`crate::Evidence::statement_by`], and that it is about
    /// exactly `artifact`.
    ///
    /// # Errors
    /// Why it is worth nothing.
    pub fn statement_by(
        &self,
        artifact: Digest,
        keys: &[PublicKey],
        root: Option<&TrustedRoot>,
    ) -> Result<Attestation, Rejection> {
        let vouched = self.bundle.vouched(artifact, keys, root)?;
        let What::Statement(statement) = vouched.what else {
            return Err(Rejection::Unreadable("it is a signature without a statement".to_owned()));
        };
        signature::about(artifact, statement.subject, &vouched.signer)?;
        Ok(Attestation {
            signer: vouched.signer,
            predicate_type: statement.predicate_type,
            predicate: statement.predicate,
            integrated_time: vouched.time,
        })
    }
}
