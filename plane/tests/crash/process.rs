//! A plane in a process of its own that dies when it is told to, and is started again.

use std::{
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use fettle_plane::{Plane, PlaneConfig};
use tempfile::TempDir;

use crate::shelf::Shelf;

const CHILD: &str = "FETTLE_CRASH_TEST_DATA";
const READY: &str = "plane listens on ";

/// In the child: serves until it is killed. In the parent: nothing.
pub(crate) async fn serve() {
    let Some(data) = std::env::var_os(CHILD) else { return };
    let shelf = Shelf::default();
    shelf.publish_noop();
    let mut config = PlaneConfig {
        // Longer than the scenario: a lease must survive the restart, not expire.
        lease_duration: Duration::from_secs(60),
        acknowledge_timeout: Duration::from_millis(500),
        ..PlaneConfig::new(data)
    };
    config.webhooks.private.private.insert("127.0.0.1".to_owned(), ["127.0.0.0/8".parse().unwrap()].into());
    config.webhooks.claim = Duration::from_millis(600);
    let plane = Plane::start_with(config, Arc::new(shelf)).await.unwrap();
    println!("\n{READY}{} {}", plane.http_address(), plane.node_address());
    std::future::pending::<()>().await;
}

/// The data directory of one run.
pub(crate) struct Directory(TempDir);

impl Directory {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn data(&self) -> std::path::PathBuf {
        self.0.path().join("data")
    }

    fn trace_file(&self) -> std::path::PathBuf {
        self.0.path().join("trace")
    }

    /// The points that were passed, in order: `name:n`.
    pub(crate) fn trace(&self) -> Vec<String> {
        std::fs::read_to_string(self.trace_file()).unwrap().lines().map(str::to_owned).collect()
    }
}

/// Where a plane listens.
#[derive(Clone)]
pub(crate) struct Addresses {
    /// For people and programs.
    pub(crate) http: String,
    /// For nodes.
    pub(crate) nodes: SocketAddr,
}

/// A plane that is started again when it dies.
pub(crate) struct PlaneProcess<'a> {
    directory: &'a Directory,
    child: Child,
    address: Option<Addresses>,
    /// How often it was killed by a point.
    pub(crate) deaths: u32,
}

impl<'a> PlaneProcess<'a> {
    /// Starts it with a point to die at.
    pub(crate) fn start(directory: &'a Directory, crash_at: Option<&str>) -> Self {
        let (child, address) = spawn(&directory.data(), &directory.trace_file(), crash_at);
        Self { directory, child, address, deaths: 0 }
    }

    /// Where it listens now; started again if it is dead.
    pub(crate) fn address(&mut self) -> Addresses {
        loop {
            let dead = match &self.address {
                None => Some(self.child.wait().unwrap()),
                Some(_) => self.child.try_wait().unwrap(),
            };
            match (dead, &self.address) {
                (None, Some(address)) => return address.clone(),
                (None, None) => {}
                (Some(status), _) => {
                    assert_eq!(status.signal(), Some(9), "it died of its own: {status}");
                    self.deaths += 1;
                    let (child, address) = spawn(&self.directory.data(), &self.directory.trace_file(), None);
                    (self.child, self.address) = (child, address);
                }
            }
        }
    }
}

impl Drop for PlaneProcess<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts the child and waits for its address; none when it died before it listened.
fn spawn(data: &Path, trace: &Path, crash_at: Option<&str>) -> (Child, Option<Addresses>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "plane_process", "--nocapture"]).env(CHILD, data).env("FETTLE_CRASH_TRACE", trace);
    if let Some(point) = crash_at {
        command.env("FETTLE_CRASH_AT", point);
    }
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let address = lines.map_while(Result::ok).find_map(|line| addresses(line.strip_prefix(READY)?));
    (child, address)
}

fn addresses(line: &str) -> Option<Addresses> {
    let (http, nodes) = line.split_once(' ')?;
    Some(Addresses { http: http.to_owned(), nodes: nodes.parse().ok()? })
}
