//! The connection to the plane, and the secret that each call carries.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use fettle_identity::{Refusal, tls::TlsError};
use fettle_telemetry::span;
use fettle_wire::node::node_protocol_client::NodeProtocolClient;
use tonic::{
    Request, Status,
    body::Body,
    codegen::{Service, StdError, http},
    metadata::AsciiMetadataValue,
    service::{Interceptor, interceptor::InterceptedService},
    transport::Endpoint,
};
use tower::{ServiceExt as _, util::BoxCloneSyncService};

/// Bytes of the largest message that is taken.
const LARGEST_MESSAGE: usize = 64 << 20;

/// What carries calls to a plane and answers back.
pub type Transport = BoxCloneSyncService<http::Request<Body>, http::Response<Body>, TransportError>;

/// A call or its answer was lost on the way.
#[derive(Debug, thiserror::Error)]
#[error("the plane was not reached: {reason}")]
pub struct TransportError {
    reason: String,
    #[source]
    source: StdError,
}

pub(super) type Client = NodeProtocolClient<InterceptedService<Transport, Secret>>;

/// Why no connection can be set up.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The address is none of a plane.
    #[error("`{address}` is not the address of a plane; write `https://host:port`, where it lets nodes in")]
    Address {
        /// What was written.
        address: String,
    },
    /// There is no TLS with what this node has.
    #[error("no connection to a plane can be made")]
    Tls(#[from] TlsError),
}

/// What authenticates this node. Never printed.
#[derive(Clone, Default)]
pub(super) struct Secret(Arc<RwLock<Option<AsciiMetadataValue>>>);

impl Secret {
    pub(super) fn set(&self, token: String) {
        let value = AsciiMetadataValue::try_from(format!("Bearer {}", token.trim())).ok().map(|mut value| {
            value.set_sensitive(true);
            value
        });
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = value;
    }
}

impl Interceptor for Secret {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(value) = self.0.read().unwrap_or_else(PoisonError::into_inner).clone() {
            request.metadata_mut().insert("authorization", value);
        }
        if let Some(place) = span::current()
            && let Ok(value) = AsciiMetadataValue::try_from(place.to_string())
        {
            request.metadata_mut().insert("traceparent", value);
        }
        Ok(request)
    }
}

/// Connects when first used, and again when the connection breaks. Over a network that everybody can read: for planes of before there was TLS, and for this machine.
pub(super) fn connect(address: &str) -> Result<Transport, ConnectError> {
    let malformed = |_| ConnectError::Address { address: address.to_owned() };
    let endpoint = Endpoint::from_shared(address.to_owned()).map_err(malformed)?;
    let channel = endpoint
        .connect_timeout(Duration::from_secs(5))
        .tcp_nodelay(true)
        .http2_keep_alive_interval(Duration::from_secs(10))
        .keep_alive_timeout(Duration::from_secs(10))
        .keep_alive_while_idle(true)
        .connect_lazy();
    Ok(transport(channel))
}

/// Anything that carries calls.
pub fn transport<S>(service: S) -> Transport
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error: Into<StdError>>
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
{
    BoxCloneSyncService::new(service.map_err(|error: S::Error| lost(error.into())))
}

/// What was lost, with the innermost reason, which a person can use.
fn lost(source: StdError) -> TransportError {
    let source = match source.downcast::<TransportError>() {
        Ok(known) => return *known,
        Err(source) => source,
    };
    let reason = match Refusal::of(&*source) {
        Refusal::NoTls => innermost(&*source),
        refusal => refusal.to_string(),
    };
    TransportError { reason, source }
}

fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut last = error;
    while let Some(next) = last.source() {
        last = next;
    }
    last.to_string()
}

/// Calls a plane through this.
pub(super) fn client(transport: Transport, secret: Secret) -> Client {
    // A lease carries the outputs of all steps that are done.
    NodeProtocolClient::with_interceptor(transport, secret).max_decoding_message_size(LARGEST_MESSAGE)
}
