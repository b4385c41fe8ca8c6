//! Who is at the other end of a connection of a node.

use std::{net::SocketAddr, sync::Arc};

use axum::{extract::connect_info::Connected, serve::IncomingStream};
use fettle_identity::Peer;

use super::door::Door;

/// What is known of a connection to the listener of nodes, before anything is said on it.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// Where it comes from; none where there is no network.
    pub(crate) address: Option<SocketAddr>,
    /// Whose certificate was shown; none where none was.
    pub(crate) peer: Option<Arc<Peer>>,
}

impl Connected<IncomingStream<'_, Door>> for Connection {
    fn connect_info(stream: IncomingStream<'_, Door>) -> Self {
        let shown = stream.io().get_ref().1.peer_certificates().and_then(<[_]>::first);
        // A certificate of an authority of ours that is not of our making says nothing about its holder.
        let peer = shown.and_then(|shown| Peer::read(shown).ok()).map(Arc::new);
        Self { address: Some(*stream.remote_addr()), peer }
    }
}
