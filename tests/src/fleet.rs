//! Planes and a host as processes, and the verbs to use them with.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use fettle_model::digest::Digest;
use fettle_plane::{
    administration::{Access, Administration, ProjectRole, project},
    database::Database,
};
use fettle_postgres_cluster::Cluster;
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};

use crate::{Process, eventually, planes::Planes};

/// Where the programs are.
#[derive(Clone, Copy, Debug)]
pub struct Programs {
    /// `fettle-host`.
    pub host: &'static str,
    /// `fettle-plane`.
    pub plane: &'static str,
}

/// What a fleet's planes keep everything in.
pub enum On {
    /// One plane on SQLite.
    Sqlite,
    /// So many planes on a PostgreSQL server, which ends with the fleet.
    Postgres {
        /// The server.
        cluster: Cluster,
        /// How many planes.
        planes: usize,
    },
}

impl On {
    /// As `FETTLE_TEST_DATABASE` says: PostgreSQL when it is `postgres`, with as many planes as `FETTLE_TEST_PLANES`
    /// says, else SQLite.
    fn as_asked() -> Self {
        let planes = std::env::var("FETTLE_TEST_PLANES").map_or(1, |count| count.parse().expect("a number of planes"));
        match std::env::var("FETTLE_TEST_DATABASE").as_deref() {
            Ok("postgres") => Self::Postgres { cluster: Cluster::start().expect("PostgreSQL is installed"), planes },
            _ => {
                assert_eq!(planes, 1, "several planes need FETTLE_TEST_DATABASE=postgres");
                Self::Sqlite
            }
        }
    }
}

/// A plane, or several, with one host, `node-1`, and the project `demo`.
pub struct Fleet {
    /// The planes.
    pub planes: Planes,
    /// The host.
    pub host: Option<Process>,
    /// Extra environment of the host's next start.
    pub host_environment: Vec<(String, String)>,
    /// More arguments of the host.
    pub host_arguments: Vec<String>,
    /// By what the host joins; its join token.
    pub host_joins_by: Vec<String>,
    /// The trust policy of the host, which starts as that of the planes.
    pub host_trust: PathBuf,
    /// Where the host finds the plane, when that is not where the plane says that it listens.
    pub plane_seen_from_host: Option<String>,
    programs: Programs,
    directory: tempfile::TempDir,
    database: Database,
    admin: String,
    member: String,
    http: reqwest::Client,
    _cluster: Option<Cluster>,
}

/// How long anything may take here. Generous: the machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

impl Fleet {
    /// Prepares directories and tokens; nothing runs yet. What the planes are on is as `FETTLE_TEST_DATABASE` and
    /// `FETTLE_TEST_PLANES` say.
    pub async fn prepare(programs: Programs, trust: &Path) -> Self {
        Self::prepare_on(programs, trust, On::as_asked()).await
    }

    /// The same on this.
    pub async fn prepare_on(programs: Programs, trust: &Path, on: On) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (cluster, count) = match on {
            On::Sqlite => (None, 1),
            On::Postgres { cluster, planes } => (Some(cluster), planes),
        };
        let url = cluster.as_ref().map(|cluster| cluster.url("postgres"));
        let database = url.as_ref().map_or(Database::DataDirectory, |url| Database::Postgres(url.parse().unwrap()));
        let mut planes = Planes::prepare(programs.plane, trust, directory.path(), count).await;
        planes.environment.extend(url.map(|url| ("FETTLE_DATABASE_URL".to_owned(), url)));
        let administration = Administration::open_in(planes.directory(), &database).await.unwrap();
        let demo = project("demo".parse().unwrap(), None).unwrap();
        administration.ensure_project(demo.clone()).await.unwrap();
        let admin = administration.create_token("admin", Access::PlatformAdmin, None).await.unwrap();
        let member = administration
            .create_token("member", Access::Project { project: demo, role: ProjectRole::Admin }, None)
            .await
            .unwrap();
        let join = administration.create_join_token(10, None, Duration::from_secs(3600)).await.unwrap();
        administration.close().await;
        std::fs::write(directory.path().join("join-token"), join.reveal()).unwrap();
        // Each request over a connection of its own: what stands before several planes gives each to the next.
        let kept = if count > 1 { 0 } else { usize::MAX };
        let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(30)).pool_max_idle_per_host(kept);
        Self {
            planes,
            host: None,
            host_environment: Vec::new(),
            host_arguments: Vec::new(),
            host_joins_by: vec!["--join-token-file".to_owned(), text(&directory.path().join("join-token")).to_owned()],
            host_trust: trust.to_owned(),
            plane_seen_from_host: None,
            programs,
            database,
            admin: secret(&admin),
            member: secret(&member),
            http: http.build().unwrap(),
            directory,
            _cluster: cluster,
        }
    }

    /// Running planes and a running host.
    pub async fn start(programs: Programs, trust: &Path) -> Self {
        let mut fleet = Self::prepare(programs, trust).await;
        fleet.planes.start().await;
        fleet.start_host();
        fleet.node_online().await;
        fleet
    }

    /// Starts the host; it goes on from what is in its directory.
    pub fn start_host(&mut self) {
        let data = self.host_directory();
        let address = self.planes.node_address();
        let port = address.rsplit(':').next().unwrap_or_default();
        let seen = self.plane_seen_from_host.as_ref().map(|seen| format!("{seen}:{port}"));
        let plane = format!("https://{}", seen.as_ref().unwrap_or(&address));
        let mut arguments: Vec<String> =
            ["run", "--plane", &plane, "--data", text(&data), "--trust", text(&self.host_trust), "--name", "node-1"]
                .map(str::to_owned)
                .to_vec();
        arguments.extend(self.host_joins_by.clone());
        arguments.extend(self.host_arguments.clone());
        let log = self.directory.path().join("host.log");
        self.host = Some(Process::start(Path::new(self.programs.host), arguments, &self.host_environment, log));
    }

    /// What the host keeps.
    #[must_use]
    pub fn host_directory(&self) -> PathBuf {
        self.directory.path().join("host")
    }

    /// The planes' own data, for what no request can do or see.
    pub async fn administration(&self) -> Administration {
        Administration::open_in(self.planes.directory(), &self.database).await.unwrap()
    }

    /// A file below the host's files directory.
    #[must_use]
    pub fn node_file(&self, path: &str) -> PathBuf {
        self.host_directory().join("files").join(path)
    }

    /// Waits until the plane knows the node.
    pub async fn node_online(&self) {
        eventually("the node to be online", PATIENCE, || async {
            let nodes = self.get_as_admin("/api/v1/nodes").await?;
            nodes["items"].as_array()?.iter().any(|node| node["status"] == "online").then_some(())
        })
        .await;
    }

    /// Sends a request; none when the plane cannot be reached.
    pub async fn send(&self, method: Method, path: &str, token: &str, body: Option<&Value>) -> Option<Response> {
        let request = self.http.request(method, format!("{}{path}", self.plane_address())).bearer_auth(token);
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        request.send().await.ok()
    }

    /// GET as platform administrator.
    pub async fn get_as_admin(&self, path: &str) -> Option<Value> {
        let response = self.send(Method::GET, path, &self.admin, None).await?;
        response.status().is_success().then_some(())?;
        response.json().await.ok()
    }

    /// Registers a definition; the plane's answer.
    pub async fn try_register(&self, sources: &Value) -> (StatusCode, Value) {
        let response =
            self.send(Method::POST, "/api/v1/admin/operation-definitions", &self.admin, Some(sources)).await.unwrap();
        let status = response.status();
        (status, response.json().await.unwrap_or_default())
    }

    /// Registers a definition; false when the plane could not be reached or had trouble of its own.
    pub async fn send_registration(&self, sources: &Value) -> bool {
        let sent = self.send(Method::POST, "/api/v1/admin/operation-definitions", &self.admin, Some(sources)).await;
        sent.is_some_and(|response| response.status().is_success())
    }

    /// Registers a definition, and insists.
    pub async fn register(&self, sources: &Value) {
        let (status, answer) = self.try_register(sources).await;
        assert!(status.is_success(), "{status}: {answer:#}");
    }

    /// Submits an operation on `node-1`; the plane's answer, or none when it could not be reached.
    pub async fn try_submit(&self, operation_type: &str, inputs: &Value, key: &str) -> Option<(StatusCode, Value)> {
        let body = json!({"operation_type": operation_type, "version": "v1", "inputs": inputs, "target_selector": {"node": "node-1"}, "idempotency_key": key});
        let response = self.send(Method::POST, "/api/v1/projects/demo/operations", &self.member, Some(&body)).await?;
        let status = response.status();
        Some((status, response.json().await.ok()?))
    }

    /// Submits an operation without inputs on one node; the plane's answer, or none when it could not be reached.
    pub async fn try_submit_on(&self, node: &str, operation_type: &str, key: &str) -> Option<(StatusCode, Value)> {
        let body = json!({"operation_type": operation_type, "version": "v1", "inputs": {}, "target_selector": {"node": node}, "idempotency_key": key});
        let response = self.send(Method::POST, "/api/v1/projects/demo/operations", &self.member, Some(&body)).await?;
        let status = response.status();
        Some((status, response.json().await.ok()?))
    }

    /// Where the plane listens.
    #[must_use]
    pub fn plane_address(&self) -> String {
        format!("http://{}", self.planes.address())
    }

    /// A join token for so many nodes.
    pub async fn join_token(&self, uses: u32) -> String {
        let administration = self.administration().await;
        let token = administration.create_join_token(uses, None, Duration::from_secs(3600)).await.unwrap();
        administration.close().await;
        token.reveal().to_owned()
    }

    /// Submits an operation, and insists.
    pub async fn submit(&self, operation_type: &str, inputs: &Value) -> String {
        let key = Digest::of(format!("{operation_type} {inputs}").as_bytes()).hex();
        let (status, answer) = self.try_submit(operation_type, inputs, &key).await.expect("the plane answers");
        assert!(status.is_success(), "{status}: {answer:#}");
        answer["operation_id"].as_str().unwrap().to_owned()
    }

    /// Submits an operation below a span of the client; its id, and where the plane says that it goes on.
    pub async fn submit_in_trace(&self, operation_type: &str, inputs: &Value, parent: &str) -> (String, String) {
        let body = json!({"operation_type": operation_type, "version": "v1", "inputs": inputs, "target_selector": {"node": "node-1"}});
        let request = self.http.post(format!("{}/api/v1/projects/demo/operations", self.plane_address()));
        let request = request.bearer_auth(&self.member).header("traceparent", parent).json(&body);
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), StatusCode::CREATED);
        let place = response.headers()["traceparent"].to_str().unwrap().to_owned();
        let answer: Value = response.json().await.unwrap();
        (answer["operation_id"].as_str().unwrap().to_owned(), place)
    }

    /// Everything that nobody may tell: tokens, and the node's own key.
    #[must_use]
    pub fn secrets(&self) -> Vec<String> {
        let read = |path: PathBuf| std::fs::read_to_string(path).unwrap();
        let identity: Value = serde_json::from_str(&read(self.host_directory().join("certificate.json"))).unwrap();
        let join = read(self.directory.path().join("join-token"));
        vec![
            self.admin.clone(),
            self.member.clone(),
            join,
            identity["key"].as_str().unwrap().lines().nth(1).unwrap().to_owned(),
        ]
    }

    /// Where the first plane serves its metrics.
    #[must_use]
    pub fn plane_metrics(&self) -> String {
        let printed = self.planes.first().map(Process::printed).unwrap_or_default();
        let line = printed.lines().find_map(|line| line.split("serves metrics at ").nth(1));
        line.expect("the plane serves metrics").trim().to_owned()
    }

    /// Where the host serves its metrics.
    #[must_use]
    pub fn host_metrics(&self) -> String {
        let printed = self.host.as_ref().map(Process::printed).unwrap_or_default();
        let mut lines = printed.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let line = lines.find(|line| line["message"] == "metrics are served").expect("the host serves metrics");
        format!("http://{}/metrics", line["address"].as_str().unwrap())
    }

    /// Every number that is served there, by its name and labels.
    pub async fn metrics(&self, url: &str) -> BTreeMap<String, f64> {
        let text = self.http.get(url).send().await.unwrap().text().await.unwrap();
        let lines = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '));
        lines.map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect()
    }

    /// One operation as the plane shows it.
    pub async fn operation(&self, id: &str) -> Option<Value> {
        let response =
            self.send(Method::GET, &format!("/api/v1/projects/demo/operations/{id}"), &self.member, None).await?;
        response.status().is_success().then_some(())?;
        response.json().await.ok()
    }

    /// Anything of the project `demo`.
    pub async fn get(&self, path: &str) -> Option<Value> {
        let response = self.send(Method::GET, &format!("/api/v1/projects/demo{path}"), &self.member, None).await?;
        response.json().await.ok()
    }

    /// Does something to an operation: `retry`, `force-probe`, `recover`.
    pub async fn act(&self, id: &str, what: &str, body: &Value) -> (StatusCode, Value) {
        let path = format!("/api/v1/projects/demo/operations/{id}/{what}");
        let response = self.send(Method::POST, &path, &self.member, Some(body)).await.expect("the plane answers");
        (response.status(), response.json().await.unwrap_or_default())
    }

    /// Revokes a node's certificates.
    pub async fn revoke(&self, node: &str) {
        let path = format!("/api/v1/nodes/{node}/revoke");
        let response = self.send(Method::POST, &path, &self.admin, None).await.unwrap();
        assert!(response.status().is_success(), "{}", response.status());
    }

    /// Cancels an operation.
    pub async fn cancel(&self, id: &str) {
        let response = self
            .send(Method::POST, &format!("/api/v1/projects/demo/operations/{id}/cancel"), &self.member, None)
            .await
            .unwrap();
        assert!(response.status().is_success(), "{}", response.status());
    }

    /// Waits until an operation has ended.
    pub async fn ended(&self, id: &str) -> Value {
        self.until(id, |operation| matches!(operation["status"].as_str(), Some("succeeded" | "failed" | "canceled")))
            .await
    }

    /// Follows the events of an operation until it is over, as whoever waits for it does.
    pub async fn follow(&self, id: &str) {
        let path = format!("/api/v1/projects/demo/operations/{id}/events?follow=true");
        let response = self.send(Method::GET, &path, &self.member, None).await.expect("the plane answers");
        let events = response.text().await.expect("the stream comes to its end");
        assert!(events.contains("event: end"), "{events}");
    }

    /// Waits until an operation is as `check` wants it.
    pub async fn until(&self, id: &str, check: impl Fn(&Value) -> bool) -> Value {
        let limit = PATIENCE * 2;
        eventually("the operation to get there", limit, || async {
            self.operation(id).await.filter(|operation| check(operation))
        })
        .await
    }

    /// Submits, waits, and answers the operation as it ended.
    pub async fn run(&self, operation_type: &str, inputs: &Value) -> Value {
        let id = self.submit(operation_type, inputs).await;
        self.ended(&id).await
    }

    /// What planes and host have printed, for a failing test.
    #[must_use]
    pub fn logs(&self) -> String {
        let host = std::fs::read_to_string(self.directory.path().join("host.log")).unwrap_or_default();
        format!("{}\n--- host\n{host}", self.planes.logs())
    }
}

/// One step of an operation.
#[must_use]
pub fn step<'a>(operation: &'a Value, id: &str) -> &'a Value {
    operation["steps"]
        .as_array()
        .and_then(|steps| steps.iter().find(|step| step["step_id"] == id))
        .unwrap_or_else(|| panic!("there is no step {id} in {operation:#}"))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn secret(created: &(impl Sized, fettle_plane::administration::Secret)) -> String {
    created.1.reveal().to_owned()
}

impl Drop for Fleet {
    /// Every scenario ends with the replay of all that its host has recorded; none has to ask for it.
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        } else {
            self.insist_on_replay();
        }
    }
}
