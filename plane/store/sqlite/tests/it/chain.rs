//! The audit trail of a database file, and what somebody with the file does to it.

use std::{path::Path, sync::Arc};

use fettle_store::{
    Health as _,
    audit::{AuditStore as _, Refusal},
    chain::{Broken, Chain},
    laws::fixture,
    page::Page,
};
use fettle_store_sqlite::SqliteStore;
use sqlx::{AssertSqlSafe, Connection as _, SqliteConnection};

async fn open(file: &Path) -> SqliteStore {
    SqliteStore::open(file, Arc::new(())).await.unwrap()
}

/// Rows of refusals and of a denied call, by two lives of the store.
async fn written(file: &Path) {
    for round in 0..2 {
        let store = open(file).await;
        for number in 0..3 {
            let refusal = Refusal {
                scope: "platform".to_owned(),
                action: "token.create",
                resource_name: format!("tokens/{round}{number}"),
                code: "forbidden",
                details: None,
            };
            store.record_refusal(refusal, fixture::when(number)).await.unwrap();
        }
        store.close().await;
    }
}

async fn judged(file: &Path) -> Result<(u64, u64), Broken> {
    let store = open(file).await;
    let rows = store.audit(Page { after: None, size: 1000 }).await.unwrap();
    store.close().await;
    let mut chain = Chain::default();
    rows.iter().try_for_each(|row| chain.follow(row))?;
    chain.end()?;
    Ok(chain.rows())
}

async fn execute(file: &Path, statement: &str) {
    let mut connection = SqliteConnection::connect(file.to_str().unwrap()).await.unwrap();
    sqlx::query(AssertSqlSafe(statement.to_owned())).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

#[tokio::test]
async fn what_is_done_to_the_file_shows() {
    for (attack, expected) in [
        ("SELECT 1", Ok((6, 0))),
        ("DELETE FROM audit_logs WHERE sequence = 3", Err(Broken::Link(4))),
        ("DELETE FROM audit_logs WHERE sequence = 1", Err(Broken::Link(2))),
        ("UPDATE audit_logs SET result = 'ok' WHERE sequence = 5", Err(Broken::Link(5))),
        ("UPDATE audit_logs SET link = NULL WHERE sequence = 2", Err(Broken::Unlinked(2))),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("plane.db");
        written(&file).await;
        execute(&file, attack).await;
        assert_eq!(judged(&file).await, expected, "{attack}");
    }
}

#[tokio::test]
async fn rows_of_a_version_without_links_are_counted_and_followed_by_a_chain() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("plane.db");
    written(&file).await;
    execute(&file, "UPDATE audit_logs SET link = NULL").await;
    written(&file).await;
    assert_eq!(judged(&file).await, Ok((6, 6)));
}
