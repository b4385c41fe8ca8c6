//! Who is at the other end of a connection of a node.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{extract::connect_info::Connected, serve::IncomingStream};
use fettle_identity::{Certificate, Peer};
use fettle_store::secret::SecretHash;

use super::door::Door;
use crate::state::State;

/// What is known of a connection to the listener of nodes, before anything is said on it.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// Where it comes from; none where there is no network.
    pub(crate) address: Option<SocketAddr>,
    /// Whose certificate was shown; none where none was.
    pub(crate) peer: Option<Arc<Shown>>,
}

/// A certificate that was shown.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) peer: Peer,
    pub(crate) certificate: Certificate,
    /// What is kept of its key.
    pub(crate) key: SecretHash,
    /// Under which authorities it was found good last.
    good_under: Mutex<String>,
}

impl Shown {
    fn read(certificate: &Certificate) -> Option<Self> {
        let peer = Peer::read(certificate).ok()?;
        let key = key_hash(&peer.public_key);
        Some(Self { peer, certificate: certificate.clone().into_owned(), key, good_under: Mutex::default() })
    }

    /// Whether it counts by the authorities of now. They may be others than when the connection was made.
    pub(crate) fn counts(&self, state: &State) -> bool {
        let current = state.authorities.current();
        let mut good_under = self.good_under.lock().unwrap_or_else(PoisonError::into_inner);
        if *good_under == current.mark {
            return true;
        }
        let counts = current.counted(&self.certificate, self.peer.validity.until).is_some();
        if counts {
            good_under.clone_from(&current.mark);
        }
        counts
    }
}

/// What is kept of a public key.
pub(super) fn key_hash(public_key: &[u8]) -> SecretHash {
    SecretHash::of(&hex::encode(public_key))
}

impl Connection {
    /// By no network.
    #[cfg(feature = "simulation")]
    pub(crate) fn without_network(certificate: Option<&Certificate>) -> Self {
        Self { address: None, peer: certificate.and_then(Shown::read).map(Arc::new) }
    }
}

impl Connected<IncomingStream<'_, Door>> for Connection {
    fn connect_info(stream: IncomingStream<'_, Door>) -> Self {
        let shown = stream.io().get_ref().1.peer_certificates().and_then(<[_]>::first);
        // A certificate of an authority of ours that is not of our making says nothing about its holder.
        let peer = shown.and_then(Shown::read).map(Arc::new);
        Self { address: Some(*stream.remote_addr()), peer }
    }
}
