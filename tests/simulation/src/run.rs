//! One seed, from the first machine to the last law.

use std::{sync::Arc, time::Duration};

use fettle_host::{command, queue::Pressure, sandbox::Sandbox};
use fettle_model::digest::Digest;
use fettle_plane::administration::project;
use fettle_store::{
    StoreError,
    context::{Actor, Context},
    id::{JoinTokenId, TokenId},
    project::{Project, ProjectStore as _},
    secret::SecretHash,
    token::{Access, NewJoinToken, NewToken, ProjectRole, TokenStore as _},
};
use fettle_store_sqlite::SqliteStore;
use fettle_supply::{RegistryClient, RegistryOptions};
use jiff::Timestamp;
use tokio::runtime::{Builder, Runtime};
use ulid::Ulid;

use crate::{
    broken::Broken,
    chance::Chance,
    faults,
    fleet::{Ground, Seat, keep_host, keep_plane},
    laws::Eye,
    ledger::Ledger,
    library::Documents,
    machine::complete,
    net::{Link, Net},
    person::Person,
    trace::Trace,
};

/// How a seed ended.
#[derive(Debug)]
pub struct Outcome {
    /// Names everything that happened: the same for the same seed.
    pub digest: Digest,
    /// The laws that were broken.
    pub violations: Vec<String>,
    /// What happened, in one line.
    pub summary: String,
}

/// Where the nodes are, and which tenant's each is; the third is everybody's.
const HOSTS: [(&str, Option<&str>); 3] = [("node-a", Some("red")), ("node-b", Some("blue")), ("node-c", None)];

/// How long the first registrations may take.
const JOINING: Duration = Duration::from_secs(300);

/// What happens in a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// A few operations, and everything goes wrong that can.
    Trouble,
    /// Nothing goes wrong, and people submit operations until the certificates of nodes were renewed this often.
    Renewals(u64),
}

/// Simulates one seed. This process may do it once, and on its first thread.
///
/// # Panics
/// When what it stands on is broken: no temporary directory, say.
#[must_use]
pub fn simulate(seed: u64, course: Course, broken: Option<Broken>, told: bool) -> Outcome {
    let chance = Arc::new(Chance::begin(seed));
    // First, while there is no other thread: tokio counts what it seeds.
    let world = Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
    let disk = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a thread");
    let memory = std::path::Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let directory = tempfile::Builder::new().prefix("fettle-sim").tempdir_in(place).expect("a directory");
    let outcome = world.block_on(async {
        let trace = Arc::new(Trace::begin(told));
        let net = Net::new(&chance, &trace);
        let ground = Arc::new(ground(&net, directory.path(), &disk, (course, broken)));
        live(&ground, course).await
    });
    world.shutdown_background();
    disk.shutdown_background();
    outcome
}

fn ground(
    net: &Arc<Net>,
    directory: &std::path::Path,
    disk: &Runtime,
    (course, broken): (Course, Option<Broken>),
) -> Ground {
    let registry = RegistryClient::new(RegistryOptions::default()).expect("a client");
    let pressure = Pressure::default();
    Ground {
        net: Arc::clone(net),
        ledger: Ledger::new(&net.trace),
        documents: Arc::new(Documents::write()),
        directory: directory.to_owned(),
        disk: disk.handle().clone(),
        certificates_last: match course {
            Course::Trouble => Duration::from_secs(90),
            Course::Renewals(_) => Duration::from_secs(9),
        },
        broken,
        sandbox: Sandbox::new(1, fettle_host::sandbox::Limits::default()).expect("a sandbox"),
        node: command::node(directory.join("files"), registry, None, None, &pressure).expect("a node"),
    }
}

async fn live(ground: &Arc<Ground>, course: Course) -> Outcome {
    let file = ground.directory.join("plane.db");
    let store = complete(&ground.disk, SqliteStore::open(&file, Arc::new(()))).expect("the database opens");
    let (plane, people, joins) = (Seat::new("plane", ground), people(ground, &store), joins(ground, &store));
    let hosts = HOSTS.map(|(name, _)| Seat::new(name, ground));
    tokio::spawn(keep_plane(Arc::clone(ground), Arc::clone(&plane)));
    for (host, join) in hosts.iter().zip(joins) {
        tokio::spawn(keep_host(Arc::clone(ground), Arc::clone(host), join));
    }
    let (administrator, people) = people.split_first().expect("somebody");
    for body in &ground.documents.registrations {
        let (status, answer) = administrator.ask("POST", "/api/v1/admin/operation-definitions", body).await;
        assert!(status < 300, "a definition was refused: {status} {answer}");
    }
    let joined = async {
        while ground.ledger.nodes() < HOSTS.len() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(JOINING, joined).await.expect("all nodes join");
    match course {
        Course::Trouble => trouble(ground, people, (&plane, &hosts)).await,
        Course::Renewals(renewals) => calm(ground, people, renewals).await,
    }
    judge(ground, &store, people, &hosts).await
}

async fn trouble(ground: &Arc<Ground>, people: &[Arc<Person>], (plane, hosts): (&Arc<Seat>, &[Arc<Seat>])) {
    let mut at_work = Vec::new();
    for person in people {
        let (number, within) = (ground.net.chance.of(2..6), Duration::from_secs(40));
        at_work.push(tokio::spawn(Arc::clone(person).work(0..number, within)));
    }
    faults::trouble(ground, plane, hosts).await;
    for work in at_work {
        let _ = work.await;
    }
}

/// People work until the certificates were renewed this often. Nothing may be leased again or refused meanwhile, for
/// nothing goes wrong.
async fn calm(ground: &Arc<Ground>, people: &[Arc<Person>], renewals: u64) {
    let given = renewals + ground.ledger.certificates();
    let mut number = 0;
    while ground.ledger.certificates() < given {
        let work = people.iter().map(|person| Arc::clone(person).work(number..number + 1, Duration::from_secs(12)));
        futures::future::join_all(work).await;
        number += 1;
    }
    let ((again, _, _), refused) = (ground.ledger.seen(), ground.ledger.reports_refused());
    if again + refused > 0 {
        ground
            .net
            .trace
            .broken(format!("{again} tasks leased again and {refused} reports refused while nothing went wrong"));
    }
}

async fn judge(ground: &Arc<Ground>, store: &SqliteStore, people: &[Arc<Person>], hosts: &[Arc<Seat>]) -> Outcome {
    let eye = Eye { ground, store };
    let submitted: Vec<_> = people.iter().flat_map(|person| person.accepted()).collect();
    let over = eye.all_is_over(&submitted, hosts).await;
    if let Err(open) = &over {
        ground.net.trace.broken(format!("not over in time: {open}"));
    } else {
        eye.results_stand(&submitted, hosts);
    }
    eye.audit_chain_is_whole();
    let (again, stale, repeated) = ground.ledger.seen();
    let (digest, violations) = ground.net.trace.end();
    let summary = format!(
        "{} operations, {} certificates, over after {:?}; {again} leased again, {stale} stale, {repeated} told again",
        submitted.len(),
        ground.ledger.certificates(),
        over.unwrap_or(crate::laws::BOUND),
    );
    Outcome { digest, violations, summary }
}

fn tenant(name: &str) -> Project {
    project(name.parse().expect("a name"), Some(format!("org-{name}").parse().expect("a name"))).expect("a project")
}

fn made<T>(ground: &Ground, work: impl Future<Output = Result<T, StoreError>>) -> T {
    complete(&ground.disk, work).expect("the store answers")
}

fn ulid(ground: &Ground) -> Ulid {
    let mut bytes = [0; 16];
    ground.net.chance.fill(&mut bytes);
    Ulid::from_bytes(bytes)
}

fn context() -> Context {
    Context { actor: Actor::CommandLine, correlation_id: "simulation".to_owned(), at: Timestamp::UNIX_EPOCH }
}

/// An administrator, and one member of each tenant.
fn people(ground: &Arc<Ground>, store: &SqliteStore) -> Vec<Arc<Person>> {
    let person = |project: &'static str, nodes: &'static [&'static str]| {
        let token = format!("fettle_{}", ulid(ground));
        let access = match project {
            "" => Access::PlatformAdmin,
            name => {
                made(ground, store.ensure_project(tenant(name), context()));
                Access::Project { project: tenant(name), role: ProjectRole::Member }
            }
        };
        let id = TokenId::new(ulid(ground));
        let name = format!("somebody of {project}");
        let new = NewToken { id, name, access, hash: SecretHash::of(&token), expires_at: None };
        made(ground, store.create_token(new, context()));
        let (net, link) = (Arc::clone(&ground.net), Link::default());
        Arc::new(Person { project, token, nodes, net, link, submitted: std::sync::Mutex::default() })
    };
    vec![person("", &[]), person("red", &["node-a", "node-c"]), person("blue", &["node-b", "node-c"])]
}

/// What each node joins with. More than once: the answer may be lost.
fn joins(ground: &Arc<Ground>, store: &SqliteStore) -> Vec<String> {
    let join = |(_, owner): (&str, Option<&str>)| {
        // Behind the dot is what the plane is known by, which nobody asks for here.
        let token = format!("fettle_join_{}", ulid(ground));
        let id = JoinTokenId::new(ulid(ground));
        let hash = SecretHash::of(&token);
        let new = NewJoinToken {
            id,
            hash,
            uses: 9,
            owner: owner.map(tenant),
            labels: Default::default(),
            expires_at: Timestamp::MAX,
        };
        made(ground, store.create_join_token(new, context()));
        format!("{token}.{}", "0".repeat(64))
    };
    HOSTS.map(join).into()
}
