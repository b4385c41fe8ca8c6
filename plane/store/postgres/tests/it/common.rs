//! Stores over one database, and what the tests of this folder share.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use fettle_postgres_cluster::Cluster;
use fettle_store::{
    audit::Refusal,
    change::{Change, Listener},
};
use fettle_store_postgres::PostgresStore;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

/// Remembers what it is told.
#[derive(Default)]
pub(crate) struct Heard(Mutex<Vec<Change>>);

impl Listener for Heard {
    fn changed(&self, change: &Change) {
        self.0.lock().unwrap().push(change.clone());
    }
}

impl Heard {
    pub(crate) fn count(&self, change: &Change) -> usize {
        self.0.lock().unwrap().iter().filter(|heard| *heard == change).count()
    }

    pub(crate) fn has(&self, change: &Change) -> bool {
        self.count(change) > 0
    }
}

/// Two stores over one database.
pub(crate) struct Pair {
    pub(crate) first: PostgresStore,
    pub(crate) second: PostgresStore,
    pub(crate) heard_by_first: Arc<Heard>,
    pub(crate) heard_by_second: Arc<Heard>,
    pub(crate) cluster: Cluster,
}

impl Pair {
    /// None where PostgreSQL is not installed.
    pub(crate) async fn start() -> Option<Self> {
        let cluster = Cluster::start()?;
        let heard = [Arc::new(Heard::default()), Arc::new(Heard::default())];
        let address = cluster.url("postgres").parse().unwrap();
        // At once: both find that there are no tables yet.
        let open = |heard: &Arc<Heard>| PostgresStore::open(&address, Arc::<Heard>::clone(heard));
        let (first, second) = tokio::join!(open(&heard[0]), open(&heard[1]));
        let (first, second) = (first.unwrap(), second.unwrap());
        let [heard_by_first, heard_by_second] = heard;
        Some(Self { first, second, heard_by_first, heard_by_second, cluster })
    }
}

/// A connection beside the stores.
pub(crate) async fn raw(cluster: &Cluster) -> PgConnection {
    PgConnection::connect(&cluster.url("postgres")).await.unwrap()
}

/// Runs a statement, then one that answers a number.
pub(crate) async fn sum(connection: &mut PgConnection, number: &str, before: &str) -> i64 {
    sqlx::raw_sql(AssertSqlSafe(before.to_owned())).execute(&mut *connection).await.unwrap();
    sqlx::query_scalar(AssertSqlSafe(number.to_owned())).fetch_one(connection).await.unwrap()
}

pub(crate) fn refusal(resource_name: &str) -> Refusal {
    Refusal {
        scope: "platform".to_owned(),
        action: "token.create",
        resource_name: resource_name.to_owned(),
        code: "forbidden",
        details: None,
    }
}

/// Waits until something holds, and fails when it does not.
pub(crate) async fn eventually(holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(30), "it does not come");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
