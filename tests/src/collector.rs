//! A collector of spans that speaks OTLP over gRPC, in this process.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::any_value::Value,
    trace::v1::{Span, status::StatusCode},
};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, transport::Server};

/// Keeps all that is sent to it.
pub struct Collector {
    address: SocketAddr,
    heard: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
    server: JoinHandle<()>,
}

/// One span, with the service that sent it.
#[derive(Clone, Debug)]
pub struct Collected {
    /// `fettle-plane` or `fettle-host`.
    pub service: String,
    /// The span itself.
    pub span: Span,
}

struct Service(Arc<Mutex<Vec<ExportTraceServiceRequest>>>);

#[tonic::async_trait]
impl TraceService for Service {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.lock().unwrap().push(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    /// Listens on a free port.
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let service = TraceServiceServer::new(Service(Arc::clone(&heard)));
        let server = tokio::spawn(async move {
            Server::builder().add_service(service).serve_with_incoming(TcpListenerStream::new(listener)).await.unwrap();
        });
        Self { address, heard, server }
    }

    /// The arguments that make a program send its spans here.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        vec!["--otlp-endpoint".to_owned(), format!("http://{}", self.address)]
    }

    /// All spans so far.
    #[must_use]
    pub fn spans(&self) -> Vec<Collected> {
        let heard = self.heard.lock().unwrap();
        let mut spans = Vec::new();
        for resource in heard.iter().flat_map(|request| &request.resource_spans) {
            let attributes = resource.resource.iter().flat_map(|resource| &resource.attributes);
            let name = attributes.filter(|attribute| attribute.key == "service.name").find_map(|name| {
                let Some(Value::StringValue(name)) = name.value.as_ref()?.value.as_ref() else { return None };
                Some(name.clone())
            });
            let service = name.unwrap_or_default();
            let sent = resource.scope_spans.iter().flat_map(|scope| &scope.spans);
            spans.extend(sent.map(|span| Collected { service: service.clone(), span: span.clone() }));
        }
        spans
    }

    /// Everything that was sent, as text.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{:?}", self.heard.lock().unwrap())
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Collected {
    /// An attribute as text.
    #[must_use]
    pub fn attribute(&self, key: &str) -> Option<String> {
        let found = self.span.attributes.iter().find(|attribute| attribute.key == key)?;
        Some(match found.value.as_ref()?.value.as_ref()? {
            Value::StringValue(text) => text.clone(),
            Value::IntValue(number) => number.to_string(),
            Value::BoolValue(flag) => flag.to_string(),
            other => format!("{other:?}"),
        })
    }

    /// Whether it is marked as failed.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.span.status.as_ref().is_some_and(|status| status.code() == StatusCode::Error)
    }

    /// The trace, as logs write it.
    #[must_use]
    pub fn trace_id(&self) -> String {
        self.span.trace_id.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
