//! Hearing what other planes commit.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use fettle_store::change::{Change, Listener};
use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgListener, PgPoolOptions},
};
use tokio::{sync::Mutex, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::{announcement, connection::CONNECT, error::OpenError};

/// A connection on which nothing was heard for so long is asked whether it is still there. Everybody is woken
/// then too: a wake-up that got lost on the way, or that came while a task was locked, costs no more than this.
const SILENCE: Duration = Duration::from_secs(30);

/// Between two tries to connect.
const PAUSE: Duration = Duration::from_millis(250);

/// The connection that hears.
pub(crate) struct Ears {
    stop: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
}

struct Hearing {
    pool: PgPool,
    listener: Arc<dyn Listener>,
    /// The server's number of the connection that this store writes with: it has told of its own changes already.
    writes_as: Arc<AtomicU32>,
}

impl Ears {
    /// Listens from now on.
    pub(crate) async fn start(
        options: &PgConnectOptions,
        listener: Arc<dyn Listener>,
        writes_as: Arc<AtomicU32>,
    ) -> Result<Self, OpenError> {
        let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(CONNECT).connect_lazy_with(options.clone());
        let hearing = Hearing { pool, listener, writes_as };
        let first = hearing.connect().await.map_err(|error| OpenError::of(options, error))?;
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            stopped.run_until_cancelled(Box::pin(hearing.run(first))).await;
        });
        Ok(Self { stop, task: Mutex::new(Some(task)) })
    }

    pub(crate) async fn close(&self) {
        self.stop.cancel();
        if let Some(task) = self.task.lock().await.take() {
            let _ = task.await;
        }
    }
}

impl Hearing {
    async fn connect(&self) -> Result<PgListener, sqlx::Error> {
        let mut ear = PgListener::connect_with(&self.pool).await?;
        ear.listen(announcement::CHANNEL).await?;
        Ok(ear)
    }

    async fn run(self, mut ear: PgListener) {
        loop {
            self.hear(&mut ear).await;
            tracing::warn!("the connection that hears of changes at other planes was lost");
            drop(ear);
            ear = self.connect_again().await;
            // Nobody knows what was missed.
            self.listener.changed(&Change::Everything);
        }
    }

    async fn connect_again(&self) -> PgListener {
        loop {
            match self.connect().await {
                Ok(ear) => return ear,
                Err(error) => tracing::debug!(%error, "cannot listen for changes at other planes yet"),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Until the connection is lost.
    async fn hear(&self, ear: &mut PgListener) {
        loop {
            match tokio::time::timeout(SILENCE, ear.try_recv()).await {
                Ok(Ok(Some(heard))) if heard.process_id() == self.writes_as.load(Ordering::Acquire) => {}
                Ok(Ok(Some(heard))) => {
                    announcement::read(heard.payload()).iter().for_each(|change| self.listener.changed(change));
                }
                Ok(Ok(None) | Err(_)) => return,
                Err(_) => {
                    self.listener.changed(&Change::Everything);
                    let asked = tokio::time::timeout(CONNECT, sqlx::query("SELECT 1").execute(&mut *ear)).await;
                    if !matches!(asked, Ok(Ok(_))) {
                        return;
                    }
                }
            }
        }
    }
}
