//! Connections that read beside the writer.

use deadpool::managed::{self, Metrics, Object, Pool, PoolError, RecycleResult};
use fettle_store::StoreError;
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection, sqlite::SqliteConnectOptions};

use crate::error::{Closed, unavailable};

/// Connections that read at the same time.
const MOST: usize = 4;

/// They are taken and given back without asking each time whether they are there still, as the pool of sqlx does: there is
/// no network between, and the question would cost as much as a small read.
#[derive(Debug)]
pub(crate) struct Readers(Pool<Opener>);

/// Opens them.
#[derive(Debug)]
pub(crate) struct Opener(SqliteConnectOptions);

impl managed::Manager for Opener {
    type Type = SqliteConnection;
    type Error = sqlx::Error;

    async fn create(&self) -> Result<SqliteConnection, sqlx::Error> {
        self.0.connect().await
    }

    async fn recycle(&self, _: &mut SqliteConnection, _: &Metrics) -> RecycleResult<sqlx::Error> {
        Ok(())
    }
}

impl Readers {
    /// Opens the first of them, and the others as they are needed.
    pub(crate) async fn open(options: SqliteConnectOptions) -> Result<Self, StoreError> {
        let options = options.create_if_missing(false).pragma("query_only", "ON");
        let pool = Pool::builder(Opener(options)).max_size(MOST).build().map_err(unavailable("open"))?;
        let readers = Self(pool);
        drop(readers.take("open").await?);
        Ok(readers)
    }

    /// One of them, for what a verb reads.
    pub(crate) async fn take(&self, verb: &'static str) -> Result<Object<Opener>, StoreError> {
        self.0.get().await.map_err(|error| match error {
            PoolError::Backend(error) => unavailable(verb)(error),
            _ => unavailable(verb)(Closed),
        })
    }

    /// Closes those that nobody uses; the others are closed when they are given back.
    pub(crate) async fn close(&self) {
        let idle = self.0.retain(|_, _| false).removed;
        self.0.close();
        for connection in idle {
            let _ = connection.close().await;
        }
    }
}
