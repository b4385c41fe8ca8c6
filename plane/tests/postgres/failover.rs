//! A server that is gone for good: a standby takes its place and nothing is lost, or a copy of before does, and what it
//! does not know is refused in words.

use std::{path::PathBuf, sync::Arc, time::Duration};

use fettle_plane::{
    Plane, PlaneConfig, RunningPlane,
    administration::{Access, Administration, ProjectRole},
    artifact::ArtifactSource,
    database::Database,
};
use fettle_postgres_cluster::Cluster;
use fettle_store::chain::Chain;
use fettle_wire::node::{Lease, Verdict};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::{
    host::{FakeHost, started, succeeded},
    in_project, request,
    shelf::Shelf,
};

const OPERATIONS: &str = "/api/v1/projects/demo/operations";

/// Attempts, some 100 ms apart, until the plane has found its database again.
const ATTEMPTS: u32 = 300;

/// A plane whose database may be exchanged under it.
struct Failing {
    running: RunningPlane,
    http: reqwest::Client,
    member: String,
    host: FakeHost,
    database: Database,
    place: PathBuf,
    _directory: tempfile::TempDir,
}

impl Failing {
    async fn start(cluster: &Cluster) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("server");
        cluster.take_over(&place);
        let database = Database::Postgres(Cluster::url_at(&place).parse().unwrap());
        let mut config = PlaneConfig::new(directory.path().join("plane"));
        config.database = database.clone();
        config.lease_duration = Duration::from_secs(600);
        let shelf = Arc::new(Shelf::default());
        let artifacts: Arc<dyn ArtifactSource> = Arc::<Shelf>::clone(&shelf);
        let running = Plane::start_with(config, artifacts).await.unwrap();
        let administration = Administration::open_in(&directory.path().join("plane"), &database).await.unwrap();
        let (_, admin) = administration.create_token("admin", Access::PlatformAdmin, None).await.unwrap();
        let access = in_project("demo", ProjectRole::Member);
        let (_, member) = administration.create_token("member", access, None).await.unwrap();
        let join = administration.create_join_token(1, None, Duration::from_secs(3600)).await.unwrap();
        administration.close().await;
        let host = FakeHost::join(&running, join.reveal(), "node-a", 4).await.unwrap();
        let http = reqwest::Client::new();
        let member = member.reveal().to_owned();
        let failing = Self { running, http, member, host, database, place, _directory: directory };
        let body = shelf.publish_noop();
        let path = "/api/v1/admin/operation-definitions";
        assert_eq!(failing.ask(admin.reveal(), Method::POST, path, Some(&body)).await.0, StatusCode::CREATED);
        failing
    }

    /// Asks until the plane can answer.
    async fn ask(&self, token: &str, method: Method, path: &str, body: Option<&Value>) -> (StatusCode, Value) {
        let mut every = tokio::time::interval(Duration::from_millis(100));
        for _ in 0..ATTEMPTS {
            every.tick().await;
            let url = format!("http://{}{path}", self.running.http_address());
            let mut request = self.http.request(method.clone(), url).bearer_auth(token);
            if let Some(body) = body {
                request = request.json(body);
            }
            let response = request.send().await.unwrap();
            if !response.status().is_server_error() {
                return (response.status(), response.json().await.unwrap_or_default());
            }
        }
        panic!("{path}: the plane does not find its database");
    }

    async fn submit(&self, key: &str) -> String {
        let mut body = request("node-a");
        body["idempotency_key"] = json!(key);
        let (status, answer) = self.ask(&self.member, Method::POST, OPERATIONS, Some(&body)).await;
        assert!(status.is_success(), "{status}: {answer}");
        format!("{OPERATIONS}/{}", answer["operation_id"].as_str().unwrap())
    }

    async fn show(&self, path: &str) -> (StatusCode, Value) {
        self.ask(&self.member, Method::GET, path, None).await
    }

    /// Every row of the audit trail follows from the one before it.
    async fn audit_is_whole(&self) {
        let administration = Administration::open_in(self._directory.path(), &self.database).await.unwrap();
        let mut chain = Chain::default();
        let rows = administration.audit(None).await.unwrap();
        rows.iter().for_each(|row| chain.follow(row).unwrap());
        assert!(chain.rows().0 > 5, "{:?}", chain.rows());
        administration.close().await;
    }
}

/// The host reports the first step.
async fn begin(host: &mut FakeHost, lease: &Lease) {
    host.ack(lease).await.unwrap();
    let mut reports = host.reports().await;
    for (sequence, event) in [(1, started("first", 1)), (2, succeeded("first", json!({ "of": "first" })))] {
        assert_eq!(reports.say(lease, sequence, &event).await, Verdict::Accepted);
    }
}

/// The host reports everything, from the beginning, and the end.
async fn end(host: &mut FakeHost, lease: &Lease) -> Verdict {
    let mut reports = host.reports().await;
    let mut sequence = 0;
    for step in ["first", "second"] {
        for event in [started(step, 1), succeeded(step, json!({ "of": step }))] {
            sequence += 1;
            let verdict = reports.say(lease, sequence, &event).await;
            if verdict != Verdict::Accepted {
                return verdict;
            }
        }
    }
    host.complete(lease, false).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_takes_over_and_nothing_is_lost() {
    let Some(mut server) = Cluster::start() else { return };
    let mut standby = server.copied(true);
    standby.start_again();
    server.wait_for_standby();
    let mut failing = Failing::start(&server).await;
    let path = failing.submit("one").await;
    let mut host = failing.host.clone();
    let lease = host.pull(&[], 1).await.lease().await;
    begin(&mut host, &lease).await;
    server.kill();
    standby.promote();
    standby.take_over(&failing.place);
    let (status, shown) = failing.show(&path).await;
    assert_eq!((status, &shown["status"]), (StatusCode::OK, &json!("running")), "{shown}");
    let _pull = host.pull(&[&lease.task_id], 0).await;
    assert_eq!(end(&mut host, &lease).await, Verdict::Accepted);
    assert_eq!(failing.show(&path).await.1["status"], "succeeded");
    assert_eq!(failing.submit("one").await, path, "the key of before is known");
    failing.host = host;
    failing.audit_is_whole().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_before_is_consistent_and_refuses_what_it_does_not_know() {
    let Some(mut server) = Cluster::start() else { return };
    let failing = Failing::start(&server).await;
    let mut host = failing.host.clone();
    let mut pull = host.pull(&[], 4).await;
    let known = failing.submit("known").await;
    let kept = pull.lease().await;
    begin(&mut host, &kept).await;
    let mut copy = server.copied(false);
    let forgotten = failing.submit("forgotten").await;
    let lost = pull.lease().await;
    begin(&mut host, &lost).await;
    server.kill();
    copy.start_again();
    copy.take_over(&failing.place);
    assert_eq!(failing.show(&forgotten).await.0, StatusCode::NOT_FOUND);
    // The host is told to drop what nobody knows, and what it still says of it is refused.
    let mut pull = host.pull(&[&kept.task_id, &lost.task_id], 0).await;
    assert_eq!(pull.cancel().await, lost.task_id);
    assert_eq!(host.extend(&lost).await.unwrap().verdict(), Verdict::Ended);
    assert_eq!(end(&mut host, &lost).await, Verdict::Stale);
    // What is known goes on; what was told since the copy is told again.
    assert_eq!(end(&mut host, &kept).await, Verdict::Accepted);
    assert_eq!(failing.show(&known).await.1["status"], "succeeded");
    // Whoever asks again with the key of the operation that is gone gets a new one, and it is carried out.
    let again = failing.submit("forgotten").await;
    assert_ne!(again, forgotten);
    pull.free(1).await;
    let lease = pull.lease().await;
    host.execute(&lease).await;
    assert_eq!(failing.show(&again).await.1["status"], "succeeded");
    failing.audit_is_whole().await;
}
