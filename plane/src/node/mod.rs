//! The node protocol. One call per file; what they mean is written in `wire/proto/node.proto`.

mod acknowledge;
mod authentication;
mod complete;
mod connection;
mod credentials;
pub(crate) mod door;
mod extend;
mod facts;
mod fail;
mod heartbeat;
mod held;
mod join;
mod pull;
pub(crate) mod refusals;
mod register;
mod renew;
mod report;
mod seal;
mod status;
mod trace;

pub(crate) use self::{authentication::Nodes, connection::Connection, credentials::CredentialDesk, refusals::Refusals};

use std::pin::Pin;

use axum::{
    Router,
    body::Body,
    extract::{ConnectInfo, Request as HttpRequest, State as Extracted},
    middleware::{self, Next},
    response::{IntoResponse as _, Response as HttpResponse},
};
use fettle_wire::node::{
    AckRequest, AckResponse, CompleteRequest, CompleteResponse, ExtendRequest, ExtendResponse, FailRequest,
    FailResponse, HeartbeatRequest, HeartbeatResponse, JoinRequest, JoinResponse, PullRequest, PullResponse,
    RegisterRequest, RegisterResponse, RenewRequest, RenewResponse, ReportRequest, ReportResponse,
    node_protocol_server::{NodeProtocol, NodeProtocolServer},
};
use futures::Stream;
use http_body_util::Limited;
use tonic::{Request, Response, Status, Streaming};

use self::credentials::NodeProblem;
use crate::state::State;

/// The largest message in bytes. A report holds lines of a log, a lease the inputs of an operation.
const LARGEST_MESSAGE: usize = 4 << 20;

/// The largest request to join, in bytes: facts, and a certificate request.
const LARGEST_JOIN: usize = 64 << 10;

/// Answers hosts.
pub(crate) struct Service(State);

/// All that is served to nodes, at a listener of its own.
pub(crate) fn router(state: State) -> Router {
    let service = NodeProtocolServer::new(Service(state.clone())).max_decoding_message_size(LARGEST_MESSAGE);
    let routes = Router::new().route_service("/fettle.node.v1.NodeProtocol/{method}", service);
    let routes = routes.merge(credentials::routes(state.clone()));
    routes.layer(middleware::from_fn_with_state(state, admit))
}

/// Lets those who showed no certificate do nothing but join, before anything that they send is read.
async fn admit(Extracted(state): Extracted<State>, request: HttpRequest, next: Next) -> HttpResponse {
    let shown = request.extensions().get::<ConnectInfo<Connection>>().map(|ConnectInfo(connection)| connection.clone());
    let Some(connection) = shown.filter(|connection| connection.peer.is_none()) else {
        return next.run(request).await;
    };
    if request.uri().path().ends_with("/Join") {
        let (parts, body) = request.into_parts();
        let body = Body::new(Limited::new(body, LARGEST_JOIN));
        return next.run(HttpRequest::from_parts(parts, body)).await;
    }
    let reason = "this call needs the certificate of a node; join first, with a join token";
    let refused =
        refusals::call(&state, &connection, "node.certificate_missing", Status::unauthenticated, reason).await;
    if request.uri().path().starts_with("/internal/") {
        return NodeProblem::from(refused).into_response();
    }
    refused.into_http()
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl NodeProtocol for Service {
    type PullStream = Answers<PullResponse>;
    type ReportStream = Answers<ReportResponse>;

    async fn join(&self, request: Request<JoinRequest>) -> Result<Response<JoinResponse>, Status> {
        join::join(&self.0, request).await.map(Response::new)
    }

    async fn renew(&self, request: Request<RenewRequest>) -> Result<Response<RenewResponse>, Status> {
        renew::renew(&self.0, request).await.map(Response::new)
    }

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
