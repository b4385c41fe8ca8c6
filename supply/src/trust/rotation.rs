//! Newer trust policies. Each takes effect only if it is signed as the one before it demands of the kind
//! `trust_policy`, and has a higher revision.
//!
//! The configured file is where trust begins. Every activated policy is kept as a link: the policy, its
//! manifest and its signatures. Whenever the links are read, all of them are verified again, one after
//! the other from the configured file on, so a file that somebody put there is worth what its signatures
//! are. Links whose revision is not above the configured policy's are passed over: an administrator can
//! always go on from a newer file.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use fettle_model::{digest::Digest, reference::Reference};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::{TrustPolicyError, evaluate::Seen, policy::TrustPolicy};
use crate::{
    error::SupplyError,
    kind::ArtifactKind,
    manifest::Manifest,
    mutation::{Protection, off},
    registry::check_canonical,
    signature::{Evidence, TrustedRoot},
    store::{StoreError, make_directory, write_file},
};

/// Largest link, in bytes: a manifest, a policy and its signatures.
const LINK_LIMIT: u64 = 8 << 20;
const ENDING: &str = ".json";

/// Why a trust policy does not take another one's place.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RotationError {
    /// The current one does not accept it.
    #[error("the current trust policy (revision {current}) does not accept its successor")]
    NotAccepted {
        /// Revision of the current one.
        current: u64,
        /// Why not.
        #[source]
        source: Box<SupplyError>,
    },
    /// It cannot be fetched.
    #[error(transparent)]
    Fetch(Box<SupplyError>),
    /// It is older, or the same.
    #[error(
        "{reference} has revision {revision}, and the current trust policy has {current}; publish one with a higher"
    )]
    NotNewer {
        /// The refused one.
        reference: Reference,
        /// Its revision.
        revision: u64,
        /// The current one's.
        current: u64,
    },
    /// It is signed, and no trust policy.
    #[error("{reference} is no trust policy that can be used")]
    NotAPolicy {
        /// The refused one.
        reference: Reference,
        /// What is wrong with it.
        #[source]
        source: Arc<TrustPolicyError>,
    },
    /// A link is not what was written.
    #[error(
        "{} is not what an activation wrote ({problem}); remove it to go back to the policy before it, and find out \
         who changed it", path.display()
    )]
    Changed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The files cannot be used.
    #[error("cannot keep or read activated trust policies")]
    Store(#[source] StoreError),
    /// It is not known which policy it would follow.
    #[error("the current trust policy cannot be read")]
    NoCurrent(#[source] Arc<super::TrustError>),
    /// The source of trust has no directory.
    #[error("there is no data directory to activate a trust policy in; name one")]
    NoDirectory,
}

/// A policy that took effect.
#[derive(Clone, Debug, Serialize)]
pub struct Activation {
    /// Its revision.
    pub revision: u64,
    /// The artifact.
    pub reference: Reference,
    /// Who signed it, of those who counted.
    pub signed_by: Vec<String>,
}

/// A policy with everything that proves it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Link {
    reference: Reference,
    manifest: String,
    policy: String,
    signatures: Vec<Evidence>,
}

impl Link {
    /// Takes the parts of an artifact; [`Self::follow`] verifies them.
    pub(crate) fn new(reference: Reference, manifest: &[u8], policy: &[u8], signatures: Vec<Evidence>) -> Self {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        Self { reference, manifest: text(manifest), policy: text(policy), signatures }
    }

    /// The policy, if it may take the place of `current`.
    fn follow(
        &self,
        current: &TrustPolicy,
        root: Option<&TrustedRoot>,
    ) -> Result<(TrustPolicy, Activation), RotationError> {
        let not_accepted =
            |source| RotationError::NotAccepted { current: current.revision(), source: Box::new(source) };
        let malformed = |reason| not_accepted(SupplyError::Malformed { artifact: self.reference.to_string(), reason });
        let kind = ArtifactKind::TrustPolicy;
        let signed_by = match current.verify(kind, &self.reference, &self.signatures, root, &Seen::new()) {
            Ok(accepted) => accepted.signers.iter().map(ToString::to_string).collect(),
            Err(_) if off(Protection::RotationIsSigned) => Vec::new(),
            Err(error) => return Err(not_accepted(error)),
        };
        let manifest = self.manifest.as_bytes();
        check_digest("manifest", self.reference.digest, manifest).map_err(malformed)?;
        let manifest = Manifest::parse(manifest).map_err(malformed)?;
        let layer = manifest.layer_of(kind).map_err(malformed)?;
        check_digest("layer", layer.digest, self.policy.as_bytes()).map_err(malformed)?;
        check_canonical(self.policy.as_bytes()).map_err(malformed)?;
        let not_a_policy =
            |source| RotationError::NotAPolicy { reference: self.reference.clone(), source: Arc::new(source) };
        let policy = TrustPolicy::read(&self.policy).map_err(not_a_policy)?;
        let (revision, current) = (policy.revision(), current.revision());
        if revision <= current && !off(Protection::RotationIsNewer) {
            return Err(RotationError::NotNewer { reference: self.reference.clone(), revision, current });
        }
        Ok((policy, Activation { revision, reference: self.reference.clone(), signed_by }))
    }
}

fn check_digest(what: &str, expected: Digest, content: &[u8]) -> Result<(), crate::error::Defect> {
    let actual = Digest::of(content);
    if actual == expected {
        return Ok(());
    }
    Err(crate::error::Defect::ChangedBytes { what: what.to_owned(), expected, actual })
}

/// Where a data directory keeps its links.
pub(super) fn directory(data: &Path) -> PathBuf {
    data.join("trust")
}

/// The policy in force, and how it came to be.
pub(super) fn follow(
    directory: &Path,
    configured: TrustPolicy,
    root: Option<&TrustedRoot>,
) -> Result<(TrustPolicy, Vec<Activation>), RotationError> {
    let begins = configured.revision();
    let (mut policy, mut activations) = (configured, Vec::new());
    let newer = |(revision, _): &(u64, PathBuf)| *revision > begins || off(Protection::RotationIsNewer);
    for (revision, path) in links(directory)?.into_iter().filter(newer) {
        let changed = |problem: String| RotationError::Changed { path: path.clone(), problem };
        let link: Link = serde_json::from_slice(&read_link(&path)?).map_err(|error| changed(error.to_string()))?;
        let (next, activation) = link.follow(&policy, root)?;
        if activation.revision != revision {
            return Err(changed(format!("it holds revision {}", activation.revision)));
        }
        policy = next;
        activations.push(activation);
    }
    Ok((policy, activations))
}

/// Adds a link. `current` is asked for under the lock, so that two activations cannot both follow the
/// same policy.
pub(crate) fn activate(
    directory: &Path,
    link: &Link,
    current: impl FnOnce() -> Result<(TrustPolicy, Option<TrustedRoot>), RotationError>,
) -> Result<Activation, RotationError> {
    make_directory(directory).map_err(RotationError::Store)?;
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source: io::Error| RotationError::Store(StoreError::Io { path: path.clone(), source: Arc::new(source) })
    };
    let lock = directory.join("lock");
    let file = fs::File::create(&lock).map_err(at(&lock))?;
    flock(&file, FlockOperation::LockExclusive).map_err(|error| at(&lock)(error.into()))?;
    let (current, root) = current()?;
    let (_, activation) = link.follow(&current, root.as_ref())?;
    let content = serde_json::to_vec(link).map_err(|error| at(directory)(error.into()))?;
    // Named so that they sort by revision. Whole or not at all: a crash leaves the policy before it.
    let name = format!("{:020}{ENDING}", activation.revision);
    write_file(directory, &name, &content).map_err(RotationError::Store)?;
    tracing::warn!(
        revision = activation.revision, reference = %activation.reference, signed_by = ?activation.signed_by,
        "a new trust policy takes effect"
    );
    Ok(activation)
}

/// The links by revision, lowest first.
fn links(directory: &Path) -> Result<Vec<(u64, PathBuf)>, RotationError> {
    let failed = |source| RotationError::Store(StoreError::Io { path: directory.to_owned(), source: Arc::new(source) });
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let revision = name.to_str().and_then(|name| name.strip_suffix(ENDING)).and_then(|text| text.parse().ok());
        if let Some(revision) = revision {
            found.push((revision, entry.path()));
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn read_link(path: &Path) -> Result<Vec<u8>, RotationError> {
    // A link, a device or a huge file is discarded by the store's reader; here it must not vanish silently.
    let metadata = fs::symlink_metadata(path)
        .map_err(|source| RotationError::Store(StoreError::Io { path: path.to_owned(), source: Arc::new(source) }))?;
    let changed = |problem: &str| RotationError::Changed { path: path.to_owned(), problem: problem.to_owned() };
    if !metadata.is_file() {
        return Err(changed("it is not a plain file"));
    }
    let content = crate::store::read_file(path, LINK_LIMIT).map_err(RotationError::Store)?;
    content.ok_or_else(|| changed("it is too large, or not a plain file"))
}
