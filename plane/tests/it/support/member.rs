//! A node as its plane knows it: a key, a certificate, and connections that show them.

use std::{net::SocketAddr, sync::Arc};

use fettle_identity::{
    Certificate, Fingerprint, Key, Roots,
    tls::{self, Own, PLANE_NAME},
};
use fettle_wire::{
    channel,
    node::{Credentials, JoinRequest, RegisterRequest, node_protocol_client::NodeProtocolClient},
};
use tokio_rustls::rustls::ClientConfig;
use tonic::{Request, Status, transport::Channel};

/// Calls a plane.
pub(crate) type Client = NodeProtocolClient<Channel>;

/// What a node keeps.
pub(crate) struct Member {
    pub(crate) node_id: String,
    pub(crate) key: Key,
    pub(crate) certificate: Certificate,
    pub(crate) authorities: Roots,
}

/// A connection to the plane here over this TLS.
pub(crate) fn connection(plane: SocketAddr, config: ClientConfig) -> Channel {
    channel::lazy(&plane.to_string(), PLANE_NAME.try_into().unwrap(), Arc::new(config)).unwrap()
}

/// Calls the plane here over this TLS.
pub(crate) fn client(plane: SocketAddr, config: ClientConfig) -> Client {
    NodeProtocolClient::new(connection(plane, config))
}

/// A message with a bearer token.
fn with_token(token: &str, message: JoinRequest) -> Request<JoinRequest> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    request
}

impl Member {
    /// Joins with a join token.
    pub(crate) async fn join(plane: SocketAddr, token: &str, node: RegisterRequest) -> Result<Self, Status> {
        let authority: Fingerprint = token.split_once('.').unwrap().1.parse().unwrap();
        let key = Key::generate().unwrap();
        let message = JoinRequest {
            node: Some(node),
            certificate_request: key.request().unwrap(),
            expired_certificate: Vec::new(),
        };
        let mut joining = client(plane, tls::joining(authority).unwrap());
        let answer = joining.join(with_token(token, message)).await?.into_inner();
        Ok(Self::given(answer.node_id, key, answer.credentials.unwrap()))
    }

    /// What a plane gave for this key.
    pub(crate) fn given(node_id: String, key: Key, credentials: Credentials) -> Self {
        let authorities = credentials.authorities.into_iter().map(Certificate::from).collect();
        let authorities = Roots::new(authorities).unwrap();
        Self { node_id, key, certificate: credentials.certificate.into(), authorities }
    }

    /// Calls a plane as this node.
    pub(crate) fn client(&self, plane: SocketAddr) -> Client {
        client(plane, self.config())
    }

    /// The TLS in which this node shows itself.
    pub(crate) fn config(&self) -> ClientConfig {
        let own = Own { chain: vec![self.certificate.clone()], key: &self.key };
        tls::client(&self.authorities, Some(&own)).unwrap()
    }

    /// Calls a plane as nobody.
    pub(crate) fn stranger(&self, plane: SocketAddr) -> Client {
        client(plane, tls::client(&self.authorities, None).unwrap())
    }
}
