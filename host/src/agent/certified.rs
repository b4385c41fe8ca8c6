//! Who this node is to a plane that it meets over TLS: its key, and the certificate that the plane gave it.

use std::{
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use fettle_identity::{Certificate, Key, KeyError, Peer, PeerError, Role, Roots, RootsError, public_from_pem};
use fettle_wire::node::Credentials;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::line::Shown;

/// What the file holds. The key never leaves it but for the memory of this host.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    node_id: String,
    /// PEM.
    key: String,
    /// PEM.
    certificate: String,
    /// PEM, one after the other.
    authorities: String,
    /// Which authorities count and sign, as the plane calls it.
    mark: String,
    /// When to ask for the next certificate, by the clock of this node.
    renew_at: Timestamp,
    /// When it counts no longer, by the same clock.
    expires_at: Timestamp,
}

impl Drop for Document {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.key);
    }
}

/// The node's id, its key, its certificate, and whom it believes. One file, 0600.
pub(super) struct Certified {
    pub(super) node_id: String,
    pub(super) key: Key,
    pub(super) certificate: Certificate,
    pub(super) authorities: Roots,
    /// Which authorities count and sign, as the plane calls it.
    pub(super) mark: String,
    /// When to ask for the next certificate, by the clock of this node: it may show another time than the plane's.
    pub(super) renew_at: Timestamp,
    /// When the certificate counts no longer, by the same clock.
    pub(super) expires_at: Timestamp,
    /// What the certificate says.
    pub(super) peer: Peer,
}

/// Why there is no certificate to show.
#[derive(Debug, thiserror::Error)]
pub enum CertifiedError {
    /// The file cannot be read or written.
    #[error("the node's certificate {path} cannot be used; check the permissions of the data directory")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: std::io::Error,
    },
    /// The file is none of ours.
    #[error("the node's certificate {path} is damaged; remove it and join again with a new join token and a new name")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: Malformed,
    },
    /// What the plane answered cannot be used.
    #[error("the plane answered with a certificate that cannot be used")]
    Answer(#[source] Malformed),
    /// No key could be made.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// What is wrong with a key and its certificate.
#[derive(Debug, thiserror::Error)]
pub enum Malformed {
    /// They are not written as they should be.
    #[error(transparent)]
    Document(#[from] serde_json::Error),
    /// The key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The authorities.
    #[error(transparent)]
    Roots(#[from] RootsError),
    /// The certificate.
    #[error(transparent)]
    Certificate(#[from] PeerError),
    /// The certificate is another's.
    #[error("the certificate is not of node `{0}`")]
    OtherNode(String),
    /// The certificate is for a key of somebody else.
    #[error("the certificate of node `{0}` is for another key than the one of this host")]
    OtherKey(String),
}

/// What makes it.
struct Parts {
    node_id: String,
    key: Key,
    certificate: Certificate,
    authorities: Roots,
    mark: String,
    renew_at: Timestamp,
    expires_at: Timestamp,
}

fn path(directory: &Path) -> PathBuf {
    directory.join("certificate.json")
}

/// When two thirds of its time are over, give or take a tenth: nodes that joined together do not renew together.
/// Chance is that of the serial number, which is random.
fn renewal(given: &Peer, now: Timestamp, counts_for: SignedDuration) -> Timestamp {
    let chance = given.serial.bytes().rev().take(4).fold(0_u32, |sum, digit| sum * 31 + u32::from(digit)) % 200;
    let after = counts_for / 1500 * i32::try_from(900 + chance).unwrap_or(1000);
    now.saturating_add(after).unwrap_or(now)
}

impl Certified {
    /// What the node shows with it.
    pub(super) const fn shown(&self) -> Shown<'_> {
        Shown::Node { authorities: &self.authorities, certificate: &self.certificate, key: &self.key }
    }

    /// What a plane answered to the request for this key.
    pub(super) fn answered(
        node_id: String,
        key: Key,
        credentials: Credentials,
        now: Timestamp,
    ) -> Result<Self, CertifiedError> {
        let Credentials { certificate, authorities, mark, counts_for_seconds } = credentials;
        let counts_for = SignedDuration::from_secs(counts_for_seconds.into());
        let make = || -> Result<Self, Malformed> {
            let authorities = Roots::new(authorities.into_iter().map(Certificate::from).collect())?;
            let certificate = Certificate::from(certificate);
            let renew_at = renewal(&Peer::read(&certificate)?, now, counts_for);
            let expires_at = now.saturating_add(counts_for).unwrap_or(now);
            Self::new(Parts { node_id, key, certificate, authorities, mark, renew_at, expires_at })
        };
        make().map_err(CertifiedError::Answer)
    }

    fn new(parts: Parts) -> Result<Self, Malformed> {
        let Parts { node_id, key, certificate, authorities, mark, renew_at, expires_at } = parts;
        let peer = Peer::read(&certificate)?;
        if peer.role != Role::Node(node_id.clone()) {
            return Err(Malformed::OtherNode(node_id));
        }
        if Some(&peer.public_key) != public_from_pem(&key.public_pem()).as_ref() {
            return Err(Malformed::OtherKey(node_id));
        }
        Ok(Self { node_id, key, certificate, authorities, mark, renew_at, expires_at, peer })
    }

    /// Whether the certificate counts no longer by the clock of this node.
    pub(super) fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at <= now
    }

    pub(super) fn load(directory: &Path) -> Result<Option<Self>, CertifiedError> {
        let path = path(directory);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => Zeroizing::new(bytes),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(CertifiedError::File { path, source }),
        };
        let read = || -> Result<Self, Malformed> {
            let document: Document = serde_json::from_slice(&bytes)?;
            Self::new(Parts {
                node_id: document.node_id.clone(),
                key: Key::from_pem(&document.key)?,
                certificate: fettle_identity::from_pem(&document.certificate)?,
                authorities: Roots::from_pem(&document.authorities)?,
                mark: document.mark.clone(),
                renew_at: document.renew_at,
                expires_at: document.expires_at,
            })
        };
        read().map(Some).map_err(|source| CertifiedError::Damaged { path, source })
    }

    pub(super) fn save(&self, directory: &Path) -> Result<(), CertifiedError> {
        let path = path(directory);
        let temporary = path.with_extension("new");
        let document = Document {
            node_id: self.node_id.clone(),
            key: self.key.to_pem().to_string(),
            certificate: fettle_identity::to_pem(&self.certificate),
            authorities: self.authorities.to_pem(),
            mark: self.mark.clone(),
            renew_at: self.renew_at,
            expires_at: self.expires_at,
        };
        let write = || -> std::io::Result<()> {
            let mut file =
                std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
            file.write_all(&Zeroizing::new(serde_json::to_vec(&document)?))?;
            file.sync_all()?;
            std::fs::rename(&temporary, &path)?;
            std::fs::File::open(directory)?.sync_all()
        };
        write().map_err(|source| CertifiedError::File { path: path.clone(), source })
    }
}
