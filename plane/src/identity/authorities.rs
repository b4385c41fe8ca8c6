//! The authorities of this plane: what signs the certificates of nodes, and what of them counts.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use fettle_identity::{
    AuthorityError, Certificate, Directory, DirectoryError, Key, KeyPlace, Peer, Role, Roots, Serial, Standing,
    Validity,
    signing::Signer,
    tls::{Check, CheckError, Own, TlsError},
};
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest as _, Sha256};
use tokio_rustls::rustls::ServerConfig;

use crate::clock::{Clock, NoRandomness};

/// How long an authority made by a plane counts: ten years. It is meant to be rotated long before.
const AUTHORITY: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);

/// Certificates count from that long before they are made, so that a machine whose clock is behind takes them.
pub(crate) const SKEW: SignedDuration = SignedDuration::from_hours(1);

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The authority's files cannot be used.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// It did not sign.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// There is no key.
    #[error(transparent)]
    Key(#[from] fettle_identity::KeyError),
    /// No random bytes.
    #[error("the operating system gives no random bytes")]
    Random(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl From<NoRandomness> for IdentityError {
    fn from(error: NoRandomness) -> Self {
        Self::Random(Box::new(error))
    }
}

/// The authorities as they were when they were last read.
pub(crate) struct Current {
    standing: Standing,
    check: Check,
    /// Which authorities count and sign, in a word.
    pub(crate) mark: String,
}

/// A certificate for a node, and what it says.
pub(crate) struct Issued {
    pub(crate) certificate: Certificate,
    pub(crate) peer: Peer,
    /// The authority's fingerprint.
    pub(crate) authority: String,
}

/// The authorities of a plane; read again while it runs.
pub(crate) struct Authorities {
    directory: Directory,
    current: RwLock<Arc<Current>>,
}

/// A new serial number.
pub(crate) fn serial(clock: &dyn Clock) -> Result<Serial, NoRandomness> {
    let mut bytes = [0; 16];
    clock.random(&mut bytes)?;
    Ok(Serial(bytes))
}

/// From a little before now on.
pub(crate) fn validity(now: Timestamp, lifetime: SignedDuration) -> Validity {
    let from = now.saturating_sub(SKEW).unwrap_or(now);
    Validity { from, until: now.saturating_add(lifetime).unwrap_or(now) }
}

/// Reads the authorities of a directory, and makes the first one where there is none.
pub(crate) fn open(directory: &Directory, clock: &dyn Clock) -> Result<Standing, IdentityError> {
    Ok(directory.open_or_create(validity(clock.now(), AUTHORITY), serial(clock)?)?)
}

/// Makes the first authority, with a key in this place.
pub(crate) fn create(
    directory: &Directory,
    place: &KeyPlace,
    clock: &dyn Clock,
) -> Result<fettle_identity::Fingerprint, IdentityError> {
    Ok(directory.create(place, validity(clock.now(), AUTHORITY), serial(clock)?)?)
}

/// Makes a second authority beside the one that signs.
pub(crate) fn begin_rotation(
    directory: &Directory,
    place: &KeyPlace,
    clock: &dyn Clock,
) -> Result<fettle_identity::Fingerprint, IdentityError> {
    Ok(directory.begin_rotation(place, validity(clock.now(), AUTHORITY), serial(clock)?)?)
}

impl Current {
    fn new(standing: Standing) -> Result<Self, IdentityError> {
        let check = Check::new(&standing.roots)?;
        let mut all: Vec<_> = standing.roots.fingerprints().map(|one| one.to_string()).collect();
        all.sort();
        let digest = Sha256::digest(format!("{} of {}", standing.signs.fingerprint(), all.join(",")));
        Ok(Self { standing, check, mark: hex::encode(&digest[..8]) })
    }

    /// All that count.
    pub(crate) const fn roots(&self) -> &Roots {
        &self.standing.roots
    }

    /// Whose certificate this was, if it counted then.
    pub(crate) fn counted(&self, certificate: &Certificate, at: Timestamp) -> Option<Peer> {
        self.check(certificate, at).ok()
    }

    /// The same, with the reason why it did not.
    pub(crate) fn check(&self, certificate: &Certificate, at: Timestamp) -> Result<Peer, CheckError> {
        self.check.at(certificate, at)
    }

    /// A certificate for a node that asks for it.
    pub(crate) fn certify(
        &self,
        request: &[u8],
        node_id: String,
        validity: Validity,
        serial: Serial,
    ) -> Result<Issued, AuthorityError> {
        let certificate = self.standing.signs.issue(request, &Role::Node(node_id), validity, serial)?;
        let peer = Peer::read(&certificate).map_err(|_| AuthorityError::Algorithm)?;
        Ok(Issued { certificate, peer, authority: self.standing.signs.fingerprint().to_string() })
    }

    /// A new key for tasks, certified for as long before and after now.
    pub(super) fn task_signer(&self, clock: &dyn Clock, counts: SignedDuration) -> Result<Signer, IdentityError> {
        let (key, now) = (Key::generate()?, clock.now());
        let at = |distance| now.saturating_add(distance).unwrap_or(now);
        let validity = Validity { from: at(-counts), until: at(counts) };
        let certificate = self.standing.signs.issue(&key.request()?, &Role::TaskSigner, validity, serial(clock)?)?;
        Ok(Signer::new(key, certificate))
    }

    /// What the plane shows to nodes, for a new key.
    pub(crate) fn server(&self, clock: &dyn Clock, lifetime: SignedDuration) -> Result<ServerConfig, IdentityError> {
        let key = Key::generate()?;
        let signs = &self.standing.signs;
        let own = signs.issue(&key.request()?, &Role::Plane, validity(clock.now(), lifetime), serial(clock)?)?;
        // With the authority's own certificate, for those that join with no more than its fingerprint.
        let own = Own { chain: vec![own, signs.root().clone()], key: &key };
        Ok(fettle_identity::tls::server(&self.standing.roots, &own)?)
    }
}

impl Authorities {
    /// Those in a directory; the first one is made where there is none.
    pub(crate) fn open(directory: Directory, clock: &dyn Clock) -> Result<Self, IdentityError> {
        let current = Current::new(open(&directory, clock)?)?;
        Ok(Self { directory, current: RwLock::new(Arc::new(current)) })
    }

    /// As they were when they were last read.
    pub(crate) fn current(&self) -> Arc<Current> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the directory again. Answers whether something else counts or signs now.
    pub(crate) fn read_again(&self) -> Result<bool, IdentityError> {
        let read = Current::new(self.directory.open()?)?;
        let changed = read.mark != self.current().mark;
        if changed {
            tracing::info!(
                authorities = read.roots().certificates().len(),
                mark = read.mark,
                "the authorities changed"
            );
            *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(read);
        }
        Ok(changed)
    }
}

/// After two thirds of that: when something is renewed that counts for it.
pub(crate) fn two_thirds(lifetime: Duration) -> Duration {
    lifetime.saturating_mul(2) / 3
}
