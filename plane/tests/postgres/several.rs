//! Three planes over one database, behind a client that asks one after the other.

use std::{
    collections::BTreeSet,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fettle_plane::{
    Plane, PlaneConfig, RunningPlane,
    administration::{Access, Administration, ProjectRole},
    artifact::ArtifactSource,
    database::Database,
};
use fettle_postgres_cluster::Cluster;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tonic::Code;

use crate::support::{host::FakeHost, in_project, request, shelf::Shelf, within};

const ADMIN: &str = "/api/v1/admin/operation-definitions";
const OPERATIONS: &str = "/api/v1/projects/demo/operations";

/// A plane on threads of its own, so that it can be stopped in the middle of everything.
struct Member {
    running: RunningPlane,
    threads: Option<Runtime>,
    _data: TempDir,
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(threads) = self.threads.take() {
            threads.shutdown_background();
        }
    }
}

struct Planes {
    members: Vec<Option<Member>>,
    next: AtomicUsize,
    http: reqwest::Client,
    shelf: Arc<Shelf>,
    admin: String,
    member: String,
    join: String,
    database: Database,
    elsewhere: TempDir,
    _cluster: Cluster,
}

async fn start(database: &Database, authorities: &Path, shelf: &Arc<Shelf>) -> Member {
    let data = tempfile::tempdir().unwrap();
    let mut config = PlaneConfig::new(data.path());
    config.database = database.clone();
    config.authority_directory = Some(authorities.to_owned());
    config.lease_duration = Duration::from_secs(600);
    config.acknowledge_timeout = Duration::from_secs(5);
    let shelf: Arc<dyn ArtifactSource> = Arc::<Shelf>::clone(shelf);
    let started = tokio::task::spawn_blocking(move || {
        let threads = Runtime::new().unwrap();
        let running = threads.block_on(Plane::start_with(config, shelf)).unwrap();
        (threads, running)
    });
    let (threads, running) = started.await.unwrap();
    Member { running, threads: Some(threads), _data: data }
}

impl Planes {
    async fn start() -> Option<Self> {
        let cluster = Cluster::start()?;
        let database = Database::Postgres(cluster.url("postgres").parse().unwrap());
        let shelf = Arc::new(Shelf::default());
        let elsewhere = tempfile::tempdir().unwrap();
        let authorities = elsewhere.path().join("authority");
        let member = || start(&database, &authorities, &shelf);
        let members = tokio::join!(member(), member(), member());
        let administration = Administration::open_in(elsewhere.path(), &database).await.unwrap();
        let (_, admin) = administration.create_token("admin", Access::PlatformAdmin, None).await.unwrap();
        let access = in_project("demo", ProjectRole::Member);
        let (_, member) = administration.create_token("member", access, None).await.unwrap();
        let join = administration.create_join_token(9, None, Duration::from_secs(3600)).await.unwrap();
        administration.close().await;
        let planes = Self {
            members: vec![Some(members.0), Some(members.1), Some(members.2)],
            next: AtomicUsize::new(0),
            http: reqwest::Client::new(),
            shelf,
            admin: admin.reveal().to_owned(),
            member: member.reveal().to_owned(),
            join: join.reveal().to_owned(),
            database,
            elsewhere,
            _cluster: cluster,
        };
        let body = planes.shelf.publish_noop();
        let (status, body) = planes.call(&planes.admin, Method::POST, ADMIN, Some(body)).await;
        assert_eq!(status, StatusCode::CREATED, "{body}");
        Some(planes)
    }

    fn plane(&self, number: usize) -> &RunningPlane {
        &self.members[number].as_ref().unwrap().running
    }

    /// Stops a plane as `kill -9` would: nothing of it runs on, nothing is said to anybody.
    fn kill(&mut self, number: usize) {
        self.members[number] = None;
    }

    /// Asks the next plane that is there.
    async fn call(&self, token: &str, method: Method, path: &str, body: Option<Value>) -> (StatusCode, Value) {
        let there: Vec<&Member> = self.members.iter().flatten().collect();
        let plane = &there[self.next.fetch_add(1, Ordering::Relaxed) % there.len()].running;
        let url = format!("http://{}{path}", plane.http_address());
        let mut request = self.http.request(method, url).bearer_auth(token);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.unwrap();
        (response.status(), response.json().await.unwrap_or(Value::Null))
    }

    async fn get(&self, path: &str) -> Value {
        let (status, body) = self.call(&self.member, Method::GET, path, None).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        body
    }

    async fn submitted(&self, node: &str) -> String {
        let (status, body) = self.call(&self.member, Method::POST, OPERATIONS, Some(request(node))).await;
        assert_eq!(status, StatusCode::CREATED, "{body}");
        format!("{OPERATIONS}/{}", body["operation_id"].as_str().unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn any_plane_takes_any_request_and_wakes_a_host_at_another_one() {
    let Some(planes) = Planes::start().await else { return };
    let mut host = FakeHost::join(planes.plane(0), &planes.join, "node-a", 2).await.unwrap();
    let mut pull = host.pull(&[], 1).await;
    for _ in 0..6 {
        let path = planes.submitted("node-a").await;
        // It waits at the first plane, whichever took the operation.
        let lease = pull.lease().await;
        host.execute(&lease).await;
        pull.free(1).await;
        for _ in 0..3 {
            let shown = planes.get(&path).await;
            assert_eq!(shown["status"], "succeeded", "{shown}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_at_one_plane_reaches_the_host_at_another_and_a_follower_at_the_third() {
    let Some(planes) = Planes::start().await else { return };
    let mut host = FakeHost::join(planes.plane(0), &planes.join, "node-a", 1).await.unwrap();
    let mut pull = host.pull(&[], 1).await;
    let path = planes.submitted("node-a").await;
    let lease = pull.lease().await;
    host.ack(&lease).await.unwrap();
    let events = format!("http://{}{path}/events?follow=true", planes.plane(2).http_address());
    let follower = planes.http.get(events).bearer_auth(&planes.member).send().await.unwrap();
    let cancel = format!("http://{}{path}/cancel", planes.plane(1).http_address());
    let answer = planes.http.post(cancel).bearer_auth(&planes.member).send().await.unwrap();
    assert!(answer.status().is_success(), "{}", answer.status());
    assert_eq!(pull.cancel().await, lease.task_id);
    host.complete(&lease, true).await.unwrap();
    // The stream ends with the operation.
    let told = within(follower.text()).await.unwrap();
    assert!(told.contains("operation.canceled"), "{told}");
}

/// What the containment tests allow one plane, from the revocation to the end of the node's streams.
const SOON: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_revoked_at_one_plane_is_heard_at_none() {
    let Some(planes) = Planes::start().await else { return };
    let mut host = FakeHost::join(planes.plane(0), &planes.join, "node-a", 1).await.unwrap();
    let mut pull = host.pull(&[], 1).await;
    planes.submitted("node-a").await;
    let lease = pull.lease().await;
    host.ack(&lease).await.unwrap();
    let mut elsewhere = host.reconnect(planes.plane(2));
    elsewhere.heartbeat().await.unwrap();
    let revoke = format!("http://{}/api/v1/nodes/node-a/revoke", planes.plane(1).http_address());
    let answer = planes.http.post(revoke).bearer_auth(&planes.admin).send().await.unwrap();
    assert!(answer.status().is_success(), "{}", answer.status());
    let lost = tokio::time::timeout(SOON, pull.next()).await.expect("its stream at the first plane ends").unwrap_err();
    assert!([Code::PermissionDenied, Code::Unavailable].contains(&lost.code()), "{lost}");
    let unheard = async { while elsewhere.heartbeat().await.is_ok() {} };
    tokio::time::timeout(SOON, unheard).await.expect("the third plane does not hear it any more");
    for plane in 0..3 {
        let mut again = host.reconnect(planes.plane(plane));
        assert!(again.extend(&lease).await.is_err() && again.complete(&lease, false).await.is_err(), "plane {plane}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_used_at_every_plane_at_once_makes_one_operation() {
    let Some(planes) = Planes::start().await else { return };
    FakeHost::join(planes.plane(0), &planes.join, "node-a", 1).await.unwrap();
    let mut body = request("node-a");
    body["idempotency_key"] = json!("once");
    let asked = (0..12).map(|_| planes.call(&planes.member, Method::POST, OPERATIONS, Some(body.clone())));
    let answers = futures::future::join_all(asked).await;
    assert!(answers.iter().all(|(status, _)| status.is_success()), "{answers:?}");
    let ids: BTreeSet<String> = answers.iter().map(|(_, body)| body["operation_id"].to_string()).collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plane_that_is_killed_takes_nothing_with_it() {
    let Some(mut planes) = Planes::start().await else { return };
    let mut host = FakeHost::join(planes.plane(0), &planes.join, "node-a", 1).await.unwrap();
    let mut pull = host.pull(&[], 1).await;
    let mut paths = Vec::new();
    for _ in 0..5 {
        paths.push(planes.submitted("node-a").await);
    }
    let held = pull.lease().await;
    host.ack(&held).await.unwrap();
    planes.kill(0);
    paths.push(planes.submitted("node-a").await);
    // The host goes on with what it holds, at another plane.
    let mut host = host.reconnect(planes.plane(1));
    let mut pull = host.pull(&[&held.task_id], 0).await;
    host.execute(&held).await;
    pull.free(1).await;
    for number in 0..5 {
        if number == 2 {
            planes.members[0] =
                Some(start(&planes.database, &planes.elsewhere.path().join("authority"), &planes.shelf).await);
        }
        let lease = pull.lease().await;
        assert_ne!(lease.task_id, held.task_id, "it was leased twice");
        host.execute(&lease).await;
        pull.free(1).await;
    }
    for path in paths {
        let shown = planes.get(&path).await;
        assert_eq!(shown["status"], "succeeded", "{shown}");
    }
}
