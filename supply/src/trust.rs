//! Whose signatures count, per kind of artifact.

use fettle_model::{document, reference::Reference};
use serde::{Deserialize, Serialize};

use crate::{
    error::{Defect, Distrust, SupplyError},
    key::{KeyId, PublicKey},
    kind::ArtifactKind,
    signature::AttachedSignature,
};

/// An administrator's decision on whose signatures count. A kind that is absent is trusted from
/// nobody.
///
/// ```yaml
/// step:
///   anyOf:
///     - kind: publicKey
///       name: platform-team
///       key: |
///         -----BEGIN PUBLIC KEY-----
///         ...
///         -----END PUBLIC KEY-----
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustPolicy {
    /// Who may sign steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    step: Option<Requirement>,
    /// Who may sign catalogs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    catalog: Option<Requirement>,
    /// Who may sign operation definitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    definition: Option<Requirement>,
    /// Who may sign policy bundles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    policy_bundle: Option<Requirement>,
}

/// Which signers suffice for one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Requirement {
    /// One of these suffices.
    #[serde(rename = "anyOf")]
    any_of: Vec<Signer>,
}

/// One signer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", deny_unknown_fields)]
enum Signer {
    /// Whoever holds the private half of a key.
    PublicKey {
        /// For messages and audit.
        name: String,
        /// PEM.
        key: PublicKey,
    },
}

/// Why a trust policy is refused.
#[derive(Debug, thiserror::Error)]
pub enum TrustPolicyError {
    /// It cannot be read.
    #[error("the trust policy cannot be read: {0}")]
    Document(#[source] document::DocumentError),
    /// It names no kind.
    #[error("the trust policy names no signer for any kind; add at least one of `step`, `catalog`, `definition`, `policy_bundle`")]
    Empty,
    /// A kind without signers: it would be unclear whether all or none is meant.
    #[error("the trust policy has an empty list of signers for `{0}`; name a signer, or leave the kind out to trust nobody")]
    NoSigner(&'static str),
    /// One signer twice.
    #[error("the trust policy names the key of `{second}` for `{kind}` already as `{first}`; name each key once")]
    Twice {
        /// Which kind.
        kind: &'static str,
        /// The earlier name.
        first: String,
        /// The later name.
        second: String,
    },
}

impl TrustPolicy {
    /// Reads YAML or JSON text.
    ///
    /// # Errors
    /// When it has another form, unknown fields, no signers, or one signer twice for one kind.
    pub fn read(text: &str) -> Result<Self, TrustPolicyError> {
        let policy: Self = document::read(text).map_err(TrustPolicyError::Document)?;
        policy.check()?;
        Ok(policy)
    }

    /// The same named keys for all kinds.
    ///
    /// # Errors
    /// When there are none, or one twice.
    pub fn any_of(keys: impl IntoIterator<Item = (String, PublicKey)>) -> Result<Self, TrustPolicyError> {
        let any_of = keys.into_iter().map(|(name, key)| Signer::PublicKey { name, key }).collect();
        let all = Some(Requirement { any_of });
        let policy =
            Self { step: all.clone(), catalog: all.clone(), definition: all.clone(), policy_bundle: all };
        policy.check()?;
        Ok(policy)
    }

    fn check(&self) -> Result<(), TrustPolicyError> {
        if ArtifactKind::ALL.iter().all(|kind| self.requirement(*kind).is_none()) {
            return Err(TrustPolicyError::Empty);
        }
        for kind in ArtifactKind::ALL {
            let Some(Requirement { any_of }) = self.requirement(kind) else { continue };
            if any_of.is_empty() {
                return Err(TrustPolicyError::NoSigner(kind.name()));
            }
            for (index, Signer::PublicKey { name, key }) in any_of.iter().enumerate() {
                let same = |signer: &&Signer| matches!(signer, Signer::PublicKey { key: other, .. } if other == key);
                if let Some(Signer::PublicKey { name: first, .. }) = any_of.iter().take(index).find(same) {
                    let (first, second) = (first.clone(), name.clone());
                    return Err(TrustPolicyError::Twice { kind: kind.name(), first, second });
                }
            }
        }
        Ok(())
    }

    const fn requirement(&self, kind: ArtifactKind) -> Option<&Requirement> {
        match kind {
            ArtifactKind::Step => self.step.as_ref(),
            ArtifactKind::Catalog => self.catalog.as_ref(),
            ArtifactKind::Definition => self.definition.as_ref(),
            ArtifactKind::PolicyBundle => self.policy_bundle.as_ref(),
        }
    }

    /// Finds a signature that suffices for an artifact.
    ///
    /// # Errors
    /// `Unsigned` without signatures, `Untrusted` when none is by a trusted key over this digest,
    /// `Malformed` when the only ones by trusted keys cannot be read.
    pub fn verify(
        &self,
        kind: ArtifactKind,
        reference: &Reference,
        signatures: &[AttachedSignature],
    ) -> Result<KeyId, SupplyError> {
        let artifact = reference.to_string();
        let Some(Requirement { any_of }) = self.requirement(kind) else {
            return Err(SupplyError::Untrusted { artifact, reason: Distrust::KindNotTrusted(kind) });
        };
        if signatures.is_empty() {
            return Err(SupplyError::Unsigned { artifact, kind });
        }
        let mut nearest: Option<SupplyError> = None;
        for signature in signatures {
            // The payload is parsed only after a trusted key has vouched for its bytes.
            let by = |signer: &&Signer| matches!(signer, Signer::PublicKey { key, .. } if signature.is_by(key));
            let Some(Signer::PublicKey { name, key }) = any_of.iter().find(by) else { continue };
            match signature.subject() {
                Ok(digest) if digest == reference.digest => return Ok(key.id()),
                Ok(other) => {
                    let reason = Distrust::OtherDigest { signer: name.clone(), signed: other.to_string() };
                    nearest = Some(SupplyError::Untrusted { artifact: artifact.clone(), reason });
                }
                Err(reason) => nearest = nearest.or(Some(malformed(&artifact, reason))),
            }
        }
        Err(nearest.unwrap_or_else(|| {
            let trusted = any_of.iter().map(Signer::shown).collect::<Vec<_>>().join(", ");
            let reason = Distrust::OtherKeys { kind, signatures: signatures.len(), trusted };
            SupplyError::Untrusted { artifact, reason }
        }))
    }
}

fn malformed(artifact: &str, reason: Defect) -> SupplyError {
    SupplyError::Malformed { artifact: artifact.to_owned(), reason }
}

impl Signer {
    fn shown(&self) -> String {
        let Self::PublicKey { name, key } = self;
        format!("`{name}` ({})", key.id())
    }
}
