//! The connection to the plane, and the secret that each call carries.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use fettle_telemetry::span;
use fettle_wire::node::node_protocol_client::NodeProtocolClient;
use tonic::{
    Request, Status,
    metadata::AsciiMetadataValue,
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Channel, Endpoint},
};

/// Bytes of the largest message that is taken.
const LARGEST_MESSAGE: usize = 64 << 20;

pub(super) type Client = NodeProtocolClient<InterceptedService<Channel, Secret>>;

/// Why no connection can be set up.
#[derive(Debug, thiserror::Error)]
#[error("`{address}` is not the address of a plane; write `http://host:port`")]
pub struct ConnectError {
    address: String,
    #[source]
    source: tonic::transport::Error,
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

/// Connects when first used, and again when the connection breaks.
pub(super) fn connect(address: &str, secret: Secret) -> Result<Client, ConnectError> {
    let endpoint = Endpoint::from_shared(address.to_owned())
        .map_err(|source| ConnectError { address: address.to_owned(), source })?;
    let channel = endpoint
        .connect_timeout(Duration::from_secs(5))
        .tcp_nodelay(true)
        .http2_keep_alive_interval(Duration::from_secs(10))
        .keep_alive_timeout(Duration::from_secs(10))
        .keep_alive_while_idle(true)
        .connect_lazy();
    // A lease carries the outputs of all steps that are done.
    Ok(NodeProtocolClient::with_interceptor(channel, secret).max_decoding_message_size(LARGEST_MESSAGE))
}
