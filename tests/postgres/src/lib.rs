//! PostgreSQL servers for tests: a real one per [`Cluster`], in a directory of its own, on a Unix socket, with
//! nothing of its durability turned off. It ends with its value.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "only tests use it; they fail by panicking"
)]

mod copies;

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    os::unix::{
        fs::{PermissionsExt as _, chown},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// How often a server is started while the one before it, which was killed, still goes.
const STARTS: u32 = 100;

/// The superuser of every cluster. No password is asked for.
pub const SUPERUSER: &str = "fettle";

/// A running server.
pub struct Cluster {
    directory: TempDir,
    programs: PathBuf,
    user: Option<User>,
    arguments: Vec<String>,
    server: Option<Child>,
}

/// What a server shows that listens on loopback beside its socket, and whose certificates it believes; PEM.
pub struct Tls<'a> {
    /// Its certificate.
    pub certificate: &'a str,
    /// The key of that.
    pub key: &'a str,
    /// Who signs the certificates of clients.
    pub authority: &'a str,
}

/// Whom the server runs as when the tests run as root, which PostgreSQL refuses.
#[derive(Clone, Copy)]
struct User {
    id: u32,
    group: u32,
}

impl Cluster {
    /// Starts a server with one empty database; none where PostgreSQL is not installed, unless
    /// `FETTLE_TEST_ALL` is set: then that is a failure.
    #[must_use]
    pub fn start() -> Option<Self> {
        Self::prepare().map(|mut cluster| {
            cluster.start_again();
            cluster
        })
    }

    /// The same, over TLS too, at this port of 127.0.0.1: whoever connects there shows a certificate with the user's name.
    #[must_use]
    pub fn start_over_tls(tls: &Tls<'_>, port: u16) -> Option<Self> {
        let mut cluster = Self::prepare()?;
        let data = cluster.directory.path().join("data");
        let files = [
            ("server.crt", tls.certificate),
            ("server.key", tls.key),
            ("clients.crt", tls.authority),
            ("pg_hba.conf", HBA),
        ];
        for (name, content) in files {
            let path = data.join(name);
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            if let Some(user) = cluster.user {
                chown(&path, Some(user.id), Some(user.group)).unwrap();
            }
        }
        let settings = ["listen_addresses=127.0.0.1", "ssl=on", "ssl_ca_file=clients.crt"].map(str::to_owned);
        let port = format!("port={port}");
        cluster.arguments = settings.into_iter().chain([port]).flat_map(|setting| ["-c".to_owned(), setting]).collect();
        cluster.start_again();
        Some(cluster)
    }

    fn prepare() -> Option<Self> {
        let Some(programs) = programs() else {
            assert!(std::env::var_os("FETTLE_TEST_ALL").is_none(), "PostgreSQL is missing: apt-get install postgresql");
            return None;
        };
        let user = user();
        let directory = directory(user);
        copy(&template(&programs, user), &directory.path().join("data"));
        Some(Self { directory, programs, user, arguments: Vec::new(), server: None })
    }

    /// The address of a database of this server. `postgres` is there from the start.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        self.url_of(SUPERUSER, database)
    }

    /// The same for another user.
    #[must_use]
    pub fn url_of(&self, user: &str, database: &str) -> String {
        let socket = self.directory.path().display().to_string().replace('/', "%2F");
        format!("postgres://{user}@{socket}/{database}")
    }

    /// The directory with everything that was written, before anything of it was.
    #[must_use]
    pub fn write_ahead_log(&self) -> PathBuf {
        self.directory.path().join("data/pg_wal")
    }

    /// Ends the server as a power cut would.
    pub fn kill(&mut self) {
        self.end(Signal::KILL);
    }

    /// Starts the server on the data that is there.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start_again(&mut self) {
        for _ in 0..STARTS {
            if let Some(server) = self.spawn() {
                self.server = Some(server);
                return;
            }
            std::thread::park_timeout(Duration::from_millis(50));
        }
        panic!("PostgreSQL does not start in {}", self.directory.path().display());
    }

    /// None when it ended at once: what is left of the one before holds the data.
    fn spawn(&self) -> Option<Child> {
        let mut command = as_user(&self.programs.join("postgres"), self.user);
        command.arg("-D").arg(self.directory.path().join("data"));
        command.arg("-k").arg(self.directory.path());
        command.args(["-c", "listen_addresses=", "-c", "max_connections=50", "-c", "shared_buffers=32MB"]);
        command.args(&self.arguments);
        let mut server = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(server.stderr.take().unwrap());
        let mut line = String::new();
        while said.read_line(&mut line).unwrap() > 0 {
            if line.contains("ready to accept") {
                // What it says from now on is read away, so that it never waits for a reader.
                std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
                return Some(server);
            }
            line.clear();
        }
        server.wait().unwrap();
        None
    }

    fn end(&mut self, signal: Signal) {
        let Some(mut server) = self.server.take() else { return };
        let id = i32::try_from(server.id()).ok().and_then(Pid::from_raw).unwrap();
        kill_process(id, signal).unwrap();
        server.wait().unwrap();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.end(Signal::QUIT);
    }
}

/// Certificates over TCP, and nobody without TLS.
const HBA: &str = "local all all trust\nhostssl all all 127.0.0.1/32 cert\n";

/// Where the newest PostgreSQL of this machine has its programs.
fn programs() -> Option<PathBuf> {
    let mut versions: Vec<PathBuf> =
        fs::read_dir("/usr/lib/postgresql").ok()?.map(|entry| entry.unwrap().path().join("bin")).collect();
    versions.retain(|path| path.join("initdb").is_file() && path.join("postgres").is_file());
    versions.sort();
    versions.pop()
}

fn user() -> Option<User> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let fields = users.lines().find_map(|line| line.strip_prefix("postgres:")).unwrap();
    let mut numbers = fields.split(':').skip(1).map(|text| text.parse::<u32>().unwrap());
    Some(User { id: numbers.next().unwrap(), group: numbers.next().unwrap() })
}

/// A new directory that belongs to the server.
fn directory(user: Option<User>) -> TempDir {
    let directory = tempfile::Builder::new().prefix("fettle-pg").tempdir().unwrap();
    if let Some(user) = user {
        chown(directory.path(), Some(user.id), Some(user.group)).unwrap();
    }
    directory
}

fn as_user(program: &Path, user: Option<User>) -> Command {
    let mut command = Command::new(program);
    if let Some(user) = user {
        command.uid(user.id).gid(user.group);
    }
    command.current_dir("/").env("LC_ALL", "C");
    command
}

/// The data of a new server. Making it takes a second, copying it far less, so the first test makes it for all.
fn template(programs: &Path, user: Option<User>) -> PathBuf {
    let version = programs.parent().and_then(Path::file_name).unwrap().to_string_lossy().into_owned();
    let executable = std::env::current_exe().unwrap();
    let place = executable.ancestors().nth(2).unwrap().join(format!("postgresql-{version}"));
    let lock = File::create(place.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    if !place.exists() {
        let made = directory(user);
        let mut initdb = as_user(&programs.join("initdb"), user);
        initdb.args(["-A", "trust", "-U", SUPERUSER, "-E", "UTF8", "--locale=C", "--no-sync", "--wal-segsize=1", "-D"]);
        let said = initdb.arg(made.path().join("data")).output().unwrap();
        assert!(said.status.success(), "initdb: {}", String::from_utf8_lossy(&said.stderr));
        let unfinished = place.with_extension("unfinished");
        let _ = fs::remove_dir_all(&unfinished);
        copy(&made.path().join("data"), &unfinished);
        fs::rename(unfinished, &place).unwrap();
    }
    place
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
}
