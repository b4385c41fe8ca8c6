//! Where a plane keeps what it knows.

use std::{path::Path, sync::Arc};

use fettle_store::{Store, StoreError, change::Listener};
use fettle_store_postgres::PostgresStore;
pub use fettle_store_postgres::{Address, OpenError};
use fettle_store_sqlite::SqliteStore;

/// The name of the database in the data directory.
pub(crate) const FILE: &str = "plane.db";

/// Where a plane keeps what it knows.
#[derive(Clone, Debug, Default)]
pub enum Database {
    /// In `plane.db` in the data directory, for one plane.
    #[default]
    DataDirectory,
    /// In PostgreSQL, which several planes may share; each has a data directory of its own.
    Postgres(Address),
}

/// Why it cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// The database in the data directory.
    #[error(transparent)]
    DataDirectory(StoreError),
    /// PostgreSQL.
    #[error(transparent)]
    Postgres(OpenError),
}

impl Database {
    /// Opens it, and brings its tables up to date.
    pub(crate) async fn open(
        &self,
        data_directory: &Path,
        listener: Arc<dyn Listener>,
    ) -> Result<Arc<dyn Store>, DatabaseError> {
        Ok(match self {
            Self::DataDirectory => {
                let opened = Box::pin(SqliteStore::open(&data_directory.join(FILE), listener)).await;
                Arc::new(opened.map_err(DatabaseError::DataDirectory)?)
            }
            Self::Postgres(address) => {
                let opened = Box::pin(PostgresStore::open(address, listener)).await;
                Arc::new(opened.map_err(DatabaseError::Postgres)?)
            }
        })
    }
}
