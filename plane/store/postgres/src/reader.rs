//! Connections that read beside the writer.

use std::time::Duration;

use fettle_store::StoreError;
use sqlx::{
    FromRow, PgPool, Postgres, SqlSafeStr,
    pool::PoolConnection,
    postgres::{PgConnectOptions, PgPoolOptions, PgRow},
};

use crate::{
    error::{Exhausted, unavailable},
    trouble::Trouble,
    unit::Asking,
};

/// Connections that read at the same time.
const CONNECTIONS: u32 = 4;

/// How long to wait for one of them.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection that was idle for longer is asked whether it is still there.
const IDLE: Duration = Duration::from_secs(2);

/// The readers.
pub(crate) struct Reader {
    pool: PgPool,
}

impl Reader {
    /// Opens connections as they are needed.
    pub(crate) fn new(options: &PgConnectOptions) -> Self {
        let pool = PgPoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(PATIENCE)
            // A question before each read would double its cost.
            .test_before_acquire(false)
            .before_acquire(|connection, about| {
                Box::pin(async move { Ok(about.idle_for < IDLE || sqlx::Connection::ping(connection).await.is_ok()) })
            })
            .connect_lazy_with(options.clone());
        Self { pool }
    }

    /// One of the connections, for several statements.
    pub(crate) async fn connection(&self, verb: &'static str) -> Result<PoolConnection<Postgres>, StoreError> {
        self.pool.acquire().await.map_err(|error| refused(verb, error))
    }

    /// All rows of a statement.
    pub(crate) async fn all<R>(
        &self,
        verb: &'static str,
        sql: &'static str,
        bind: impl Fn(Asking<R>) -> Asking<R> + Send + Sync,
    ) -> Result<Vec<R>, StoreError>
    where
        R: for<'r> FromRow<'r, PgRow> + Send + Unpin,
    {
        let mut lost = 0;
        loop {
            let mut connection = self.pool.acquire().await.map_err(|error| refused(verb, error))?;
            match bind(sqlx::query_as(sql.into_sql_str())).fetch_all(&mut *connection).await {
                // All of them may have been cut at once; a read can be made again.
                Err(error) if Trouble::of(&error) == Trouble::Lost && lost <= CONNECTIONS => {
                    lost += 1;
                    let _ = connection.close().await;
                }
                answer => return answer.map_err(unavailable(verb)),
            }
        }
    }

    /// The only row of a statement.
    pub(crate) async fn one<R>(
        &self,
        verb: &'static str,
        sql: &'static str,
        bind: impl Fn(Asking<R>) -> Asking<R> + Send + Sync,
    ) -> Result<Option<R>, StoreError>
    where
        R: for<'r> FromRow<'r, PgRow> + Send + Unpin,
    {
        Ok(self.all(verb, sql, bind).await?.into_iter().next())
    }

    pub(crate) async fn close(&self) {
        self.pool.close().await;
    }
}

fn refused(verb: &'static str, error: sqlx::Error) -> StoreError {
    match error {
        sqlx::Error::PoolTimedOut => {
            unavailable(verb)(Exhausted { connections: CONNECTIONS, seconds: PATIENCE.as_secs() })
        }
        error => unavailable(verb)(error),
    }
}
