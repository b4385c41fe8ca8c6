//! The loop with the plane, against a plane that says what a test lets it say.

use std::{net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use fettle_host::{
    agent::journal_path,
    command::{self, Run},
    executor::{CANCEL_GRACE, journal::Journal},
};
use fettle_identity::{
    Authority, Key, Role, Roots, Serial, Validity,
    tls::{self, Own},
};
use fettle_model::{digest::Digest, task::Epoch};
use fettle_wire::node::{
    AckRequest, AckResponse, CompleteRequest, CompleteResponse, Credentials, ExtendRequest, ExtendResponse,
    FailRequest, FailResponse, HeartbeatRequest, HeartbeatResponse, JoinRequest, JoinResponse, Lease, PullRequest,
    PullResponse, RegisterRequest, RegisterResponse, RenewRequest, RenewResponse, ReportRequest, ReportResponse,
    Verdict,
    node_protocol_server::{NodeProtocol, NodeProtocolServer},
    pull_request, pull_response,
};
use futures::Stream;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{mpsc, watch},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

/// How long anything may take here.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the plane answers to an acknowledgement, and to an extension.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Says {
    /// Nothing: the answer is lost.
    Nothing,
    /// The lease is the host's.
    Held,
    /// The lease is not the host's any more.
    Lost,
    /// The task is over.
    Ended,
}

struct FakePlane {
    authority: Authority,
    leases: watch::Sender<Vec<Lease>>,
    says: watch::Sender<Says>,
    extensions: watch::Sender<u32>,
    requests: mpsc::Sender<pull_request::Request>,
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[derive(Clone)]
struct Service(Arc<FakePlane>);

#[tonic::async_trait]
impl NodeProtocol for Service {
    type PullStream = Answers<PullResponse>;
    type ReportStream = Answers<ReportResponse>;

    async fn join(&self, request: Request<JoinRequest>) -> Result<Response<JoinResponse>, Status> {
        let (request, authority) = (request.into_inner().certificate_request, &self.0.authority);
        let certificate = authority.issue(&request, &Role::Node("n".to_owned()), today(), Serial([2; 16])).unwrap();
        let credentials = Credentials {
            certificate: certificate.to_vec(),
            authorities: vec![authority.root().to_vec()],
            mark: String::new(),
            counts_for_seconds: 12 * 3600,
        };
        Ok(Response::new(JoinResponse { node_id: "n".to_owned(), credentials: Some(credentials) }))
    }

    async fn renew(&self, _: Request<RenewRequest>) -> Result<Response<RenewResponse>, Status> {
        Err(Status::unavailable("not now"))
    }

    async fn register(&self, _request: Request<RegisterRequest>) -> Result<Response<RegisterResponse>, Status> {
        Ok(Response::new(RegisterResponse { node_id: "n".to_owned(), heartbeat_interval_seconds: 1 }))
    }

    async fn heartbeat(&self, _request: Request<HeartbeatRequest>) -> Result<Response<HeartbeatResponse>, Status> {
        Ok(Response::new(HeartbeatResponse::default()))
    }

    async fn pull(&self, request: Request<Streaming<PullRequest>>) -> Result<Response<Self::PullStream>, Status> {
        let (mut incoming, requests) = (request.into_inner(), self.0.requests.clone());
        let (answers, outgoing) = mpsc::channel(8);
        for lease in self.0.leases.send_replace(Vec::new()) {
            let response = Some(pull_response::Response::Lease(lease));
            answers.send(Ok(PullResponse { response })).await.unwrap();
        }
        tokio::spawn(async move {
            while let Ok(Some(PullRequest { request: Some(request) })) = incoming.message().await {
                let _ = requests.send(request).await;
            }
            drop(answers);
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(outgoing))))
    }

    async fn ack(&self, _request: Request<AckRequest>) -> Result<Response<AckResponse>, Status> {
        let mut says = self.0.says.subscribe();
        let _ = says.wait_for(|says| *says == Says::Held).await;
        Ok(Response::new(AckResponse {}))
    }

    async fn report(
        &self,
        _request: Request<Streaming<ReportRequest>>,
    ) -> Result<Response<Self::ReportStream>, Status> {
        Err(Status::unavailable("not now"))
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
        Err(Status::unavailable("not now"))
    }

    async fn fail(&self, _request: Request<FailRequest>) -> Result<Response<FailResponse>, Status> {
        Err(Status::unavailable("not now"))
    }
}

fn extended(verdict: Verdict) -> ExtendResponse {
    ExtendResponse { verdict: verdict as i32, lease_seconds: 30, canceled: false }
}

/// A day around now.
fn today() -> Validity {
    let (now, half) = (Timestamp::now(), SignedDuration::from_hours(12));
    Validity { from: now - half, until: now + half }
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

/// An artifact that the host has already.
const KEPT: &str = "kept";

struct World {
    plane: Arc<FakePlane>,
    requests: mpsc::Receiver<pull_request::Request>,
    /// Whoever connects here prepares a task: its artifacts are said to be there.
    registry: TcpListener,
    directory: tempfile::TempDir,
    stop: CancellationToken,
}

impl World {
    /// A host whose plane gives it this lease.
    async fn start(lease: impl FnOnce(Lease) -> Lease) -> Self {
        let registry = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (requests, heard) = mpsc::channel(64);
        let key = Arc::new(Key::generate().unwrap());
        let authority = Authority::create(key, today(), Serial([1; 16])).unwrap();
        let token = format!("fettle_join_test.{}", authority.fingerprint());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let door = Door::open(listener, &authority);
        let plane = Arc::new(FakePlane {
            authority,
            leases: watch::Sender::new(vec![lease(given(&registry.local_addr().unwrap().to_string()))]),
            says: watch::Sender::new(Says::Nothing),
            extensions: watch::Sender::new(0),
            requests,
        });
        let service = NodeProtocolServer::new(Service(plane.clone()));
        let nodes = axum::Router::new().route_service("/fettle.node.v1.NodeProtocol/{method}", service);
        tokio::spawn(async move { axum::serve(door, nodes).await });
        let directory = tempfile::tempdir().unwrap();
        let kept = fettle_supply::ContentStore::open(&directory.path().join("host/artifacts")).unwrap();
        kept.write(KEPT.into()).await.unwrap();
        let agent = command::start(&settings(&directory, &format!("https://{address}"), &token)).await.unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(agent.run(stop.clone()));
        Self { plane, requests: heard, registry, directory, stop }
    }

    async fn held(&self) -> Vec<Epoch> {
        let journal = Journal::open(&journal_path(&self.directory.path().join("host"))).await.unwrap();
        journal.held().await.unwrap().into_iter().map(|held| held.epoch).collect()
    }

    /// Waits until the host has asked so often how its lease stands.
    async fn asked(&self, times: u32) {
        let mut extensions = self.plane.extensions.subscribe();
        let asked = extensions.wait_for(|count| *count >= times);
        tokio::time::timeout(PATIENCE, asked).await.unwrap().unwrap();
    }

    /// Whether the task has been started by now.
    fn has_started(&self) -> bool {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        self.registry.poll_accept(&mut context).is_ready()
    }

    async fn starts(&self) {
        tokio::time::timeout(PATIENCE, self.registry.accept()).await.unwrap().unwrap();
    }

    async fn hears(&mut self) -> pull_request::Request {
        tokio::time::timeout(PATIENCE, self.requests.recv()).await.unwrap().unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn given(registry: &str) -> Lease {
    let reference = format!("{registry}/a@{}", Digest::of(b""));
    let task = json!({
        "task_id": "t", "operation_id": "o", "project_id": "p", "node_id": "n", "correlation_id": "c",
        "sources": {"definition": reference, "catalog": reference, "policy": reference},
        "inputs": {}, "plan_digest": Digest::of(b"")
    });
    Lease {
        task_id: "t".to_owned(),
        epoch: 1,
        lease_seconds: 30,
        task: task.to_string(),
        traceparent: String::new(),
        org_id: String::new(),
    }
}

fn settings(directory: &tempfile::TempDir, plane: &str, join: &str) -> Run {
    let trust = directory.path().join("trust.json");
    let key = fettle_supply::SigningKey::generate().unwrap();
    let policy = fettle_supply::TrustPolicy::any_of([("test".to_owned(), key.public().clone())]).unwrap();
    std::fs::write(&trust, serde_json::to_vec(&policy).unwrap()).unwrap();
    let token = directory.path().join("token");
    std::fs::write(&token, join).unwrap();
    Run {
        plane: plane.to_owned(),
        data: directory.path().join("host"),
        trust,
        trusted_root: None,
        name: Some("n".to_owned()),
        join_token_file: Some(token),
        label: Vec::new(),
        slots: 2,
        concurrency: 1,
        cancel_grace: CANCEL_GRACE,
        keep_cassettes: 1,
        keep_cassettes_megabytes: 1,
        code_cache_megabytes: 0,
        plain_http: Vec::new(),
        http_authority: Vec::new(),
        oci_layout: Vec::new(),
        nvml_library: None,
        nvml_environment: Vec::new(),
        kernel_log: "/dev/null".into(),
        telemetry: fettle_telemetry::Options::default(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plane_is_told_which_artifacts_are_kept() {
    let mut world = World::start(|lease| lease).await;
    let pull_request::Request::Hello(hello) = world.hears().await else { panic!("the stream begins with hello") };
    assert_eq!(hello.held_artifacts, [Digest::of(KEPT.as_bytes()).short()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_new_task_starts_before_the_plane_has_answered_once() {
    let world = World::start(|lease| lease).await;
    world.asked(3).await;
    assert!(!world.has_started(), "it started although nobody has said that the lease is its own");
    assert_eq!(world.held().await, [Epoch(1)]);
    world.plane.says.send_replace(Says::Held);
    world.starts().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_task_that_is_over_when_the_plane_answers_is_forgotten_and_never_starts() {
    let mut world = World::start(|lease| lease).await;
    assert!(matches!(world.hears().await, pull_request::Request::Hello(hello) if hello.free_slots == 2));
    world.asked(1).await;
    world.plane.says.send_replace(Says::Ended);
    // The slot is free again.
    while !matches!(world.hears().await, pull_request::Request::Free(free) if free.free_slots == 2) {}
    assert!(world.held().await.is_empty());
    assert!(!world.has_started(), "it started although it was over");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_ends_while_its_lease_is_lost_is_forgotten() {
    let mut world = World::start(|lease| lease).await;
    assert!(matches!(world.hears().await, pull_request::Request::Hello(hello) if hello.free_slots == 2));
    world.asked(1).await;
    world.plane.says.send_replace(Says::Lost);
    while !matches!(world.hears().await, pull_request::Request::Free(free) if free.free_slots == 2) {}
    assert_eq!(world.held().await, [Epoch(1)], "it may be leased again, and then goes on from where it was");
    world.plane.says.send_replace(Says::Ended);
    let forgotten = async {
        let mut asked = *world.plane.extensions.borrow();
        while !world.held().await.is_empty() {
            asked += 1;
            world.asked(asked).await;
        }
    };
    tokio::time::timeout(PATIENCE, forgotten).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_is_announced_again_after_a_lease_that_could_not_be_taken() {
    let mut world = World::start(|lease| Lease { task: "{}".to_owned(), ..lease }).await;
    assert!(matches!(world.hears().await, pull_request::Request::Hello(hello) if hello.free_slots == 2));
    assert!(matches!(world.hears().await, pull_request::Request::Free(free) if free.free_slots == 2));
    assert!(world.held().await.is_empty());
}
