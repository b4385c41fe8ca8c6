//! Attackers beside honest steps, how long the honest ones take, and what is left when the attackers end.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use procfs::CurrentSI as _;

use super::attacks::{Attack, Field};

/// Attacks at once.
const ATTACKERS: usize = 12;
/// Honest steps that are measured at least.
const LEAST: usize = 8;

/// A sequence that looks random and can be repeated.
pub(crate) struct Order(pub(crate) u64);

impl Order {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

/// How long honest steps took.
#[derive(Default)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    pub(crate) fn add(&mut self, others: Self) {
        self.0.extend(others.0);
        self.0.sort();
    }

    /// So many of a hundred took no longer.
    fn percentile(&self, percent: usize) -> Duration {
        self.0[(self.0.len() * percent / 100).min(self.0.len() - 1)]
    }

    pub(crate) fn median(&self) -> Duration {
        self.percentile(50)
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (median, most) = (self.percentile(50), self.percentile(90));
        write!(f, "median {median:.1?}, 90th percentile {most:.1?} of {} honest steps", self.0.len())
    }
}

/// What the machine computed up to now: for whom, and what it could have.
pub(crate) struct Computed {
    own: u64,
    busy: u64,
    whole: u64,
}

impl Computed {
    pub(crate) fn now() -> Self {
        let own = procfs::process::Process::myself().unwrap().stat().unwrap();
        let children = u64::try_from(own.cutime + own.cstime).unwrap_or_default();
        let machine = procfs::KernelStats::current().unwrap().total;
        let busy = machine.user + machine.nice + machine.system + machine.steal.unwrap_or_default();
        Self { own: own.utime + own.stime + children, busy, whole: busy + machine.idle }
    }

    /// How many percent of the machine other programs took since then.
    pub(crate) fn others_since(&self) -> u64 {
        let now = Self::now();
        let others = (now.busy - self.busy).saturating_sub(now.own - self.own);
        100 * others / (now.whole - self.whole).max(1)
    }
}

/// How often each attack was launched. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Tally(Arc<Mutex<BTreeMap<&'static str, usize>>>);

impl Tally {
    fn count(&self, attack: &Attack) {
        *self.0.lock().unwrap().entry(attack.name).or_default() += 1;
    }

    pub(crate) fn of(&self, name: &str) -> usize {
        self.0.lock().unwrap().get(name).copied().unwrap_or_default()
    }

    pub(crate) fn all(&self) -> usize {
        self.0.lock().unwrap().values().sum()
    }
}

/// Honest steps, one after the other for so long and so many at least: beside attackers, they begin when
/// those have begun.
pub(crate) async fn honest(field: &Arc<Field>, period: Duration) -> Times {
    let field = Arc::clone(field);
    // Not on the thread of the test, which has nothing else to do.
    let steps = tokio::spawn(async move {
        let (attack, end) = (Attack::honest(), Instant::now() + period);
        let mut times = Times::default();
        while times.0.len() < LEAST || Instant::now() < end {
            let begin = Instant::now();
            field.launch(&attack).await.unwrap();
            times.0.push(begin.elapsed());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        times.0.sort();
        times
    });
    steps.await.unwrap()
}

/// The same beside attackers, each of which launches one of `attacks` after the other.
pub(crate) async fn beside(
    field: &Arc<Field>,
    attacks: &Arc<Vec<Attack>>,
    seed: u64,
    period: Duration,
    tally: &Tally,
) -> Times {
    let stop = Arc::new(AtomicBool::new(false));
    let attackers: Vec<_> = (0..ATTACKERS)
        .map(|attacker| {
            let order = Order(seed.wrapping_add(attacker as u64));
            let attacks = attack(Arc::clone(field), Arc::clone(attacks), order, Arc::clone(&stop), tally.clone());
            tokio::spawn(attacks)
        })
        .collect();
    let times = honest(field, period).await;
    stop.store(true, Ordering::Relaxed);
    for attacker in attackers {
        attacker.await.unwrap();
    }
    times
}

async fn attack(field: Arc<Field>, attacks: Arc<Vec<Attack>>, mut order: Order, stop: Arc<AtomicBool>, tally: Tally) {
    while !stop.load(Ordering::Relaxed) {
        let attack = &attacks[order.below(attacks.len())];
        tally.count(attack);
        field.outcome(attack).await;
    }
}
