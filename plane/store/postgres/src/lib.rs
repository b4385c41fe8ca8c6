//! The store in a PostgreSQL database, which several planes may share.
//!
//! Each plane has one writer that puts the verbs which wait for it into one transaction, a few readers, and one
//! connection that hears what the others commit. See docs/decisions/postgresql.md.

mod announcement;
mod audit;
mod connection;
mod definition;
mod ears;
mod error;
mod event;
mod job;
mod journal;
mod lane;
mod log;
mod node;
mod node_set;
mod operation;
mod policy;
mod project;
mod reader;
mod retention;
mod task;
mod token;
mod trouble;
mod unit;
mod webhook;
mod writer;

use std::sync::{Arc, atomic::AtomicU32};

use async_trait::async_trait;
use fettle_store::{Health, StoreError, change::Listener, task::MOST_LEASES};
use fettle_store_rows::row;
use sqlx::migrate::Migrator;

pub use crate::{connection::Address, error::OpenError};
use crate::{ears::Ears, lane::Lane, reader::Reader, writer::Writer};

/// From the first version of the tables to this one.
static MIGRATIONS: Migrator = sqlx_macros::migrate!("./migrations");

/// Fails where nothing can be written, and changes nothing.
const WRITES: &str = "WITH nothing AS (UPDATE journal SET only_one = TRUE WHERE NOT only_one)
                      SELECT pg_current_xact_id()::text";

/// A store in a PostgreSQL database.
pub struct PostgresStore {
    writer: Writer,
    extensions: Lane<task::held::Extend>,
    reports: Lane<task::report::Apply>,
    endings: Lane<task::finish::Finish>,
    reader: Reader,
    ears: Ears,
    /// Leases of a task that may be lost.
    most_leases: Arc<AtomicU32>,
}

impl PostgresStore {
    /// Connects, and brings the tables up to date. `listener` is told of each committed change, whichever store
    /// over this database made it.
    ///
    /// # Errors
    /// When the database cannot be reached or used, or was written by a newer version.
    pub async fn open(address: &Address, listener: Arc<dyn Listener>) -> Result<Self, OpenError> {
        let options = Arc::new(address.options());
        let mut connection = Box::pin(connection::first(&options)).await?;
        connection::without_limits(&mut connection).await.map_err(|error| OpenError::of(&options, error))?;
        Box::pin(MIGRATIONS.run(&mut connection)).await.map_err(|error| OpenError::of_migration(&options, error))?;
        connection::with_limits(&mut connection).await.map_err(|error| OpenError::of(&options, error))?;
        let writes_as = Arc::new(AtomicU32::new(0));
        let reader = Reader::new((*options).clone()).map_err(|error| OpenError::unusable(&options, error))?;
        let ears = Box::pin(Ears::start(&options, Arc::clone(&listener), Arc::clone(&writes_as))).await?;
        let writer = Writer::start(options, connection, listener, writes_as);
        let (extensions, reports, endings) = (Lane::default(), Lane::default(), Lane::default());
        let most_leases = Arc::new(AtomicU32::new(MOST_LEASES));
        Ok(Self { writer, extensions, reports, endings, reader, ears, most_leases })
    }
}

#[async_trait]
impl Health for PostgresStore {
    async fn check_health(&self) -> Result<(), StoreError> {
        self.reader.one::<(i64,)>("check_health", "SELECT 1::bigint", |query| query).await?;
        // Readers may answer where nothing can be written: a standby, a full disk.
        self.writer
            .run("check_health", (), |unit, ()| Box::pin(async move { unit.execute(WRITES, |query| query).await }))
            .await
            .map(drop)
    }

    async fn close(&self) {
        self.writer.close().await;
        self.ears.close().await;
        self.reader.close().await;
    }
}
