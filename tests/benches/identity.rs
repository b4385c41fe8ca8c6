//! What certificates cost: new connections per second, and the round trip of a call about a lease on an open one. Both
//! over TLS and in clear, in turns, on the same plane.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot measure should stop")]

#[path = "../containment/member.rs"]
#[expect(dead_code, reason = "shared with the attacks")]
mod member;

use std::{net::SocketAddr, time::Instant};

use fettle_tests::{Fleet, Programs, Supply};
use fettle_wire::node::{
    AckRequest, ExtendRequest, HeartbeatRequest, PullHello, PullRequest, PullResponse, RegisterRequest,
    node_protocol_client::NodeProtocolClient, pull_request, pull_response,
};
use futures::StreamExt as _;
use serde_json::json;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Streaming, metadata::AsciiMetadataValue};

use member::{Client, Member};

const PROGRAMS: Programs =
    Programs { host: env!("CARGO_BIN_EXE_host-under-test"), plane: env!("CARGO_BIN_EXE_plane-under-test") };
const DEFINITION: &str = "operation_type: bench.lease\nversion: v1\nbackend_type: node_agent\ninput_schema: { type: object }\nsteps: [{ id: nothing, uses: noop@v1 }]\n";
/// Connections of each kind, and how many are made at the same time.
const CONNECTIONS: usize = 2_000;
const TOGETHER: usize = 4;
/// Round trips of each kind.
const CALLS: usize = 5_000;

/// A node, however it calls its plane.
enum Node {
    Certified { member: Box<Member>, plane: SocketAddr },
    InClear { node_id: String, secret: AsciiMetadataValue, plane: String },
}

fn facts(name: &str) -> RegisterRequest {
    RegisterRequest { name: name.to_owned(), host_version: "1".to_owned(), slots: 1, ..RegisterRequest::default() }
}

fn bearer(secret: &str) -> AsciiMetadataValue {
    format!("Bearer {secret}").parse().unwrap()
}

impl Node {
    async fn certified(fleet: &Fleet) -> Self {
        let plane = fleet.planes.node_address().parse().unwrap();
        let member = Member::join(plane, &fleet.join_token(1).await, facts("certified")).await.unwrap();
        Self::Certified { member: Box::new(member), plane }
    }

    async fn in_clear(fleet: &Fleet) -> Self {
        let plane = fleet.plane_address();
        let mut client = NodeProtocolClient::connect(plane.clone()).await.unwrap();
        let mut request = Request::new(facts("in-clear"));
        request.metadata_mut().insert("authorization", bearer(&fleet.join_token(1).await));
        let joined = client.register(request).await.unwrap().into_inner();
        Self::InClear { node_id: joined.node_id, secret: bearer(&joined.secret), plane }
    }

    fn id(&self) -> String {
        match self {
            Self::Certified { member, .. } => member.node_id.clone(),
            Self::InClear { node_id, .. } => node_id.clone(),
        }
    }

    /// A connection that was not there before.
    async fn client(&self) -> Client {
        match self {
            Self::Certified { member, plane } => member.client(*plane),
            Self::InClear { plane, .. } => NodeProtocolClient::connect(plane.clone()).await.unwrap(),
        }
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Self::InClear { secret, .. } = self {
            request.metadata_mut().insert("authorization", secret.clone());
        }
        request
    }

    /// Connects and says that it is alive.
    async fn arrive(&self) {
        let beat = HeartbeatRequest { node_id: self.id(), clock_milliseconds: 0 };
        self.client().await.heartbeat(self.request(beat)).await.unwrap();
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

async fn holding(fleet: &Fleet, node: &Node, name: &str) -> Holding {
    let mut client = node.client().await;
    let (requests, outgoing) = mpsc::channel(4);
    let hello = PullHello { node_id: node.id(), free_slots: 1, ..PullHello::default() };
    requests.send(PullRequest { request: Some(pull_request::Request::Hello(hello)) }).await.unwrap();
    let answer = client.pull(node.request(ReceiverStream::new(outgoing))).await;
    let mut leases = answer.unwrap().into_inner();
    let (status, answer) = fleet.try_submit_on(name, "bench.lease", name).await.unwrap();
    assert!(status.is_success(), "{answer:#}");
    let message = leases.message().await.unwrap().unwrap().response.unwrap();
    let pull_response::Response::Lease(lease) = message else { unreachable!("nothing was canceled") };
    let (node_id, task_id, epoch) = (node.id(), lease.task_id, lease.epoch);
    let ack = AckRequest { node_id: node_id.clone(), task_id: task_id.clone(), epoch };
    client.ack(node.request(ack)).await.unwrap();
    Holding { client, extend: ExtendRequest { node_id, task_id, epoch }, _requests: requests, _leases: leases }
}

async fn round_trip(node: &Node, holding: &mut Holding) -> f64 {
    let request = node.request(holding.extend.clone());
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
    let mut fleet = Fleet::prepare(PROGRAMS, &supply.trust).await;
    fleet.planes.arguments.push("--clear-nodes".to_owned());
    fleet.planes.start().await;
    fleet.register(&supply.publish(DEFINITION, "revision: 1\n").await).await;
    let (certified, in_clear) = (Node::certified(&fleet).await, Node::in_clear(&fleet).await);
    let (mut one, mut other) =
        (holding(&fleet, &certified, "certified").await, holding(&fleet, &in_clear, "in-clear").await);
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..CALLS {
        with.push(round_trip(&certified, &mut one).await);
        without.push(round_trip(&in_clear, &mut other).await);
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
