//! The trust policy as a document.

use std::{collections::BTreeMap, num::NonZeroU64};

use fettle_model::{canonical, digest::Digest, document};
use serde::{Deserialize, Deserializer, Serialize};

use super::{check, error::TrustPolicyError, rule::Rule, version::Version};
use crate::{key::PublicKey, kind::ArtifactKind};

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
///
/// `policies/trust` has whole ones.
///
/// It cannot be had unchecked: the document alone is read by serde.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct TrustPolicy {
    document: Document,
    #[serde(skip)]
    digest: Digest,
}

/// A trust policy as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    /// Grows with every change; a policy takes another one's place only with a higher one.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(super) revision: Option<NonZeroU64>,
    /// Who may sign steps.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(super) step: Option<Requirement>,
    /// Who may sign catalogs.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(super) catalog: Option<Requirement>,
    /// Who may sign operation definitions.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(super) definition: Option<Requirement>,
    /// Who may sign policy bundles.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(super) policy_bundle: Option<Requirement>,
    /// Who may sign which policy bundles count.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(super) policy_activation: Option<Requirement>,
    /// Who may sign the policy that takes this one's place.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(super) trust_policy: Option<Requirement>,
    /// What is refused, whoever signed it.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(super) deny: Option<Vec<Denial>>,
}

/// What one kind of artifact needs. With both lists, both must be met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Requirement {
    /// Each of these, by a signer of its own.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(super) all_of: Option<Vec<Rule>>,
    /// Some of these.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(super) any_of: Option<Vec<Rule>>,
    /// How many of `anyOf`, each by a signer of its own; 1 when absent.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(super) minimum_matches: Option<usize>,
    /// Which versions count.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(super) versions: Option<Versions>,
}

/// Which versions count, so that an old artifact with a hole in it does not come back with its old,
/// good signature. Names and versions are what a signature says in `fettle.name` and `fettle.version`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Versions {
    /// The lowest, by name.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(super) minimum: Option<BTreeMap<String, Version>>,
    /// Nothing older than the newest that this machine has accepted under the same name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) never_older: bool,
}

/// One digest that is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Denial {
    /// Of a manifest, or of what is in it.
    pub(super) digest: Digest,
    /// For whoever meets the refusal.
    pub(super) reason: String,
}

/// A field that may be absent and may not be empty: `allOf:` with nothing after it is a slip, and must
/// not read as "nothing asked for".
pub(super) fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

impl TrustPolicy {
    /// Reads YAML or JSON text.
    ///
    /// # Errors
    /// When it has another form, unknown fields, an empty list, a threshold that cannot be right, or one
    /// signer twice for one kind.
    pub fn read(text: &str) -> Result<Self, TrustPolicyError> {
        Self::checked(document::read(text).map_err(TrustPolicyError::Document)?)
    }

    /// The same named keys for all kinds.
    ///
    /// # Errors
    /// When there are none, or one twice.
    pub fn any_of(keys: impl IntoIterator<Item = (String, PublicKey)>) -> Result<Self, TrustPolicyError> {
        let rule = |(name, key)| Rule::PublicKey { name, key, annotations: None };
        let any_of = Some(keys.into_iter().map(rule).collect());
        let all = Some(Requirement { all_of: None, any_of, minimum_matches: None, versions: None });
        Self::checked(Document {
            step: all.clone(),
            catalog: all.clone(),
            definition: all.clone(),
            policy_bundle: all.clone(),
            policy_activation: all.clone(),
            trust_policy: all,
            ..Document::default()
        })
    }

    pub(super) fn checked(document: Document) -> Result<Self, TrustPolicyError> {
        check::check(&document)?;
        let bytes = canonical::to_bytes(&document).map_err(TrustPolicyError::NotCanonical)?;
        Ok(Self { document, digest: Digest::of(&bytes) })
    }

    pub(super) const fn document(&self) -> &Document {
        &self.document
    }

    /// Its revision; 0 for one that has none.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.document.revision.map_or(0, NonZeroU64::get)
    }

    /// The digest of its canonical form: which policy a verdict was reached with.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// What each kind needs, in words; kinds that nobody may sign are absent.
    #[must_use]
    pub fn in_words(&self) -> BTreeMap<&'static str, String> {
        let words = |kind: ArtifactKind| Some((kind.name(), self.requirement(kind)?.in_words()));
        ArtifactKind::ALL.into_iter().filter_map(words).collect()
    }

    /// Digests that are refused, and why.
    pub fn denied(&self) -> impl Iterator<Item = (Digest, &str)> {
        self.document.deny.iter().flatten().map(|denial| (denial.digest, denial.reason.as_str()))
    }

    pub(super) const fn requirement(&self, kind: ArtifactKind) -> Option<&Requirement> {
        self.document.requirement(kind)
    }

    /// The keys that the rules of a kind name.
    pub(super) fn keys(&self, kind: ArtifactKind) -> Vec<PublicKey> {
        self.requirement(kind).map(|needed| needed.rules().filter_map(Rule::key).cloned().collect()).unwrap_or_default()
    }

    /// Why a digest is refused, if it is.
    pub(super) fn denial(&self, digest: Digest) -> Option<&str> {
        self.denied().find(|(denied, _)| *denied == digest).map(|(_, reason)| reason)
    }
}

impl Document {
    pub(super) const fn requirement(&self, kind: ArtifactKind) -> Option<&Requirement> {
        match kind {
            ArtifactKind::Step => self.step.as_ref(),
            ArtifactKind::Catalog => self.catalog.as_ref(),
            ArtifactKind::Definition => self.definition.as_ref(),
            ArtifactKind::PolicyBundle => self.policy_bundle.as_ref(),
            ArtifactKind::PolicyActivation => self.policy_activation.as_ref(),
            ArtifactKind::TrustPolicy => self.trust_policy.as_ref(),
        }
    }

    pub(super) const fn requirement_mut(&mut self, kind: ArtifactKind) -> &mut Option<Requirement> {
        match kind {
            ArtifactKind::Step => &mut self.step,
            ArtifactKind::Catalog => &mut self.catalog,
            ArtifactKind::Definition => &mut self.definition,
            ArtifactKind::PolicyBundle => &mut self.policy_bundle,
            ArtifactKind::PolicyActivation => &mut self.policy_activation,
            ArtifactKind::TrustPolicy => &mut self.trust_policy,
        }
    }
}

impl Requirement {
    pub(super) fn all_of(&self) -> &[Rule] {
        self.all_of.as_deref().unwrap_or_default()
    }

    pub(super) fn any_of(&self) -> &[Rule] {
        self.any_of.as_deref().unwrap_or_default()
    }

    /// All rules: first those of `allOf`.
    pub(super) fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.all_of().iter().chain(self.any_of())
    }

    /// How many of `anyOf`.
    pub(super) fn threshold(&self) -> usize {
        if self.any_of.is_some() { self.minimum_matches.unwrap_or(1) } else { 0 }
    }

    pub(super) fn in_words(&self) -> String {
        let list = |rules: &[Rule]| rules.iter().map(Rule::to_string).collect::<Vec<_>>().join(", ");
        let mut words = Vec::new();
        if let Some(rules) = &self.all_of {
            words.push(format!("all of {}", list(rules)));
        }
        if let Some(rules) = &self.any_of {
            words.push(format!("{} of {}", self.threshold(), list(rules)));
        }
        if let Some(versions) = &self.versions {
            let minimum = versions.minimum.iter().flatten().map(|(name, version)| format!("`{name}` from {version}"));
            let older = versions.never_older.then(|| "never older than what was seen".to_owned());
            words.push(format!("versions: {}", minimum.chain(older).collect::<Vec<_>>().join(", ")));
        }
        words.join("; and ")
    }
}
