//! The way to the plane: one connection at a time, and another one when the node has a newer certificate.

use std::{
    io,
    sync::{Arc, PoisonError, RwLock},
    task::{Context, Poll},
};

use fettle_identity::{
    Fingerprint,
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

use super::{
    certified::Certified,
    connection::{self, ConnectError, Transport, TransportError, transport},
};

/// As whom the node shows itself to its plane.
pub(super) enum Shown<'a> {
    /// As nobody yet; the plane is known by its authority's fingerprint.
    Joining(Fingerprint),
    /// As nobody, because its certificate has expired; the plane is known by its authorities.
    Expired(&'a Certified),
    /// As itself.
    Node(&'a Certified),
}

/// Where the plane is, and the connection to it of now.
pub(super) struct Line {
    /// `host:port` of a plane that is met over TLS; none where something else carries calls.
    authority: Option<String>,
    current: Arc<RwLock<Transport>>,
}

impl Line {
    /// To a plane. Nothing is sent yet.
    pub(super) fn to(address: &str) -> Result<Self, ConnectError> {
        let malformed = || ConnectError::Address { address: address.to_owned() };
        let uri: Uri = address.parse().map_err(|_| malformed())?;
        if uri.scheme_str() != Some("https") {
            // In clear a host shows its secret to whoever is on the way.
            let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
            let here = host == "localhost" || host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback());
            return if here { Ok(Self::over(connection::connect(address)?)) } else { Err(malformed()) };
        }
        uri.port().ok_or_else(malformed)?;
        let authority = uri.authority().ok_or_else(malformed)?.to_string();
        let nobody = service_fn(|_: http::Request<Body>| async {
            Err::<http::Response<Body>, _>(io::Error::new(io::ErrorKind::NotConnected, "nobody has been called yet"))
        });
        Ok(Self { authority: Some(authority), current: Arc::new(RwLock::new(transport(nobody))) })
    }

    /// Over this.
    pub(super) fn over(transport: Transport) -> Self {
        Self { authority: None, current: Arc::new(RwLock::new(transport)) }
    }

    /// Whether certificates are shown at both ends.
    pub(super) const fn is_mutual(&self) -> bool {
        self.authority.is_some()
    }

    /// Connects anew from the next call on. What is under way goes on over the connection that it began with.
    pub(super) fn show(&self, shown: &Shown<'_>) -> Result<(), ConnectError> {
        let Some(authority) = &self.authority else { return Ok(()) };
        let config = match shown {
            Shown::Joining(fingerprint) => tls::joining(*fingerprint)?,
            Shown::Expired(node) => tls::client(&node.authorities, None)?,
            Shown::Node(node) => {
                let own = Own { chain: vec![node.certificate.clone()], key: &node.key };
                tls::client(&node.authorities, Some(&own))?
            }
        };
        let malformed = || ConnectError::Address { address: authority.clone() };
        let name = PLANE_NAME.try_into().map_err(|_| malformed())?;
        let channel = channel::lazy(authority, name, Arc::new(config)).map_err(|_| malformed())?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = transport(channel);
        Ok(())
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
