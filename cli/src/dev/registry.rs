//! A registry in this process: plain HTTP, loopback only, anybody may read and write.
//!
//! Its repositories have exactly two parts, like `steps/file.render`.

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use axum::{extract::DefaultBodyLimit, middleware};
use container_registry::{
    ContainerRegistry,
    auth::{Anonymous, Permissions},
};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::referrers;

/// How long open transfers may go on after it was told to stop.
const GRACE: Duration = Duration::from_secs(5);

/// A running registry.
pub(super) struct Registry {
    address: SocketAddr,
    stop: CancellationToken,
    server: JoinHandle<()>,
}

impl Registry {
    pub(super) async fn start(directory: &Path, listen: SocketAddr) -> anyhow::Result<Self> {
        if !listen.ip().is_loopback() {
            bail!("the registry of `fettle dev` takes anything from anybody; let it listen on 127.0.0.1, not {listen}");
        }
        super::make_private(directory)?;
        // What a crash left half uploaded.
        let _ = std::fs::remove_dir_all(directory.join("uploads"));
        let everybody = Arc::new(Anonymous::new(Permissions::ReadWrite, Permissions::ReadWrite));
        let registry = ContainerRegistry::builder().storage(directory).auth_provider(everybody).build();
        let app = registry.context("the registry cannot use its directory")?.make_router();
        let lists = Arc::new(directory.join("referrers"));
        let app = app.layer(middleware::from_fn_with_state(lists, referrers::keep)).layer(DefaultBodyLimit::disable());
        let listener = TcpListener::bind(listen).await.with_context(|| {
            format!(
                "the registry cannot listen on {listen}, where it was or should be; free the port (what was \
                 published names it), or choose another one with --registry 127.0.0.1:0"
            )
        })?;
        let address = listener.local_addr().context("the registry has no address")?;
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        let server = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, app).with_graceful_shutdown(stopped).await {
                tracing::error!(%error, "the registry ended");
            }
        });
        Ok(Self { address, stop, server })
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) async fn stop(mut self) {
        self.stop.cancel();
        if tokio::time::timeout(GRACE, &mut self.server).await.is_err() {
            self.server.abort();
        }
    }

    /// Waits until it ends by itself.
    pub(super) async fn failed(&mut self) {
        let _ = (&mut self.server).await;
    }
}
