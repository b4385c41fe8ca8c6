//! The listener of nodes: TLS 1.3, and a certificate of an authority that counts, or none.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use fettle_identity::Refusal;
use jiff::SignedDuration;
use tls_listener::{Error, TlsListener};
use tokio::{net::TcpListener, sync::watch};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig, server::TlsStream};

use super::{
    held::{Entrance, Held},
    refusals,
};
use crate::{
    identity::authorities::{IdentityError, two_thirds},
    state::State,
};

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How often the authorities are read again.
const LOOKS: Duration = Duration::from_secs(1);

/// Lets nodes in.
pub(crate) struct Door {
    listener: TlsListener<Entrance, TlsAcceptor>,
    configs: watch::Receiver<Arc<ServerConfig>>,
    state: State,
}

impl Door {
    /// Opens it on a listener that is there.
    pub(crate) fn open(listener: TcpListener, configs: watch::Receiver<Arc<ServerConfig>>, state: State) -> Self {
        let acceptor = TlsAcceptor::from(Arc::clone(&configs.borrow()));
        let listener = tls_listener::builder(acceptor).handshake_timeout(HANDSHAKE).listen(Entrance::new(listener));
        Self { listener, configs, state }
    }

    /// Nobody waits at the door until it is written down.
    fn refuse(&self, address: SocketAddr, refusal: Refusal) {
        let state = self.state.clone();
        tokio::spawn(async move { refusals::connection(&state, address, refusal).await });
    }
}

impl axum::serve::Listener for Door {
    type Io = TlsStream<Held>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let accepted = tokio::select! {
                changed = self.configs.changed() => {
                    if changed.is_ok() {
                        let config = Arc::clone(&self.configs.borrow_and_update());
                        self.listener.replace_acceptor(TlsAcceptor::from(config));
                        continue;
                    }
                    // The plane stops.
                    std::future::pending().await
                }
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((mut stream, address)) => {
                    let (held, session) = stream.get_mut();
                    if session.peer_certificates().is_some() {
                        held.is_known();
                    }
                    return (stream, address);
                }
                Err(Error::TlsAcceptError { error, peer_addr, .. }) => {
                    self.refuse(peer_addr, Refusal::of(&error));
                }
                Err(Error::HandshakeTimeout { peer_addr, .. }) => {
                    self.refuse(peer_addr, Refusal::TimedOut);
                }
                // The entrance makes none of its own.
                Err(error) => tracing::error!(%error, "a connection could not be taken"),
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.listener().local_addr()
    }
}

/// What the door shows, at its opening.
pub(crate) fn first(state: &State) -> Result<watch::Sender<Arc<ServerConfig>>, IdentityError> {
    Ok(watch::Sender::new(Arc::new(shown(state)?)))
}

fn shown(state: &State) -> Result<ServerConfig, IdentityError> {
    let lifetime = SignedDuration::try_from(state.config.certificate_lifetime).unwrap_or(SignedDuration::MAX);
    state.authorities.current().server(&*state.clock, lifetime)
}

/// Follows the authorities, and renews the plane's own certificate in good time, until shutdown.
pub(crate) async fn keep(state: State, configs: watch::Sender<Arc<ServerConfig>>) {
    let renew_after = two_thirds(state.config.certificate_lifetime);
    // By the clock that the certificate is held against: it may be set, and machines sleep.
    let mut renew_at = state.after(renew_after);
    loop {
        tokio::select! {
            () = state.shutdown.cancelled() => return,
            () = tokio::time::sleep(LOOKS.min(renew_after)) => {}
        }
        let changed = state.authorities.read_again().unwrap_or_else(|error| {
            tracing::error!(error = &error as &dyn std::error::Error, "the authorities cannot be read");
            false
        });
        if changed {
            // Connections whose certificates count no longer end.
            state.wakeups.look_again();
        }
        if !changed && state.clock.now() < renew_at {
            continue;
        }
        match shown(&state) {
            Ok(config) => {
                configs.send_replace(Arc::new(config));
                renew_at = state.after(renew_after);
            }
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "the plane's certificate is not renewed");
            }
        }
    }
}
