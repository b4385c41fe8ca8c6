//! Connections that read beside the writer.

use std::time::Duration;

use backon::{ExponentialBuilder, Retryable as _};
use deadpool::{
    Runtime,
    managed::{self, BuildError, Metrics, Object, Pool, PoolError, RecycleResult},
};
use fettle_store::StoreError;
use sqlx::{
    ConnectOptions as _, Connection as _, FromRow, PgConnection, SqlSafeStr,
    postgres::{PgConnectOptions, PgRow},
};

use crate::{
    error::{Closed, Exhausted, unavailable},
    trouble::Trouble,
    unit::Asking,
};

/// Connections that read at the same time.
const CONNECTIONS: usize = 4;

/// How long to wait for one of them, and for a server that starts.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection that was idle for longer is asked whether it is still there.
const IDLE: Duration = Duration::from_secs(2);

/// The readers. A connection that was in use lately is not asked whether it is still there, neither when it is taken nor
/// when it comes back: either would double the cost of a read.
pub(crate) struct Reader(Pool<Opener>);

/// Opens the connections.
#[derive(Debug)]
pub(crate) struct Opener(PgConnectOptions);

impl managed::Manager for Opener {
    type Type = PgConnection;
    type Error = sqlx::Error;

    async fn create(&self) -> Result<PgConnection, sqlx::Error> {
        // A server that starts again refuses connections for a moment.
        let waits = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(10))
            .with_max_delay(Duration::from_millis(500))
            .with_total_delay(Some(PATIENCE));
        let connect = || self.0.connect();
        connect.retry(waits).sleep(tokio::time::sleep).when(|error| Trouble::of(error) == Trouble::Lost).await
    }

    async fn recycle(&self, connection: &mut PgConnection, metrics: &Metrics) -> RecycleResult<sqlx::Error> {
        if metrics.last_used() >= IDLE {
            connection.ping().await?;
        }
        Ok(())
    }
}

impl Reader {
    /// Opens connections as they are needed.
    pub(crate) fn new(options: PgConnectOptions) -> Result<Self, BuildError> {
        let patience = Some(PATIENCE);
        Pool::builder(Opener(options))
            .max_size(CONNECTIONS)
            .runtime(Runtime::Tokio1)
            .wait_timeout(patience)
            .create_timeout(patience)
            .recycle_timeout(patience)
            .build()
            .map(Self)
    }

    /// One of the connections, for several statements.
    pub(crate) async fn connection(&self, verb: &'static str) -> Result<Object<Opener>, StoreError> {
        self.0.get().await.map_err(|error| match error {
            PoolError::Timeout(_) => {
                unavailable(verb)(Exhausted { connections: CONNECTIONS, seconds: PATIENCE.as_secs() })
            }
            PoolError::Backend(error) => unavailable(verb)(error),
            _ => unavailable(verb)(Closed),
        })
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
            let mut connection = self.connection(verb).await?;
            match bind(sqlx::query_as(sql.into_sql_str())).fetch_all(&mut *connection).await {
                // All of them may have been cut at once; a read can be made again.
                Err(error) if Trouble::of(&error) == Trouble::Lost && lost <= CONNECTIONS => {
                    lost += 1;
                    let _ = Object::take(connection).close_hard().await;
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
        let idle = self.0.retain(|_, _| false).removed;
        self.0.close();
        for connection in idle {
            let _ = connection.close().await;
        }
    }
}
