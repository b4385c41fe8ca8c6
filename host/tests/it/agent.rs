//! The loop with the plane, against a plane that says what a test lets it say.

use std::{path::Path, sync::Arc};

use fettle_host::{
    agent::journal_path,
    command::{self, Run},
    executor::{CANCEL_GRACE, journal::Journal},
};
use fettle_identity::Role;
use fettle_model::{assignment::Assignment, digest::Digest, task::Epoch};
use fettle_wire::node::{Lease, pull_request, pull_response};
use serde_json::json;
use tokio::{net::TcpListener, sync::mpsc};
use tokio_util::sync::CancellationToken;

use crate::support::plane::{self, FakePlane, NODE, PATIENCE, Says, Script, certified, introduction, sealed, today};

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
    /// A host whose plane gives it this lease, on its first stream.
    async fn start(lease: fn(Lease) -> Lease) -> Self {
        let registry = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = registry.local_addr().unwrap().to_string();
        let authority = plane::authority();
        let signer = certified(&authority, &Role::TaskSigner, today());
        let given = std::sync::atomic::AtomicBool::new(false);
        let script: Script = Arc::new(move |challenge| {
            if given.swap(true, std::sync::atomic::Ordering::SeqCst) {
                return Vec::new();
            }
            let lease = lease(sealed(&signer, &assignment(&at, challenge)));
            vec![introduction(&signer), pull_response::Response::Lease(lease)]
        });
        let plane::Open { plane, address, requests, join_token } = plane::open(authority, script).await;
        let directory = tempfile::tempdir().unwrap();
        let kept = fettle_supply::ContentStore::open(&directory.path().join("host/artifacts")).unwrap();
        kept.write(KEPT.into()).await.unwrap();
        let agent = command::start(&settings(directory.path(), &address, &join_token)).await.unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(agent.run(stop.clone()));
        Self { plane, requests, registry, directory, stop }
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

/// A task whose artifacts are in this registry, for this stream.
pub(crate) fn assignment(registry: &str, challenge: &[u8]) -> Assignment {
    let reference = format!("{registry}/a@{}", Digest::of(b""));
    let task = json!({
        "task_id": "t", "operation_id": "o", "project_id": "p", "node_id": NODE, "correlation_id": "c",
        "sources": {"definition": reference, "catalog": reference, "policy": reference},
        "inputs": {}, "plan_digest": Digest::of(b"")
    });
    let (task, challenge) = (serde_json::from_value(task).unwrap(), hex::encode(challenge));
    Assignment { task, epoch: Epoch(1), challenge, number: 1, issued_at: 0 }
}

/// How a host is set up that trusts nobody's signature.
pub(crate) fn settings(directory: &Path, plane: &str, join: &str) -> Run {
    let trust = directory.join("trust.json");
    let key = fettle_supply::SigningKey::generate().unwrap();
    let policy = fettle_supply::TrustPolicy::any_of([("test".to_owned(), key.public().clone())]).unwrap();
    std::fs::write(&trust, serde_json::to_vec(&policy).unwrap()).unwrap();
    let token = directory.join("token");
    std::fs::write(&token, join).unwrap();
    Run {
        plane: plane.to_owned(),
        data: directory.join("host"),
        trust,
        trusted_root: None,
        name: Some(NODE.to_owned()),
        join_token_file: Some(token),
        policies: None,
        key_file: None,
        authority: None,
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
    // After each heartbeat the host asks about what it lost, before the next one.
    let mut heartbeats = world.plane.heartbeats.subscribe();
    let heard = *heartbeats.borrow_and_update();
    let asked = heartbeats.wait_for(|count| *count >= heard + 2);
    tokio::time::timeout(PATIENCE, asked).await.expect("the node is heard").unwrap();
    assert!(world.held().await.is_empty(), "nobody else says that it is over");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_is_announced_again_after_a_lease_that_could_not_be_taken() {
    let mut world = World::start(|lease| Lease { envelope: None, ..lease }).await;
    assert!(matches!(world.hears().await, pull_request::Request::Hello(hello) if hello.free_slots == 2));
    assert!(matches!(world.hears().await, pull_request::Request::Free(free) if free.free_slots == 2));
    assert!(world.held().await.is_empty());
}

/// More tasks than a connection has streams: 200 with the libraries as they come.
const MANY: u32 = 300;

#[tokio::test(flavor = "multi_thread")]
async fn however_many_tasks_a_host_has_no_call_waits_for_them() {
    // Connections are taken and nothing is answered: every task is on its way for ever.
    let registry = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = registry.local_addr().unwrap().to_string();
    let authority = plane::authority();
    let signer = certified(&authority, &Role::TaskSigner, today());
    let script: Script = Arc::new(move |challenge| {
        let lease = |number: u32| {
            let mut assignment = assignment(&at, challenge);
            (assignment.task.task_id, assignment.number) = (format!("t{number}"), number.into());
            pull_response::Response::Lease(sealed(&signer, &assignment))
        };
        std::iter::once(introduction(&signer)).chain((1..=MANY).map(lease)).collect()
    });
    let plane::Open { plane, address, join_token, .. } = plane::open(authority, script).await;
    plane.says.send_replace(Says::Held);
    let directory = tempfile::tempdir().unwrap();
    let settings = Run { slots: MANY, ..settings(directory.path(), &address, &join_token) };
    let agent = command::start(&settings).await.unwrap();
    let stop = CancellationToken::new();
    tokio::spawn(agent.run(stop.clone()));
    let (mut acknowledged, mut heartbeats) = (plane.acknowledged.subscribe(), plane.heartbeats.subscribe());
    let all = acknowledged.wait_for(|count| *count >= MANY);
    tokio::time::timeout(PATIENCE, all).await.expect("every task is acknowledged").unwrap();
    let before = *heartbeats.borrow_and_update();
    let later = heartbeats.wait_for(|count| *count > before);
    tokio::time::timeout(PATIENCE, later).await.expect("the node is heard").unwrap();
    stop.cancel();
}
