//! Where the policy in force comes from, and when it changes.
//!
//! A deny list that counts only after a restart counts too late, so files are looked at whenever an
//! artifact is asked for: a changed one is read again before anything is decided. One that has become
//! unreadable refuses everything until it is mended; the policy before it may be the very one that had
//! to go.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use fettle_model::digest::Digest;

use super::{
    TrustPolicyError,
    policy::TrustPolicy,
    rotation::{self, Activation, RotationError},
};
use crate::signature::{TrustedRoot, TrustedRootError};

/// Why it is not known whose signatures count.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// A file cannot be read.
    #[error("cannot read {}; nothing is trusted until it can be", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The error below.
        #[source]
        source: io::Error,
    },
    /// The policy is not valid.
    #[error("the trust policy {} cannot be used; nothing is trusted until it is mended", path.display())]
    Policy {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: TrustPolicyError,
    },
    /// The trusted root is not valid.
    #[error("the trusted root {} cannot be used; nothing is trusted until it is mended", path.display())]
    Root {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: TrustedRootError,
    },
    /// An activated policy does not follow from the configured one.
    #[error("a trust policy that was activated cannot be used; nothing is trusted until that is mended")]
    Rotation(#[source] RotationError),
}

/// Whose signatures count: a policy, and what proves identities.
#[derive(Clone, Debug)]
pub struct Trust {
    policy: TrustPolicy,
    digest: Digest,
    root: Option<TrustedRoot>,
    activations: Vec<Activation>,
}

impl Trust {
    /// Puts one together.
    #[must_use]
    pub fn new(policy: TrustPolicy, root: Option<TrustedRoot>) -> Self {
        let of_root = root.as_ref().map_or([0; 32], |root| *root.digest().as_bytes());
        let digest = Digest::of(&[*policy.digest().as_bytes(), of_root].concat());
        Self { policy, digest, root, activations: Vec::new() }
    }

    /// The policy in force.
    #[must_use]
    pub const fn policy(&self) -> &TrustPolicy {
        &self.policy
    }

    /// What proves identities.
    #[must_use]
    pub const fn root(&self) -> Option<&TrustedRoot> {
        self.root.as_ref()
    }

    /// How the configured policy became the one in force, oldest first.
    #[must_use]
    pub fn activations(&self) -> &[Activation] {
        &self.activations
    }

    /// One name for policy and root together: whoever keeps what was verified keeps it for this only.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }
}

/// Where [`Trust`] comes from. Cheap to clone.
#[derive(Clone, Debug)]
pub enum TrustSource {
    /// It does not change.
    Fixed(Arc<Trust>),
    /// It is in files, and may change at any time.
    Files(Arc<TrustFiles>),
}

impl TrustSource {
    /// What is trusted now.
    ///
    /// # Errors
    /// When a file cannot be read, or says what it must not.
    pub fn current(&self) -> Result<Arc<Trust>, TrustError> {
        match self {
            Self::Fixed(trust) => Ok(Arc::clone(trust)),
            Self::Files(files) => files.current(),
        }
    }
}

/// Without anything that could prove an identity.
impl From<TrustPolicy> for TrustSource {
    fn from(policy: TrustPolicy) -> Self {
        Trust::from(policy).into()
    }
}

impl From<TrustPolicy> for Trust {
    fn from(policy: TrustPolicy) -> Self {
        Self::new(policy, None)
    }
}

impl From<Trust> for TrustSource {
    fn from(trust: Trust) -> Self {
        Self::Fixed(Arc::new(trust))
    }
}

impl From<TrustFiles> for TrustSource {
    fn from(files: TrustFiles) -> Self {
        Self::Files(Arc::new(files))
    }
}

/// The files of an administrator: a trust policy, a trusted root where identities count, and a data
/// directory where newer policies are activated.
#[derive(Debug)]
pub struct TrustFiles {
    policy: PathBuf,
    root: Option<PathBuf>,
    directory: Option<PathBuf>,
    loaded: Mutex<Option<Loaded>>,
}

/// How long the files may change without their times showing it: more than a tick of the file system.
const TICK: Duration = Duration::from_millis(100);

/// What was read, and how the files looked just before.
#[derive(Debug)]
struct Loaded {
    stamps: Vec<Stamp>,
    /// When the files were first seen to look so.
    since: Instant,
    /// Read again after that for long enough: a later change shows.
    settled: bool,
    trust: Arc<Trust>,
}

/// What changes whenever a file or a directory does.
type Stamp = Option<(u64, u64, u64, i64, i64, i64, i64)>;

impl TrustFiles {
    /// Names the files. Nothing is read yet.
    #[must_use]
    pub fn new(policy: PathBuf, root: Option<PathBuf>, directory: Option<PathBuf>) -> Self {
        Self { policy, root, directory: directory.map(|data| rotation::directory(&data)), loaded: Mutex::new(None) }
    }

    /// What is trusted now; read again when a file has changed.
    ///
    /// # Errors
    /// When a file cannot be read, or says what it must not.
    pub fn current(&self) -> Result<Arc<Trust>, TrustError> {
        // Taken before the files are read: what changes meanwhile is read again next time.
        let stamps = self.stamps();
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let before = loaded.take().filter(|before| before.stamps == stamps);
        if let Some(settled) = before.as_ref().filter(|before| before.settled) {
            let trust = Arc::clone(&settled.trust);
            *loaded = before;
            return Ok(trust);
        }
        let since = before.as_ref().map_or_else(Instant::now, |before| before.since);
        let settled = since.elapsed() > TICK;
        let mut trust = Arc::new(self.load()?);
        match before {
            Some(before) if before.trust.digest() == trust.digest() => trust = before.trust,
            _ => tracing::info!(
                policy = %trust.policy.digest(), revision = trust.policy.revision(), file = %self.policy.display(),
                "the trust policy was read"
            ),
        }
        *loaded = Some(Loaded { stamps, since, settled, trust: Arc::clone(&trust) });
        Ok(trust)
    }

    /// Puts a newer policy in force, if it follows from the current one.
    pub(crate) fn activate(&self, link: &rotation::Link) -> Result<Activation, RotationError> {
        let directory = self.directory.as_deref().ok_or(RotationError::NoDirectory)?;
        rotation::activate(directory, link, || {
            let trust = self.load().map_err(|error| RotationError::NoCurrent(Arc::new(error)))?;
            Ok((trust.policy, trust.root))
        })
    }

    fn load(&self) -> Result<Trust, TrustError> {
        let configured = TrustPolicy::read(&read(&self.policy)?)
            .map_err(|source| TrustError::Policy { path: self.policy.clone(), source })?;
        let root = match &self.root {
            Some(path) => {
                let of_root = |source| TrustError::Root { path: path.clone(), source };
                Some(TrustedRoot::read(&read(path)?).map_err(of_root)?)
            }
            None => None,
        };
        let (policy, activations) = match &self.directory {
            Some(directory) => rotation::follow(directory, configured, root.as_ref()).map_err(TrustError::Rotation)?,
            None => (configured, Vec::new()),
        };
        Ok(Trust { activations, ..Trust::new(policy, root) })
    }

    fn stamps(&self) -> Vec<Stamp> {
        let all = [Some(&self.policy), self.root.as_ref(), self.directory.as_ref()];
        all.into_iter().flatten().map(|path| stamp(path)).collect()
    }
}

fn stamp(path: &Path) -> Stamp {
    let metadata = fs::metadata(path).ok()?;
    Some((
        metadata.dev(),
        metadata.ino(),
        metadata.size(),
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.ctime(),
        metadata.ctime_nsec(),
    ))
}

fn read(path: &Path) -> Result<String, TrustError> {
    fs::read_to_string(path).map_err(|source| TrustError::File { path: path.to_owned(), source })
}
