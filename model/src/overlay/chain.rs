//! One answer from three overlays.
//!
//! The most specific scope that says something wins, key by key. What the platform says is a bound that
//! nobody goes beyond: an overlay of a tenant or a project can only be narrower. `enabled: false` of the
//! platform is final. Only `max_concurrency` is no contest: each scope counts its own operations, and all
//! numbers hold at once.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Key, Level, Overlay, Source, TargetKind};

/// The overlays of one operation type. What is absent says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// Of the platform.
    pub global: Overlay,
    /// Of the tenant.
    pub tenant: Overlay,
    /// Of the project.
    pub project: Overlay,
}

/// What holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effective {
    /// Whether operations are accepted.
    pub enabled: bool,
    /// How many may be under way at once.
    pub max_concurrency: Concurrency,
    /// The longest that one may take; none is as long as its steps may.
    pub timeout_seconds: Option<u32>,
    /// Where artifacts may come from; none is wherever the definition allows.
    pub allowed_artifact_sources: Option<BTreeSet<Source>>,
    /// What an operation may be for; none is anything.
    pub allowed_target_kinds: Option<BTreeSet<TargetKind>>,
    /// Whether the definition must demand signed artifacts.
    pub require_signature_verification: bool,
    /// The most that a definition may allow as the size of an artifact; none is any size.
    pub max_artifact_size_bytes: Option<u64>,
}

/// How many operations of the type may be under way at once, in each scope: what a scope says counts there, and all
/// that was said holds. None is as many as there are nodes for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Concurrency {
    /// Everywhere, as the platform says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global: Option<u32>,
    /// In the tenant, as it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<u32>,
    /// In the project, as it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<u32>,
}

/// Why a key has the value that it has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explained {
    /// The key.
    pub key: Key,
    /// The value; null where nothing bounds.
    pub value: Value,
    /// Whose word it is: one scope, the platform and a narrower one where both have a part in it, all that
    /// limit concurrency, or nobody when the value is the default.
    pub decided_by: Vec<Level>,
    /// What else was said.
    pub lost: Vec<Lost>,
}

/// A value that does not hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lost {
    /// Who said it.
    pub level: Level,
    /// What.
    pub value: Value,
    /// Why it does not hold.
    pub why: Why,
}

/// Why a value does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The platform denies, and nobody lifts that.
    HardDenied,
    /// It goes beyond what the platform says.
    BeyondGlobal,
    /// A more specific scope says something else.
    LessSpecific,
}

impl Why {
    /// The reason for people.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::HardDenied => "the platform denies the type, which nobody else can lift",
            Self::BeyondGlobal => "goes beyond what the platform allows",
            Self::LessSpecific => "a more specific scope decides",
        }
    }
}

/// What holds, and why: one entry for each key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resolved {
    /// What holds.
    pub effective: Effective,
    /// Why, in the order of [`Key::ALL`].
    pub keys: Vec<Explained>,
}

/// A value of a key, and what the platform and a narrower scope make of theirs together.
trait Bound: Clone + PartialEq + Serialize {
    /// The part of `narrower` that lies within this value of the platform.
    fn within(&self, narrower: &Self) -> Self;

    /// Why a value lost that the platform did not let pass whole.
    const REFUSED: Why = Why::BeyondGlobal;
}

/// Whether the type is enabled.
#[derive(Clone, Copy, PartialEq, Serialize)]
#[serde(transparent)]
struct Enabled(bool);

/// Whether signatures are required.
#[derive(Clone, Copy, PartialEq, Serialize)]
#[serde(transparent)]
struct Required(bool);

impl Bound for Enabled {
    fn within(&self, narrower: &Self) -> Self {
        Self(self.0 && narrower.0)
    }

    const REFUSED: Why = Why::HardDenied;
}

impl Bound for Required {
    fn within(&self, narrower: &Self) -> Self {
        Self(self.0 || narrower.0)
    }
}

impl Bound for u32 {
    fn within(&self, narrower: &Self) -> Self {
        *self.min(narrower)
    }
}

impl Bound for u64 {
    fn within(&self, narrower: &Self) -> Self {
        *self.min(narrower)
    }
}

impl Bound for BTreeSet<Source> {
    fn within(&self, narrower: &Self) -> Self {
        self.iter().flat_map(|wide| narrower.iter().filter_map(|narrow| wide.and(narrow))).cloned().collect()
    }
}

impl Bound for BTreeSet<TargetKind> {
    fn within(&self, narrower: &Self) -> Self {
        self.intersection(narrower).copied().collect()
    }
}

fn json<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// The value of one key, and why.
fn decide<T: Bound>(key: Key, said: [Option<T>; 3], keys: &mut Vec<Explained>) -> Option<T> {
    let [global, tenant, project] = said;
    let mut lost = Vec::new();
    let specific = match (tenant, project) {
        (Some(tenant), Some(project)) => {
            lost.push(Lost { level: Level::Tenant, value: json(&tenant), why: Why::LessSpecific });
            Some((Level::Project, project))
        }
        (None, Some(project)) => Some((Level::Project, project)),
        (Some(tenant), None) => Some((Level::Tenant, tenant)),
        (None, None) => None,
    };
    let (value, decided_by) = match (global, specific) {
        (None, None) => (None, Vec::new()),
        (Some(global), None) => (Some(global), vec![Level::Global]),
        (None, Some((level, value))) => (Some(value), vec![level]),
        (Some(global), Some((level, asked))) => {
            let value = global.within(&asked);
            let decided_by = if value == asked {
                lost.push(Lost { level: Level::Global, value: json(&global), why: Why::LessSpecific });
                vec![level]
            } else {
                lost.push(Lost { level, value: json(&asked), why: T::REFUSED });
                if value == global { vec![Level::Global] } else { vec![Level::Global, level] }
            };
            // Both said the same: nothing of it was lost.
            lost.retain(|lost| lost.level != Level::Global || lost.value != json(&value));
            (Some(value), decided_by)
        }
    };
    keys.push(Explained { key, value: json(&value), decided_by, lost });
    value
}

/// The numbers of all scopes: each holds where it was said, so nothing of them is lost.
fn count(said: [Option<u32>; 3], keys: &mut Vec<Explained>) -> Concurrency {
    let levels = [Level::Global, Level::Tenant, Level::Project].into_iter().zip(said);
    let decided_by: Vec<Level> = levels.filter_map(|(level, said)| said.map(|_| level)).collect();
    let [global, tenant, project] = said;
    let numbers = Concurrency { global, tenant, project };
    let value = if decided_by.is_empty() { Value::Null } else { json(&numbers) };
    keys.push(Explained { key: Key::MaxConcurrency, value, decided_by, lost: Vec::new() });
    numbers
}

/// What holds for an operation type. Pure, and total: there is always an answer.
#[must_use]
pub fn resolve(chain: &Chain) -> Resolved {
    let overlays = [&chain.global, &chain.tenant, &chain.project];
    let mut keys = Vec::with_capacity(Key::ALL.len());
    let found = &mut keys;
    let enabled = decide(Key::Enabled, overlays.map(|one| one.enabled.map(Enabled)), found);
    let max_concurrency = count(overlays.map(|one| one.max_concurrency.map(u32::from)), found);
    let timeout_seconds = decide(Key::TimeoutSeconds, overlays.map(|one| one.timeout_seconds.map(u32::from)), found);
    let allowed_artifact_sources =
        decide(Key::AllowedArtifactSources, overlays.map(|one| one.allowed_artifact_sources.clone()), found);
    let allowed_target_kinds =
        decide(Key::AllowedTargetKinds, overlays.map(|one| one.allowed_target_kinds.clone()), found);
    let required = overlays.map(|one| one.require_signature_verification.map(Required));
    let required = decide(Key::RequireSignatureVerification, required, found);
    let sizes = overlays.map(|one| one.max_artifact_size_bytes.map(u64::from));
    let max_artifact_size_bytes = decide(Key::MaxArtifactSizeBytes, sizes, found);
    let effective = Effective {
        enabled: enabled.is_none_or(|enabled| enabled.0),
        max_concurrency,
        timeout_seconds,
        allowed_artifact_sources,
        allowed_target_kinds,
        require_signature_verification: required.is_some_and(|required| required.0),
        max_artifact_size_bytes,
    };
    for explained in &mut keys {
        match explained.key {
            Key::Enabled => explained.value = effective.enabled.into(),
            Key::RequireSignatureVerification => explained.value = effective.require_signature_verification.into(),
            _ => {}
        }
    }
    Resolved { effective, keys }
}

impl Resolved {
    /// Why a key has its value.
    #[must_use]
    pub fn of(&self, key: Key) -> Option<&Explained> {
        self.keys.iter().find(|explained| explained.key == key)
    }
}

impl Chain {
    /// The overlay of a scope.
    #[must_use]
    pub const fn at(&mut self, level: Level) -> &mut Overlay {
        match level {
            Level::Global => &mut self.global,
            Level::Tenant => &mut self.tenant,
            Level::Project => &mut self.project,
        }
    }
}
