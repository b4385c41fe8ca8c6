//! Backups of a database that is written to meanwhile, and what is restored from them.

use std::{os::unix::fs::PermissionsExt as _, path::Path, sync::Arc};

use fettle_store::{
    Health as _, audit::AuditStore as _, chain::Chain, laws::fixture, page::Page, project::ProjectStore as _,
};
use fettle_store_sqlite::{
    SqliteStore,
    copy::{BEFORE_RESTORE, CopyError, backup, check, restore},
};
use sqlx::{Connection as _, SqliteConnection};

async fn open(file: &Path) -> SqliteStore {
    SqliteStore::open(file, Arc::new(())).await.unwrap()
}

/// How many rows the audit trail has, each linked with the one before it.
async fn rows(file: &Path) -> usize {
    let store = open(file).await;
    let rows = store.audit(Page { after: None, size: 1000 }).await.unwrap();
    let mut chain = Chain::default();
    rows.iter().try_for_each(|row| chain.follow(row)).unwrap();
    store.close().await;
    rows.len()
}

async fn project(store: &SqliteStore, number: usize) {
    store.ensure_project(fixture::project(&format!("p{number}")), fixture::when(1)).await.unwrap();
}

#[tokio::test]
async fn a_backup_of_a_store_that_is_written_to_is_sound_and_restores_what_was_there() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let store = open(&path("plane.db")).await;
    for number in 0..5 {
        project(&store, number).await;
    }
    backup(&path("plane.db"), &path("backup.db")).await.unwrap();
    for number in 5..9 {
        project(&store, number).await;
    }
    check(&path("backup.db")).await.unwrap();
    assert_eq!(std::fs::metadata(path("backup.db")).unwrap().permissions().mode() & 0o777, 0o600);
    store.close().await;

    restore(&path("backup.db"), &path("other.db"), false).await.unwrap();
    assert_eq!((rows(&path("other.db")).await, rows(&path("plane.db")).await), (5, 9));
    restore(&path("backup.db"), &path("plane.db"), true).await.unwrap();
    assert_eq!(rows(&path("plane.db")).await, 5);
    assert_eq!(rows(&path(&format!("plane.db{BEFORE_RESTORE}"))).await, 9, "what was there is put aside");
}

#[tokio::test]
async fn nothing_is_lost_when_a_backup_is_not_restored() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let store = open(&path("plane.db")).await;
    project(&store, 1).await;
    backup(&path("plane.db"), &path("backup.db")).await.unwrap();
    let used = restore(&path("backup.db"), &path("plane.db"), true).await;
    assert!(matches!(used, Err(CopyError::InUse(_))), "{used:?}");
    project(&store, 2).await;
    store.close().await;

    let occupied = restore(&path("backup.db"), &path("plane.db"), false).await;
    assert!(matches!(occupied, Err(CopyError::Occupied(_))), "{occupied:?}");
    std::fs::write(path("garbage"), b"no database at all, whatever it says it is").unwrap();
    let mut whole = std::fs::read(path("backup.db")).unwrap();
    whole.truncate(whole.len() / 2);
    std::fs::write(path("half"), whole).unwrap();
    let mut newer = SqliteConnection::connect(path("backup.db").to_str().unwrap()).await.unwrap();
    sqlx::query("UPDATE _sqlx_migrations SET version = 9999 WHERE version = 1").execute(&mut newer).await.unwrap();
    newer.close().await.unwrap();
    for (file, words) in
        [("garbage", "no sound database"), ("half", "no sound database"), ("backup.db", "newer version")]
    {
        let error = restore(&path(file), &path("plane.db"), true).await.unwrap_err().to_string();
        assert!(error.contains(words), "{file}: {error}");
    }
    let missing = restore(&path("nothing"), &path("plane.db"), true).await;
    assert!(matches!(missing, Err(CopyError::Missing(_))), "{missing:?}");
    assert_eq!(rows(&path("plane.db")).await, 2);
}

#[tokio::test]
async fn a_backup_is_written_over_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    open(&path("plane.db")).await.close().await;
    std::fs::write(path("kept"), b"kept").unwrap();
    let exists = backup(&path("plane.db"), &path("kept")).await;
    assert!(matches!(exists, Err(CopyError::Exists(_))), "{exists:?}");
    assert_eq!(std::fs::read(path("kept")).unwrap(), b"kept");
    let missing = backup(&path("nothing.db"), &path("new")).await;
    assert!(matches!(missing, Err(CopyError::Missing(_))), "{missing:?}");
    assert!(!path("new").exists() && !path("nothing.db").exists());
}
