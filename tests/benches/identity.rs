//! What certificates cost: new connections per second, and the round trip of a call about a lease on an open one. Both
//! over TLS and in clear, in turns, on the same plane.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot measure should stop")]

#[path = "../../plane/tests/it/support/member.rs"]
#[expect(dead_code, reason = "shared with tests")]
mod member;

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use axum::serve::ListenerExt as _;
use fettle_plane::{
    Plane, PlaneConfig, RunningPlane,
    administration::{Access, Administration, project},
};
use fettle_tests::Supply;
use fettle_wire::node::{
    AckRequest, ExtendRequest, HeartbeatRequest, PullHello, PullRequest, PullResponse, RegisterRequest,
    node_protocol_client::NodeProtocolClient, pull_request, pull_response,
};
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use member::{Client, Member};

const DEFINITION: &str = "operation_type: bench.lease\nversion: v1\nbackend_type: node_agent\ninput_schema: { type: object }\nsteps: [{ id: nothing, uses: noop@v1 }]\n";
/// Connections of each kind, and how many are made at the same time.
const CONNECTIONS: usize = 2_000;
const TOGETHER: usize = 4;
/// Round trips of each kind.
const CALLS: usize = 5_000;

/// A node, however it calls its plane.
struct Node {
    member: Member,
    way: Way,
}

enum Way {
    /// Over TLS.
    Certified(SocketAddr),
    /// To a listener that believes whoever comes.
    InClear(String),
}

fn facts(name: &str) -> RegisterRequest {
    RegisterRequest { name: name.to_owned(), host_version: "1".to_owned(), slots: 1, ..RegisterRequest::default() }
}

impl Node {
    async fn certified(ground: &Ground) -> Self {
        let member = ground.member("certified").await;
        Self { member, way: Way::Certified(ground.plane.node_address()) }
    }

    /// The same plane without TLS: whoever comes is taken for one who has shown the node's certificate.
    async fn in_clear(ground: &Ground) -> Self {
        let member = ground.member("in-clear").await;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let nodes = ground.plane.door().connection(&member.certificate).unwrap();
        let listener = listener.tap_io(|stream| stream.set_nodelay(true).unwrap());
        tokio::spawn(async move { axum::serve(listener, nodes).await });
        Self { member, way: Way::InClear(format!("http://{address}")) }
    }

    fn id(&self) -> String {
        self.member.node_id.clone()
    }

    /// A connection that was not there before.
    async fn client(&self) -> Client {
        match &self.way {
            Way::Certified(plane) => self.member.client(*plane),
            Way::InClear(plane) => NodeProtocolClient::connect(plane.clone()).await.unwrap(),
        }
    }

    /// Connects and says that it is alive.
    async fn arrive(&self) {
        let beat = HeartbeatRequest { node_id: self.id(), clock_milliseconds: 0 };
        self.client().await.heartbeat(beat).await.unwrap();
    }
}

/// A plane in this process: both ways lead to the same one.
struct Ground {
    plane: RunningPlane,
    administration: Administration,
    http: reqwest::Client,
    admin: String,
    _directory: tempfile::TempDir,
}

impl Ground {
    async fn new(supply: &Supply) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let config = PlaneConfig { trust_policy: Some(supply.trust.clone()), ..PlaneConfig::new(directory.path()) };
        let plane = Plane::start(config).await.unwrap();
        let administration = Administration::open(directory.path()).await.unwrap();
        administration.ensure_project(project("demo".parse().unwrap(), None).unwrap()).await.unwrap();
        let (_, admin) = administration.create_token("admin", Access::PlatformAdmin, None).await.unwrap();
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { plane, administration, http, admin: admin.reveal().to_owned(), _directory: directory }
    }

    async fn member(&self, name: &str) -> Member {
        let token = self.administration.create_join_token(1, None, Duration::from_secs(3600)).await.unwrap();
        Member::join(self.plane.node_address(), token.reveal(), facts(name)).await.unwrap()
    }

    async fn post(&self, path: &str, body: &Value) {
        let url = format!("http://{}{path}", self.plane.http_address());
        let answer = self.http.post(url).bearer_auth(&self.admin).json(body).send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
    }
}

/// Connections per second.
#[expect(clippy::cast_precision_loss, reason = "thousands")]
async fn connections(node: &Node) -> f64 {
    let begin = Instant::now();
    futures::stream::iter(0..CONNECTIONS).for_each_concurrent(TOGETHER, |_| node.arrive()).await;
    CONNECTIONS as f64 / begin.elapsed().as_secs_f64()
}

/// A node that holds a lease.
struct Holding {
    client: Client,
    extend: ExtendRequest,
    _requests: mpsc::Sender<PullRequest>,
    _leases: Streaming<PullResponse>,
}

async fn holding(ground: &Ground, node: &Node, name: &str) -> Holding {
    let mut client = node.client().await;
    let (requests, outgoing) = mpsc::channel(4);
    let hello = PullHello { node_id: node.id(), free_slots: 1, challenge: vec![7; 32], ..PullHello::default() };
    requests.send(PullRequest { request: Some(pull_request::Request::Hello(hello)) }).await.unwrap();
    let answer = client.pull(ReceiverStream::new(outgoing)).await;
    let mut leases = answer.unwrap().into_inner();
    let operation = json!({"operation_type": "bench.lease", "version": "v1", "inputs": {},
        "target_selector": {"node": name}, "idempotency_key": name});
    ground.post("/api/v1/projects/demo/operations", &operation).await;
    let lease = loop {
        // The first message says who signs.
        let message = leases.message().await.unwrap().unwrap().response.unwrap();
        if let pull_response::Response::Lease(lease) = message {
            break lease;
        }
    };
    let (node_id, task_id, epoch) = (node.id(), lease.task_id, lease.epoch);
    let ack = AckRequest { node_id: node_id.clone(), task_id: task_id.clone(), epoch };
    client.ack(ack).await.unwrap();
    Holding { client, extend: ExtendRequest { node_id, task_id, epoch }, _requests: requests, _leases: leases }
}

async fn round_trip(holding: &mut Holding) -> f64 {
    let request = holding.extend.clone();
    let begin = Instant::now();
    holding.client.extend(request).await.unwrap();
    begin.elapsed().as_secs_f64() * 1000.0
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn print(figure: &str, value: f64, unit: &str, in_clear: f64) {
    let round = |value: f64| (value * 1000.0).round() / 1000.0;
    println!(
        "{}",
        json!({"bench": "identity", "figure": figure, "value": round(value), "unit": unit,
            "baseline": "the same in clear", "baseline_value": round(in_clear), "ratio": round(value / in_clear)})
    );
}

#[tokio::main]
async fn main() {
    let supply = Supply::with(&["noop"]).await;
    let ground = Ground::new(&supply).await;
    let sources = supply.publish(DEFINITION, "revision: 1\n").await;
    ground.post("/api/v1/admin/operation-definitions", &sources).await;
    let (certified, in_clear) = (Node::certified(&ground).await, Node::in_clear(&ground).await);
    let (mut one, mut other) =
        (holding(&ground, &certified, "certified").await, holding(&ground, &in_clear, "in-clear").await);
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..CALLS {
        with.push(round_trip(&mut one).await);
        without.push(round_trip(&mut other).await);
    }
    let (with, without) = (median(with), median(without));
    print("lease_round_trip_p50", with, "ms", without);
    println!(
        "{}",
        json!({"bench": "identity", "figure": "added_p50", "value": ((with - without) * 1000.0).round() / 1000.0, "unit": "ms"})
    );
    connections(&certified).await;
    let (with, without) = (connections(&certified).await, connections(&in_clear).await);
    print("connections_per_s", with, "1/s", without);
}
