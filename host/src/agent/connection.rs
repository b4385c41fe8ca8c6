//! The connection to the plane, and what each call carries.

use fettle_identity::{Refusal, tls::TlsError};
use fettle_telemetry::span;
use fettle_wire::node::node_protocol_client::NodeProtocolClient;
use tonic::{
    Request, Status,
    body::Body,
    codegen::{Service, StdError, http},
    metadata::AsciiMetadataValue,
    service::{Interceptor, interceptor::InterceptedService},
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

pub(super) type Client = NodeProtocolClient<InterceptedService<Transport, Traced>>;

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

/// Says which trace a call belongs to.
#[derive(Clone, Copy)]
pub(super) struct Traced;

impl Interceptor for Traced {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(place) = span::current()
            && let Ok(value) = AsciiMetadataValue::try_from(place.to_string())
        {
            request.metadata_mut().insert("traceparent", value);
        }
        Ok(request)
    }
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
pub(super) fn client(transport: Transport) -> Client {
    // A lease carries the outputs of all steps that are done.
    NodeProtocolClient::with_interceptor(transport, Traced).max_decoding_message_size(LARGEST_MESSAGE)
}
