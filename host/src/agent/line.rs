//! The way to the plane: one connection at a time, and another one when the node has a newer certificate.

use std::{
    io,
    sync::{Arc, PoisonError, RwLock},
    task::{Context, Poll},
};

use fettle_identity::{
    Certificate, Fingerprint, Key, Roots,
    tls::{self, Own, PLANE_NAME},
};
use fettle_wire::channel;
use futures::future::BoxFuture;
use tonic::{
    body::Body,
    codegen::{Service, http},
    transport::Uri,
};
use tower::{ServiceExt as _, service_fn};

use super::connection::{ConnectError, Transport, TransportError, transport};

/// As whom a node shows itself to its plane, and by what it knows the plane.
pub enum Shown<'a> {
    /// As nobody yet; the plane is known by its authority's fingerprint.
    Joining(Fingerprint),
    /// As nobody, because its certificate has expired; the plane is known by its authorities.
    Expired(&'a Roots),
    /// As itself.
    Node {
        /// What the plane is known by.
        authorities: &'a Roots,
        /// Of the node.
        certificate: &'a Certificate,
        /// What the certificate is for.
        key: &'a Key,
    },
}

/// Makes connections in which the node shows the same, as many as are wanted. Each connects when it is first used.
pub type Connect = Arc<dyn Fn() -> Result<Transport, ConnectError> + Send + Sync>;

/// Makes connections to a plane.
pub trait Dial: Send + Sync {
    /// Connections in which the node shows this.
    ///
    /// # Errors
    /// When there is no TLS with what is shown.
    fn dial(&self, shown: &Shown<'_>) -> Result<Connect, ConnectError>;
}

/// The network.
struct Network {
    /// `host:port` of the plane.
    authority: String,
}

impl Dial for Network {
    fn dial(&self, shown: &Shown<'_>) -> Result<Connect, ConnectError> {
        let config = match *shown {
            Shown::Joining(fingerprint) => tls::joining(fingerprint)?,
            Shown::Expired(authorities) => tls::client(authorities, None)?,
            Shown::Node { authorities, certificate, key } => {
                tls::client(authorities, Some(&Own { chain: vec![certificate.clone()], key }))?
            }
        };
        let (authority, config) = (self.authority.clone(), Arc::new(config));
        Ok(Arc::new(move || {
            let malformed = || ConnectError::Address { address: authority.clone() };
            let name = PLANE_NAME.try_into().map_err(|_| malformed())?;
            channel::lazy(&authority, name, Arc::clone(&config)).map(transport).map_err(|_| malformed())
        }))
    }
}

/// The connection to the plane of now.
pub(super) struct Line {
    dial: Box<dyn Dial>,
    /// What makes connections like the current one.
    connect: RwLock<Connect>,
    current: Arc<RwLock<Transport>>,
}

impl Line {
    /// To a plane. Nothing is sent yet.
    pub(super) fn to(address: &str) -> Result<Self, ConnectError> {
        let malformed = || ConnectError::Address { address: address.to_owned() };
        let uri: Uri = address.parse().map_err(|_| malformed())?;
        if uri.scheme_str() != Some("https") {
            return Err(malformed());
        }
        uri.port().ok_or_else(malformed)?;
        let authority = uri.authority().ok_or_else(malformed)?.to_string();
        Ok(Self::by(Network { authority }))
    }

    /// By whatever connects.
    pub(super) fn by(dial: impl Dial + 'static) -> Self {
        let nobody = || {
            transport(service_fn(|_: http::Request<Body>| async {
                let reason = "nobody has been called yet";
                Err::<http::Response<Body>, _>(io::Error::new(io::ErrorKind::NotConnected, reason))
            }))
        };
        let connect: Connect = Arc::new(move || Ok(nobody()));
        Self { dial: Box::new(dial), connect: RwLock::new(connect), current: Arc::new(RwLock::new(nobody())) }
    }

    /// Connects anew from the next call on. What is under way goes on over the connection that it began with.
    pub(super) fn show(&self, shown: &Shown<'_>) -> Result<(), ConnectError> {
        let connect = self.dial.dial(shown)?;
        let next = connect()?;
        *self.connect.write().unwrap_or_else(PoisonError::into_inner) = connect;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(())
    }

    /// A connection beside the current one, for whoever wants one alone. It is closed when it is dropped.
    pub(super) fn alone(&self) -> Result<Transport, ConnectError> {
        let connect = Arc::clone(&self.connect.read().unwrap_or_else(PoisonError::into_inner));
        connect()
    }

    /// What carries each call over the connection of then.
    pub(super) fn transport(&self) -> Transport {
        transport(Current(Arc::clone(&self.current)))
    }
}

/// Whatever carries calls at the moment of each.
#[derive(Clone)]
struct Current(Arc<RwLock<Transport>>);

impl Service<http::Request<Body>> for Current {
    type Response = http::Response<Body>;
    type Error = TransportError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let current = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        Box::pin(current.oneshot(request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plane_is_met_over_tls_at_a_port_that_is_named() {
        assert!(Line::to("https://plane.example:7483").is_ok());
        for other in ["http://127.0.0.1:7480", "https://plane.example", "plane.example:7483", "", "https://"] {
            let refused = Line::to(other).err().map(|error| error.to_string());
            assert!(refused.is_some_and(|text| text.contains("https://host:port")), "{other}");
        }
    }
}
