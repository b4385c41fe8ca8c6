//! One plane and three hosts that are started again whenever they die.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use fettle_host::{
    agent::{Agent, Invitation, Settings},
    capabilities::Node,
    executor::{
        Executor, Shelf,
        journal::{Bounds, Journal},
        policies::Policies,
    },
    metrics::HostMetrics,
    queue::Pressure,
    refusals::Refusals,
    sandbox::Sandbox,
};
use fettle_plane::{PlaneConfig, artifact::ArtifactSource, simulation::SimulatedPlane};
use fettle_store_sqlite::SqliteStore;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::{
    broken::Broken,
    ledger::Ledger,
    library::Documents,
    line::Line,
    machine::{Clock, Machine, complete},
    net::{Link, Net, Plane, Shows},
    script::Effects,
    store::WatchedStore,
};

/// How long leases last here.
pub(crate) const LEASE: Duration = Duration::from_secs(10);

/// How long a canceled step may take to end by itself.
const CANCEL_GRACE: std::time::Duration = std::time::Duration::from_secs(10);

/// Cassettes that a host keeps: they cost time and tell nothing here.
const CASSETTES: Bounds = Bounds { count: 1, bytes: 1 << 20 };

/// What all machines share.
pub(crate) struct Ground {
    /// The network, with chance and trace.
    pub(crate) net: Arc<Net>,
    /// What the store was seen to do.
    pub(crate) ledger: Arc<Ledger>,
    /// Signed documents.
    pub(crate) documents: Arc<Documents>,
    /// Where databases are.
    pub(crate) directory: PathBuf,
    /// The threads of databases.
    pub(crate) disk: Handle,
    /// How long certificates of nodes count.
    pub(crate) certificates_last: Duration,
    /// What is broken.
    pub(crate) broken: Option<Broken>,
    /// Runs nothing here, but belongs to every host.
    pub(crate) sandbox: Sandbox,
    /// The same.
    pub(crate) node: Node,
}

/// A machine that has one life after another.
pub(crate) struct Seat {
    /// Its name.
    pub(crate) name: String,
    /// Its clock.
    pub(crate) clock: Arc<Clock>,
    /// Its cable.
    pub(crate) link: Arc<Link>,
    /// What happened on it; nothing on a plane.
    pub(crate) effects: Arc<Effects>,
    life: Mutex<Option<Arc<Machine>>>,
    journal: Mutex<Option<Journal>>,
}

impl Seat {
    /// Nobody lives there yet.
    #[must_use]
    pub(crate) fn new(name: &str, ground: &Ground) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            clock: Clock::new(&ground.net.trace),
            link: Arc::default(),
            effects: Effects::new(name, &ground.net),
            life: Mutex::default(),
            journal: Mutex::default(),
        })
    }

    /// The life of now, if there is one.
    pub(crate) fn life(&self) -> Option<Arc<Machine>> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner).clone().filter(|machine| !machine.dead.is_cancelled())
    }

    /// The journal of the host that lives there now.
    pub(crate) fn journal(&self) -> Option<Journal> {
        self.life()?;
        self.journal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn begin(&self, ground: &Ground) -> Arc<Machine> {
        let Net { chance, trace, .. } = &*ground.net;
        let machine = Machine::start(&self.name, &self.clock, chance, trace, &ground.disk);
        *self.life.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&machine));
        machine
    }
}

/// Keeps the plane alive.
pub(crate) async fn keep_plane(ground: Arc<Ground>, seat: Arc<Seat>) {
    loop {
        let machine = seat.begin(&ground);
        let started = tokio::select! {
            biased;
            () = machine.dead.cancelled() => None,
            started = start_plane(&ground, &machine) => Some(started),
        };
        if let Some(plane) = &started {
            let (router, door) = (plane.router(), plane.door());
            ground.net.set_plane(Some(Plane { router, door, machine: Arc::clone(&machine) }));
        }
        machine.dead.cancelled().await;
        ground.net.set_plane(None);
        drop(started);
        let away = if ground.net.chance.percent(70) { 50..3_000 } else { 3_000..30_000 };
        tokio::time::sleep(ground.net.chance.milliseconds(away)).await;
    }
}

async fn start_plane(ground: &Arc<Ground>, machine: &Arc<Machine>) -> SimulatedPlane {
    let mut config = PlaneConfig::new(&ground.directory);
    config.lease_duration = LEASE;
    config.acknowledge_timeout = LEASE / 2;
    config.rate_limit = None;
    config.certificate_lifetime = ground.certificates_last;
    let (opened, owner) = (Arc::clone(ground), Arc::clone(machine));
    let open = move |listener| {
        let file = opened.directory.join("plane.db");
        let inner = complete(&opened.disk, SqliteStore::open(&file, listener)).expect("the database opens");
        let (net, ledger) = (Arc::clone(&opened.net), Arc::clone(&opened.ledger));
        Arc::new(WatchedStore { inner, machine: owner, net, ledger, broken: opened.broken }) as Arc<_>
    };
    let artifacts: Arc<dyn ArtifactSource> = Arc::clone(&ground.documents) as Arc<_>;
    SimulatedPlane::start(config, open, artifacts, Arc::clone(machine) as Arc<_>).await.expect("the plane starts")
}

/// Keeps a host alive.
pub(crate) async fn keep_host(ground: Arc<Ground>, seat: Arc<Seat>, join_token: String) {
    loop {
        let machine = seat.begin(&ground);
        let running =
            tokio::spawn(live(Arc::clone(&ground), Arc::clone(&seat), Arc::clone(&machine), join_token.clone()));
        machine.dead.cancelled().await;
        running.abort();
        *seat.journal.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let away = if ground.net.chance.percent(70) { 50..3_000 } else { 3_000..40_000 };
        tokio::time::sleep(ground.net.chance.milliseconds(away)).await;
        if ground.broken == Some(Broken::JournalForgets) {
            for file in ["journal.sqlite", "journal.sqlite-wal", "journal.sqlite-shm"] {
                let _ = std::fs::remove_file(ground.directory.join(&seat.name).join(file));
            }
        }
    }
}

async fn live(ground: Arc<Ground>, seat: Arc<Seat>, machine: Arc<Machine>, join_token: String) {
    let directory = ground.directory.join(&seat.name);
    std::fs::create_dir_all(&directory).expect("a directory");
    let file = directory.join("journal.sqlite");
    let place = Arc::clone(&machine) as Arc<_>;
    let journal = Journal::open_in_place(&file, CASSETTES, place).await.expect("the journal opens");
    *seat.journal.lock().unwrap_or_else(PoisonError::into_inner) = Some(journal.clone());
    let clock = Arc::clone(&seat.clock);
    let script = Arc::clone(&seat.effects) as Arc<_>;
    let executor = Executor {
        sandbox: ground.sandbox.clone(),
        shelf: Shelf::of_library(ground.documents.library(script), ground.sandbox.clone()),
        node: ground.node.clone(),
        journal,
        clock: fettle_host::clock::Clock::from_fn(move || clock.now()),
        concurrency: 2,
        cancel_grace: CANCEL_GRACE,
        host_id: seat.name.clone().into(),
        pressure: Pressure::default(),
        metrics: HostMetrics::default(),
        refusals: Refusals::open(&directory).expect("a file"),
        policies: Policies::open(&directory).expect("a file"),
        handles: [0; 32].into(),
        lock: Arc::new(std::fs::File::create(directory.join("lock")).expect("a file")),
    };
    let settings = Settings {
        plane: "simulated".to_owned(),
        name: seat.name.clone(),
        invitation: Some(Invitation::Token(join_token)),
        data_directory: directory,
        slots: 2,
        capabilities: [("gpu.vendor".to_owned(), "nvidia".to_owned())].into(),
        labels: [("pool".to_owned(), "all".to_owned())].into(),
        policies: None,
    };
    let line = Line {
        net: Arc::clone(&ground.net),
        link: Arc::clone(&seat.link),
        machine: Arc::clone(&machine),
        shows: Shows::default(),
    };
    let ended = Agent::over(line, settings, executor).run(CancellationToken::new()).await;
    ground.net.trace.broken(format!("{} ended by itself: {ended:?}", seat.name));
}
