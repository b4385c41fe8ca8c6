//! A server that is killed, connections that are cut, a pool that is used up, a database that cannot be used.

use std::{sync::Arc, time::Duration};

use crate::common::{Heard, eventually, raw, refusal, sum};
use fettle_postgres_cluster::Cluster;
use fettle_store::{
    Health as _, StoreError,
    audit::AuditStore as _,
    chain::{Broken, Chain},
    change::Change,
    laws::fixture::{self, all, when},
    project::ProjectStore as _,
    token::TokenStore as _,
};
use fettle_store_postgres::{Address, OpenError, PostgresStore};
use sqlx::AssertSqlSafe;

async fn open(cluster: &Cluster) -> (Arc<PostgresStore>, Arc<Heard>) {
    let heard = Arc::new(Heard::default());
    let address = cluster.url("postgres").parse().unwrap();
    (Arc::new(PostgresStore::open(&address, Arc::<Heard>::clone(&heard)).await.unwrap()), heard)
}

/// Writes projects one after the other until it is told to stop; answers how many, and which were answered with yes.
struct Writing {
    stop: tokio::sync::watch::Sender<bool>,
    task: tokio::task::JoinHandle<Vec<usize>>,
}

impl Writing {
    fn start(store: &Arc<PostgresStore>) -> Self {
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let store = Arc::clone(store);
        let task = tokio::spawn(async move {
            let mut written = Vec::new();
            for number in 0.. {
                match store.ensure_project(fixture::project(&format!("p{number}")), when(1)).await {
                    Ok(()) => written.push(number),
                    Err(StoreError::Unavailable { verb: "ensure_project", .. }) => {}
                    Err(error) => panic!("{error}"),
                }
                if *stopped.borrow() {
                    break;
                }
            }
            written
        });
        Self { stop, task }
    }

    async fn end(self) -> Vec<usize> {
        self.stop.send(true).unwrap();
        self.task.await.unwrap()
    }
}

async fn all_are_there(store: &PostgresStore, written: &[usize]) {
    assert!(!written.is_empty());
    for number in written {
        let name = fixture::project(&format!("p{number}")).project_id;
        assert!(store.project(&name).await.unwrap().is_some(), "{name} was answered with yes and is gone");
    }
    let mut chain = Chain::default();
    let mut after = None;
    loop {
        let rows = store.audit(fettle_store::page::Page { after, size: 500 }).await.unwrap();
        rows.iter().try_for_each(|row| chain.follow(row)).unwrap();
        let Some(last) = rows.last() else { break };
        after = Some(last.sequence);
    }
    assert!(chain.rows().0 >= u64::try_from(written.len()).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_answered_survives_a_killed_server_and_the_store_goes_on() {
    let Some(mut cluster) = Cluster::start() else { return };
    let (store, heard) = open(&cluster).await;
    let writing = Writing::start(&store);
    for _ in 0..2 {
        let told = heard.count(&Change::Everything);
        cluster = tokio::task::spawn_blocking(move || {
            cluster.kill();
            cluster.start_again();
            cluster
        })
        .await
        .unwrap();
        // What other planes told meanwhile was not heard.
        eventually(|| heard.count(&Change::Everything) > told).await;
    }
    let written = writing.end().await;
    store.check_health().await.unwrap();
    all_are_there(&store, &written).await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_answered_survives_connections_that_are_cut() {
    let Some(cluster) = Cluster::start() else { return };
    let (store, _) = open(&cluster).await;
    let mut other = raw(&cluster).await;
    let writing = Writing::start(&store);
    let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'fettle-plane'";
    for number in 0..20 {
        sum(&mut other, cut, "SELECT 1").await;
        // Reads go on too.
        store.project(&fixture::project(&format!("p{number}")).project_id).await.unwrap();
    }
    let written = writing.end().await;
    all_are_there(&store, &written).await;
}

#[tokio::test]
async fn a_server_that_is_away_is_said_within_a_bound() {
    let Some(mut cluster) = Cluster::start() else { return };
    let (store, _) = open(&cluster).await;
    cluster.kill();
    let limit = Duration::from_secs(20);
    let health = tokio::time::timeout(limit, store.check_health()).await.unwrap().unwrap_err();
    assert!(matches!(health, StoreError::Unavailable { verb: "check_health", .. }), "{health}");
    let write = store.ensure_project(fixture::project("demo"), when(1));
    let error = tokio::time::timeout(limit, write).await.unwrap().unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { verb: "ensure_project", .. }), "{error}");
}

#[tokio::test]
async fn readers_that_are_all_in_use_are_named_within_a_bound() {
    let Some(cluster) = Cluster::start() else { return };
    let (store, _) = open(&cluster).await;
    let mut other = raw(&cluster).await;
    sum(&mut other, "SELECT 1::bigint", "BEGIN; LOCK TABLE projects IN ACCESS EXCLUSIVE MODE").await;
    let name = fixture::project("demo").project_id;
    let blocked = futures::future::join_all((0..4).map(|_| store.project(&name)));
    let exhausted = async {
        let error = loop {
            // The first ones may come before the others have taken all connections.
            if let Err(error) = store.tokens().await {
                break error;
            }
        };
        sum(&mut other, "SELECT 1::bigint", "ROLLBACK").await;
        error
    };
    let (answers, error) =
        tokio::time::timeout(Duration::from_secs(20), async { tokio::join!(blocked, exhausted) }).await.unwrap();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("all 4 connections for reading were in use"), "{source}");
    assert!(answers.into_iter().all(|answer| answer.unwrap().is_none()));
    assert!(store.tokens().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_database_that_cannot_be_used_is_named_with_the_fix() {
    let nobody: Address = "postgres://fettle@127.0.0.1:1/plane".parse().unwrap();
    let refused = PostgresStore::open(&nobody, Arc::new(())).await.err().unwrap();
    assert!(matches!(&refused, OpenError::Unreachable { place, .. } if place == "127.0.0.1:1/plane"), "{refused}");
    let Some(cluster) = Cluster::start() else { return };
    let fails = async |user: &str, database: &str| {
        let address: Address = cluster.url_of(user, database).parse().unwrap();
        PostgresStore::open(&address, Arc::new(())).await.err().unwrap()
    };
    let missing = fails("fettle", "nothing").await;
    assert!(matches!(missing, OpenError::Missing { .. }), "{missing}");
    let login = fails("nobody", "postgres").await;
    assert!(matches!(login, OpenError::Login { .. }), "{login}");
    let mut other = raw(&cluster).await;
    for statement in ["CREATE ROLE guest LOGIN", "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0"] {
        sqlx::raw_sql(statement).execute(&mut other).await.unwrap();
    }
    let guest = fails("guest", "postgres").await;
    assert!(matches!(guest, OpenError::Right { .. }), "{guest}");
    let latin = fails("fettle", "latin").await;
    assert!(matches!(latin, OpenError::Encoding { .. }), "{latin}");
    open(&cluster).await.0.close().await;
    sqlx::raw_sql("UPDATE _sqlx_migrations SET version = 9999 WHERE version = 1").execute(&mut other).await.unwrap();
    let newer = fails("fettle", "postgres").await;
    assert!(matches!(newer, OpenError::Newer { version: 9999, .. }), "{newer}");
}

/// Rows of two lives of the store.
async fn trail(cluster: &Cluster) {
    for round in 0..2 {
        let (store, _) = open(cluster).await;
        for number in 0..3 {
            store.record_refusal(refusal(&format!("tokens/{round}{number}")), when(number)).await.unwrap();
        }
        store.close().await;
    }
}

#[tokio::test]
async fn what_is_done_to_the_trail_shows() {
    let Some(cluster) = Cluster::start() else { return };
    trail(&cluster).await;
    let mut other = raw(&cluster).await;
    let (store, _) = open(&cluster).await;
    for (attack, repair, expected) in [
        ("SELECT 1", "SELECT 1", Ok((6, 0))),
        (
            "UPDATE audit_logs SET result = 'ok' WHERE sequence = 5",
            "UPDATE audit_logs SET result = 'forbidden' WHERE sequence = 5",
            Err(Broken::Link(5)),
        ),
        ("DELETE FROM audit_logs WHERE sequence = 3", "SELECT 1", Err(Broken::Link(4))),
        ("UPDATE audit_logs SET link = NULL WHERE sequence = 2", "SELECT 1", Err(Broken::Unlinked(2))),
    ] {
        sqlx::raw_sql(AssertSqlSafe(attack.to_owned())).execute(&mut other).await.unwrap();
        let rows = store.audit(all()).await.unwrap();
        let mut chain = Chain::default();
        let judged = rows.iter().try_for_each(|row| chain.follow(row)).map(|()| chain.rows());
        assert_eq!(judged, expected, "{attack}");
        sqlx::raw_sql(AssertSqlSafe(repair.to_owned())).execute(&mut other).await.unwrap();
    }
}
