//! The node protocol. One call per file; what they mean is written in `wire/proto/node.proto`.

mod acknowledge;
mod authentication;
mod complete;
mod extend;
mod fail;
mod heartbeat;
mod pull;
mod register;
mod report;
mod status;
mod trace;

pub(crate) use self::authentication::Nodes;

use std::pin::Pin;

use fettle_wire::node::{
    AckRequest, AckResponse, CompleteRequest, CompleteResponse, ExtendRequest, ExtendResponse, FailRequest,
    FailResponse, HeartbeatRequest, HeartbeatResponse, PullRequest, PullResponse, RegisterRequest, RegisterResponse,
    ReportRequest, ReportResponse,
    node_protocol_server::{NodeProtocol, NodeProtocolServer},
};
use futures::Stream;
use tonic::{Request, Response, Status, Streaming};

use crate::state::State;

/// The largest message in bytes. A report holds lines of a log, a lease the inputs of an operation.
const LARGEST_MESSAGE: usize = 4 << 20;

/// Answers hosts.
pub(crate) struct Service(State);

/// The service as a part of a router.
pub(crate) fn service(state: State) -> NodeProtocolServer<Service> {
    NodeProtocolServer::new(Service(state)).max_decoding_message_size(LARGEST_MESSAGE)
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl NodeProtocol for Service {
    type PullStream = Answers<PullResponse>;
    type ReportStream = Answers<ReportResponse>;

    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<RegisterResponse>, Status> {
        register::register(&self.0, request).await.map(Response::new)
    }

    async fn heartbeat(&self, request: Request<HeartbeatRequest>) -> Result<Response<HeartbeatResponse>, Status> {
        heartbeat::heartbeat(&self.0, request).await.map(Response::new)
    }

    async fn pull(&self, request: Request<Streaming<PullRequest>>) -> Result<Response<Self::PullStream>, Status> {
        pull::pull(&self.0, request).await.map(Response::new)
    }

    async fn ack(&self, request: Request<AckRequest>) -> Result<Response<AckResponse>, Status> {
        let sent = trace::sent(request.metadata());
        trace::follow("ack", sent, acknowledge::acknowledge(&self.0, request)).await.map(Response::new)
    }

    async fn report(&self, request: Request<Streaming<ReportRequest>>) -> Result<Response<Self::ReportStream>, Status> {
        report::report(&self.0, request).await.map(Response::new)
    }

    async fn extend(&self, request: Request<ExtendRequest>) -> Result<Response<ExtendResponse>, Status> {
        extend::extend(&self.0, request).await.map(Response::new)
    }

    async fn complete(&self, request: Request<CompleteRequest>) -> Result<Response<CompleteResponse>, Status> {
        let sent = trace::sent(request.metadata());
        trace::follow("complete", sent, complete::complete(&self.0, request)).await.map(Response::new)
    }

    async fn fail(&self, request: Request<FailRequest>) -> Result<Response<FailResponse>, Status> {
        let sent = trace::sent(request.metadata());
        trace::follow("fail", sent, fail::fail(&self.0, request)).await.map(Response::new)
    }
}
