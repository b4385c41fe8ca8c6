//! The SQLite store keeps the laws of every store.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use fettle_store::Store;
use fettle_store_sqlite::SqliteStore;

async fn open() -> (tempfile::TempDir, Arc<dyn Store>) {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&directory.path().join("plane.db"), Arc::new(())).await.unwrap();
    (directory, Arc::new(store))
}

fettle_store::laws!(open);
