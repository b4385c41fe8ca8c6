//! The store in one SQLite file: WAL, one writer with group commit, readers beside it.
//!
//! `synchronous=FULL`: a verb that was answered survives a power cut. What that costs is shared: the
//! writes that arrive while one commit is synced to disk make up the next one.

mod audit;
pub mod copy;
mod definition;
mod error;
mod event;
mod journal;
mod lane;
mod list;
mod log;
mod node;
mod node_set;
mod operation;
mod policy;
mod project;
mod readers;
mod retention;
mod task;
mod token;
mod webhook;
mod writer;

use std::{
    path::Path,
    sync::{Arc, atomic::AtomicU32},
    time::Duration,
};

use async_trait::async_trait;
use fettle_store::{Health, StoreError, change::Listener, task::MOST_LEASES};
use fettle_store_rows::row;
use sqlx::{
    ConnectOptions as _,
    migrate::Migrator,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};

use crate::{error::unavailable, lane::Lane, readers::Readers, writer::Writer};

/// From the first version of the tables to this one.
static MIGRATIONS: Migrator = sqlx_macros::migrate!("./migrations");

/// How long to wait for another process that writes: the command line beside a running plane.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Rows of one answer that may wait to be read. With fewer than a turn answers, the connection's thread would stop for
/// them.
const ROWS: usize = 4096;

/// A store in one file.
pub struct SqliteStore {
    writer: Writer,
    creations: Lane<operation::create::Create>,
    extensions: Lane<task::held::Extend>,
    reports: Lane<task::report::Apply>,
    endings: Lane<task::finish::Finish>,
    readers: Readers,
    /// Leases of a task that may be lost.
    most_leases: AtomicU32,
}

impl SqliteStore {
    /// Opens the file, creates it when it is not there, and brings its tables up to date. `listener`
    /// is told of each committed change.
    ///
    /// # Errors
    /// When the file cannot be opened or was written by a newer version.
    pub async fn open(file: &Path, listener: Arc<dyn Listener>) -> Result<Self, StoreError> {
        let options = SqliteConnectOptions::new()
            .filename(file)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(BUSY_TIMEOUT)
            // What a verb may take back is kept in memory, not in a file beside the database.
            .pragma("temp_store", "MEMORY")
            .row_buffer_size(ROWS)
            .disable_statement_logging();
        let mut connection = options.connect().await.map_err(unavailable("open"))?;
        MIGRATIONS.run(&mut connection).await.map_err(unavailable("migrate"))?;
        let readers = Readers::open(options).await?;
        let writer = Writer::start(connection, listener);
        Ok(Self {
            writer,
            creations: Lane::default(),
            extensions: Lane::default(),
            reports: Lane::default(),
            endings: Lane::default(),
            readers,
            most_leases: AtomicU32::new(MOST_LEASES),
        })
    }
}

#[async_trait]
impl Health for SqliteStore {
    async fn check_health(&self) -> Result<(), StoreError> {
        sqlx::query("SELECT 1")
            .execute(&mut *self.readers.take("check_health").await?)
            .await
            .map_err(unavailable("check_health"))?;
        // Readers may answer long after nothing can be written any more.
        self.writer.run("check_health", |_| Box::pin(async { Ok(()) })).await
    }

    async fn close(&self) {
        self.writer.close().await;
        self.readers.close().await;
    }
}
