//! A plane in this process, with verbs.

pub(crate) mod host;
pub(crate) mod member;
pub(crate) mod receiver;
pub(crate) mod shelf;
pub(crate) mod stream;

use std::{sync::Arc, time::Duration};

use fettle_plane::{
    Plane, PlaneConfig, RunningPlane,
    administration::{self, Access, Administration, ProjectRole},
    database::Database,
};
use fettle_postgres_cluster::Cluster;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

use self::{host::FakeHost, shelf::Shelf};

/// A started plane with a project `demo`.
pub(crate) struct TestPlane {
    pub(crate) running: RunningPlane,
    pub(crate) shelf: Arc<Shelf>,
    pub(crate) directory: TempDir,
    pub(crate) database: Database,
    cluster: Option<Cluster>,
    pub(crate) http: reqwest::Client,
    /// A platform administrator's token.
    pub(crate) admin: String,
    /// A member's token in project `demo`.
    pub(crate) member: String,
}

/// These tests are compiled twice: as `it` on SQLite, and as `postgres` on PostgreSQL.
const ON_POSTGRES: bool = matches!(env!("CARGO_CRATE_NAME").as_bytes(), b"postgres");

/// Starts a plane whose leases last long enough for any test.
pub(crate) async fn plane() -> TestPlane {
    plane_with(|_| {}).await
}

/// Starts a plane with another configuration.
pub(crate) async fn plane_with(change: impl FnOnce(&mut PlaneConfig)) -> TestPlane {
    let directory = tempfile::tempdir().unwrap();
    let mut config = PlaneConfig::new(directory.path());
    config.lease_duration = Duration::from_secs(600);
    config.acknowledge_timeout = Duration::from_secs(600);
    // Where PostgreSQL is not installed, both run on SQLite.
    let cluster = if ON_POSTGRES { Cluster::start() } else { None };
    if let Some(cluster) = &cluster {
        config.database = Database::Postgres(cluster.url("postgres").parse().unwrap());
    }
    let database = config.database.clone();
    change(&mut config);
    let shelf = Arc::new(Shelf::default());
    let source: Arc<dyn fettle_plane::artifact::ArtifactSource> = Arc::<Shelf>::clone(&shelf);
    let running = Plane::start_with(config, source).await.unwrap();
    let http = reqwest::Client::new();
    let (admin, member) = (String::new(), String::new());
    let plane = TestPlane { running, shelf, directory, database, cluster, http, admin, member };
    let admin = plane.token("admin", Access::PlatformAdmin).await;
    let member = plane.token("member", in_project("demo", ProjectRole::Member)).await;
    TestPlane { admin, member, ..plane }
}

/// Access to one project.
pub(crate) fn in_project(name: &str, role: ProjectRole) -> Access {
    Access::Project { project: administration::project(name.parse().unwrap(), None).unwrap(), role }
}

/// An answer: status and JSON.
pub(crate) type Answer = (StatusCode, Value);

impl TestPlane {
    /// What the command line does beside the running plane.
    pub(crate) async fn administration(&self) -> Administration {
        Administration::open_in(self.directory.path(), &self.database).await.unwrap()
    }

    /// All that was written, by the plane and by its database.
    pub(crate) fn written(&self) -> Vec<u8> {
        let logged = self.cluster.iter().map(Cluster::write_ahead_log);
        let places = logged.chain([self.directory.path().to_owned()]);
        let entries = places.flat_map(|place| std::fs::read_dir(place).unwrap().map(Result::unwrap));
        let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
        files.flat_map(|file| std::fs::read(file.path()).unwrap()).collect()
    }

    /// Creates a token beside the running plane.
    pub(crate) async fn token(&self, name: &str, access: Access) -> String {
        let administration = self.administration().await;
        let (_, secret) = administration.create_token(name, access, None).await.unwrap();
        administration.close().await;
        secret.reveal().to_owned()
    }

    /// The URL of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.running.http_address())
    }

    /// Sends a request with a token.
    pub(crate) async fn call(&self, token: &str, method: Method, path: &str, body: Option<Value>) -> Answer {
        let mut request = self.http.request(method, self.url(path)).bearer_auth(token);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.unwrap();
        let status = response.status();
        (status, response.json().await.unwrap_or(Value::Null))
    }

    /// Reads as the member.
    pub(crate) async fn get(&self, path: &str) -> Value {
        let (status, body) = self.call(&self.member, Method::GET, path, None).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        body
    }

    /// Publishes and registers `test.noop@v1`: `first` before `second`.
    pub(crate) async fn with_definition(&self) -> Value {
        let body = self.shelf.publish_noop();
        let path = "/api/v1/admin/operation-definitions";
        let (status, body) = self.call(&self.admin, Method::POST, path, Some(body)).await;
        assert_eq!(status, StatusCode::CREATED, "{body}");
        body
    }

    /// Joins a host with a fresh join token.
    pub(crate) async fn host(&self, name: &str, slots: u32) -> FakeHost {
        FakeHost::join(&self.running, &self.join_token(1).await, name, slots).await.unwrap()
    }

    /// Creates a join token.
    pub(crate) async fn join_token(&self, uses: u32) -> String {
        let administration = self.administration().await;
        let secret = administration.create_join_token(uses, None, Duration::from_secs(3600)).await.unwrap();
        administration.close().await;
        secret.reveal().to_owned()
    }

    /// Submits as the member.
    pub(crate) async fn submit(&self, body: Value) -> Answer {
        self.call(&self.member, Method::POST, "/api/v1/projects/demo/operations", Some(body)).await
    }

    /// Submits what must be accepted, and answers the operation's path.
    pub(crate) async fn submitted(&self, node: &str) -> String {
        let (status, body) = self.submit(request(node)).await;
        assert_eq!(status, StatusCode::CREATED, "{body}");
        format!("/api/v1/projects/demo/operations/{}", body["operation_id"].as_str().unwrap())
    }
}

/// A request for `test.noop@v1` that is as it should be.
pub(crate) fn request(node: &str) -> Value {
    json!({
        "operation_type": "test.noop",
        "version": "v1",
        "inputs": { "name": "llama", "count": 3 },
        "target_selector": { "node": node },
    })
}

/// The pointers of a problem's violations.
pub(crate) fn pointers(problem: &Value) -> Vec<&str> {
    problem["violations"].as_array().unwrap().iter().map(|violation| violation["pointer"].as_str().unwrap()).collect()
}

/// Waits for something, and fails when it does not come.
pub(crate) async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), what).await.expect("it comes within 20 seconds")
}

impl TestPlane {
    /// Stops the plane, lets time pass, and starts it again on the same data.
    pub(crate) async fn restart_after(self, away: Duration) -> Self {
        self.restart_with(away, |_| {}).await
    }

    /// The same with another configuration.
    pub(crate) async fn restart_with(self, away: Duration, change: impl FnOnce(&mut PlaneConfig)) -> Self {
        let Self { running, shelf, directory, database, cluster, http, admin, member } = self;
        running.shutdown().await;
        tokio::time::sleep(away).await;
        let mut config = PlaneConfig::new(directory.path());
        config.lease_duration = Duration::from_secs(600);
        config.database = database.clone();
        change(&mut config);
        let source: Arc<dyn fettle_plane::artifact::ArtifactSource> = Arc::<Shelf>::clone(&shelf);
        let running = Plane::start_with(config, source).await.unwrap();
        Self { running, shelf, directory, database, cluster, http, admin, member }
    }
}
