//! The SQLite store keeps the laws of every store.

use std::sync::Arc;

use fettle_store::{Health as _, Store, StoreError};
use fettle_store_sqlite::SqliteStore;
use sqlx::Connection as _;

async fn open() -> Option<(tempfile::TempDir, Arc<dyn Store>)> {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&directory.path().join("plane.db"), Arc::new(())).await.unwrap();
    Some((directory, Arc::new(store)))
}

fettle_store::laws!(open);

#[tokio::test]
async fn a_store_that_cannot_write_is_not_healthy() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("plane.db");
    let store = SqliteStore::open(&file, Arc::new(())).await.unwrap();
    store.check_health().await.unwrap();
    // Somebody else writes and does not end: as long as that lasts, nothing can be written here.
    let mut other = sqlx::SqliteConnection::connect(file.to_str().unwrap()).await.unwrap();
    sqlx::query("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    let error = store.check_health().await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { verb: "check_health", .. }), "{error}");
    sqlx::query("ROLLBACK").execute(&mut other).await.unwrap();
    store.check_health().await.unwrap();
}

#[test]
fn every_law_is_run() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../src/laws");
    let list = std::fs::read_to_string(directory.join("mod.rs")).unwrap();
    let mut laws = 0;
    for entry in std::fs::read_dir(&directory).unwrap() {
        for line in std::fs::read_to_string(entry.unwrap().path()).unwrap().lines() {
            let name = line.strip_prefix("pub async fn ").and_then(|rest| rest.strip_suffix("(store: &dyn Store) {"));
            if let Some(name) = name {
                assert!(list.contains(name), "law `{name}` is not in the list of `laws!`");
                laws += 1;
            }
        }
    }
    assert!(laws >= 40);
}
