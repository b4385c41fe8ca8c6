//! A plane that says what a test lets it say, with an authority of its own.

use std::{net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use fettle_identity::{
    Authority, Certificate, Key, Role, Roots, Serial, Validity,
    signing::Signer,
    tls::{self, Own},
};
use fettle_model::assignment::{Assignment, PAYLOAD_TYPE};
use fettle_wire::node::{
    AckRequest, AckResponse, CompleteRequest, CompleteResponse, Credentials, Envelope, ExtendRequest, ExtendResponse,
    FailRequest, FailResponse, HeartbeatRequest, HeartbeatResponse, JoinRequest, JoinResponse, Lease, PullRequest,
    PullResponse, RegisterRequest, RegisterResponse, RenewRequest, RenewResponse, ReportRequest, ReportResponse,
    Signature, Verdict,
    node_protocol_server::{NodeProtocol, NodeProtocolServer},
    pull_request, pull_response,
};
use futures::{Stream, StreamExt as _};
use jiff::{SignedDuration, Timestamp};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{mpsc, watch},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

/// How long anything may take here.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The node that every host is to this plane.
pub(crate) const NODE: &str = "n";

/// What the plane answers to an acknowledgement, and to an extension.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Says {
    /// Nothing: the answer is lost.
    Nothing,
    /// The lease is the host's.
    Held,
    /// The lease is not the host's any more.
    Lost,
    /// The task is over.
    Ended,
}

/// How a task ended, as the host says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It did what was asked.
    Completed,
    /// It did not: the failure, as JSON.
    Failed(String),
}

/// What is said on a stream of leases, for the challenge of the host.
pub(crate) type Script = Arc<dyn Fn(&[u8]) -> Vec<pull_response::Response> + Send + Sync>;

pub(crate) struct FakePlane {
    pub(crate) authority: Arc<Authority>,
    /// Said on each stream that is opened.
    pub(crate) script: watch::Sender<Script>,
    pub(crate) says: watch::Sender<Says>,
    pub(crate) extensions: watch::Sender<u32>,
    /// Acknowledgements that were answered.
    pub(crate) acknowledged: watch::Sender<u32>,
    pub(crate) heartbeats: watch::Sender<u32>,
    pub(crate) outcomes: watch::Sender<Vec<Outcome>>,
    pub(crate) gives: watch::Sender<Gives>,
    requests: mpsc::Sender<pull_request::Request>,
}

/// A day around now.
pub(crate) fn today() -> Validity {
    let (now, half) = (Timestamp::now(), SignedDuration::from_hours(12));
    Validity { from: now - half, until: now + half }
}

/// An authority of its own.
pub(crate) fn authority() -> Arc<Authority> {
    let key = Arc::new(Key::generate().unwrap());
    Arc::new(Authority::create(key, today(), Serial([1; 16])).unwrap())
}

/// A key, certified for this.
pub(crate) fn certified(authority: &Authority, role: &Role, validity: Validity) -> Signer {
    let key = Key::generate().unwrap();
    let certificate = authority.issue(&key.request().unwrap(), role, validity, Serial([4; 16])).unwrap();
    Signer::new(key, certificate)
}

/// Says who signs what follows.
pub(crate) fn introduction(signer: &Signer) -> pull_response::Response {
    introduced(signer.certificate())
}

fn introduced(certificate: &Certificate) -> pull_response::Response {
    pull_response::Response::Signer(fettle_wire::node::Signer { certificate: certificate.to_vec() })
}

/// A lease of what is assigned, signed.
pub(crate) fn sealed(signer: &Signer, assignment: &Assignment) -> Lease {
    let payload = serde_json::to_vec(assignment).unwrap();
    let sig = signer.sign(PAYLOAD_TYPE, &payload).unwrap();
    let signatures = vec![Signature { sig, keyid: String::new() }];
    Lease {
        task_id: assignment.task.task_id.clone(),
        epoch: assignment.epoch.0,
        lease_seconds: 30,
        envelope: Some(Envelope { payload, payload_type: PAYLOAD_TYPE.to_owned(), signatures }),
        ..Lease::default()
    }
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[derive(Clone)]
struct Service(Arc<FakePlane>);

#[tonic::async_trait]
impl NodeProtocol for Service {
    type PullStream = Answers<PullResponse>;
    type ReportStream = Answers<ReportResponse>;

    async fn join(&self, request: Request<JoinRequest>) -> Result<Response<JoinResponse>, Status> {
        let (mut request, authority) = (request.into_inner().certificate_request, &self.0.authority);
        let gives = *self.0.gives.borrow();
        if gives == Gives::AnotherKey {
            request = fettle_identity::Key::generate().unwrap().request().unwrap();
        }
        let node = if gives == Gives::AnotherNode { "another" } else { NODE };
        let certificate = authority.issue(&request, &Role::Node(node.to_owned()), today(), Serial([2; 16])).unwrap();
        let credentials = Credentials {
            certificate: certificate.to_vec(),
            authorities: vec![authority.root().to_vec()],
            mark: String::new(),
            counts_for_seconds: 12 * 3600,
        };
        Ok(Response::new(JoinResponse { node_id: NODE.to_owned(), credentials: Some(credentials) }))
    }

    async fn renew(&self, _: Request<RenewRequest>) -> Result<Response<RenewResponse>, Status> {
        Err(Status::unavailable("not now"))
    }

    async fn register(&self, _request: Request<RegisterRequest>) -> Result<Response<RegisterResponse>, Status> {
        Ok(Response::new(RegisterResponse { node_id: NODE.to_owned(), heartbeat_interval_seconds: 1 }))
    }

    async fn heartbeat(&self, _request: Request<HeartbeatRequest>) -> Result<Response<HeartbeatResponse>, Status> {
        self.0.heartbeats.send_modify(|count| *count += 1);
        Ok(Response::new(HeartbeatResponse::default()))
    }

    async fn pull(&self, request: Request<Streaming<PullRequest>>) -> Result<Response<Self::PullStream>, Status> {
        let (mut incoming, requests) = (request.into_inner(), self.0.requests.clone());
        let script = Arc::clone(&self.0.script.borrow());
        let (answers, outgoing) = mpsc::channel(64);
        tokio::spawn(async move {
            while let Ok(Some(PullRequest { request: Some(request) })) = incoming.message().await {
                if let pull_request::Request::Hello(hello) = &request {
                    for response in script(&hello.challenge) {
                        let _ = answers.send(Ok(PullResponse { response: Some(response) })).await;
                    }
                }
                // A test that does not listen loses what is said.
                let _ = requests.try_send(request);
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(outgoing))))
    }

    async fn ack(&self, _request: Request<AckRequest>) -> Result<Response<AckResponse>, Status> {
        let mut says = self.0.says.subscribe();
        let _ = says.wait_for(|says| *says == Says::Held).await;
        self.0.acknowledged.send_modify(|count| *count += 1);
        Ok(Response::new(AckResponse {}))
    }

    async fn report(&self, request: Request<Streaming<ReportRequest>>) -> Result<Response<Self::ReportStream>, Status> {
        let accepted = request.into_inner().map(|report| {
            let ReportRequest { task_id, sequence, .. } = report?;
            Ok(ReportResponse { task_id, sequence, verdict: Verdict::Accepted as i32, reason: String::new() })
        });
        Ok(Response::new(Box::pin(accepted)))
    }

    async fn extend(&self, _request: Request<ExtendRequest>) -> Result<Response<ExtendResponse>, Status> {
        self.0.extensions.send_modify(|count| *count += 1);
        let says = *self.0.says.borrow();
        match says {
            Says::Nothing => Err(Status::unavailable("the answer was lost")),
            Says::Held => Ok(Response::new(extended(Verdict::Accepted))),
            Says::Lost => Ok(Response::new(extended(Verdict::Stale))),
            Says::Ended => Ok(Response::new(extended(Verdict::Ended))),
        }
    }

    async fn complete(&self, _request: Request<CompleteRequest>) -> Result<Response<CompleteResponse>, Status> {
        self.0.outcomes.send_modify(|outcomes| outcomes.push(Outcome::Completed));
        Ok(Response::new(CompleteResponse { verdict: Verdict::Accepted as i32 }))
    }

    async fn fail(&self, request: Request<FailRequest>) -> Result<Response<FailResponse>, Status> {
        let failure = request.into_inner().failure;
        self.0.outcomes.send_modify(|outcomes| outcomes.push(Outcome::Failed(failure)));
        Ok(Response::new(FailResponse { verdict: Verdict::Accepted as i32 }))
    }
}

fn extended(verdict: Verdict) -> ExtendResponse {
    ExtendResponse { verdict: verdict as i32, lease_seconds: 30, canceled: false }
}

/// Where the host meets the plane.
struct Door {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Door {
    fn open(listener: TcpListener, authority: &Authority) -> Self {
        let key = Key::generate().unwrap();
        let own = authority.issue(&key.request().unwrap(), &Role::Plane, today(), Serial([3; 16])).unwrap();
        let roots = Roots::new(vec![authority.root().clone()]).unwrap();
        let own = Own { chain: vec![own, authority.root().clone()], key: &key };
        Self { listener, acceptor: TlsAcceptor::from(Arc::new(tls::server(&roots, &own).unwrap())) }
    }
}

impl axum::serve::Listener for Door {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = self.listener.accept().await.unwrap();
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// A plane at an address, what hosts say on its streams, and a join token for it.
pub(crate) struct Open {
    pub(crate) plane: Arc<FakePlane>,
    pub(crate) address: String,
    pub(crate) requests: mpsc::Receiver<pull_request::Request>,
    pub(crate) join_token: String,
}

/// Whose certificate whoever joins is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gives {
    /// Its own.
    Own,
    /// That of another node.
    AnotherNode,
    /// One in its name, for a key that the plane has.
    AnotherKey,
}

/// Opens a plane of this authority.
pub(crate) async fn open(authority: Arc<Authority>, script: Script) -> Open {
    let (requests, heard) = mpsc::channel(64);
    let join_token = format!("fettle_join_test.{}", authority.fingerprint());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("https://{}", listener.local_addr().unwrap());
    let door = Door::open(listener, &authority);
    let plane = Arc::new(FakePlane {
        authority,
        script: watch::Sender::new(script),
        says: watch::Sender::new(Says::Nothing),
        extensions: watch::Sender::new(0),
        acknowledged: watch::Sender::new(0),
        heartbeats: watch::Sender::new(0),
        gives: watch::Sender::new(Gives::Own),
        outcomes: watch::Sender::default(),
        requests,
    });
    let service = NodeProtocolServer::new(Service(Arc::clone(&plane)));
    let nodes = axum::Router::new().route_service("/fettle.node.v1.NodeProtocol/{method}", service);
    tokio::spawn(async move { axum::serve(door, nodes).await });
    Open { plane, address, requests: heard, join_token }
}
