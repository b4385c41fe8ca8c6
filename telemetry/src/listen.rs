//! `GET /metrics`, on a port of its own.
//!
//! Metrics name types of operations and organisations of every tenant, so they are not served where tenants call.

use std::{net::SocketAddr, pin::Pin, sync::Arc};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::metric::Metrics;

/// Brings up to date what is measured only when somebody asks.
pub type Refresh = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// Why metrics are not served.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Other machines could read them.
    #[error(
        "metrics at {0} could be read by other machines without a token; listen on 127.0.0.1, or pass `--metrics-allow-remote`"
    )]
    Remote(SocketAddr),
    /// The address cannot be taken.
    #[error("metrics cannot be served at {address}; choose a free port, or port 0")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

/// Serves metrics until it is dropped.
#[derive(Debug)]
pub struct Endpoint {
    address: SocketAddr,
    server: JoinHandle<()>,
}

impl Endpoint {
    /// Where.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Serves `GET /metrics`.
///
/// # Errors
/// When the address is not loopback and that was not allowed, or cannot be taken.
pub async fn serve(
    address: SocketAddr,
    allow_remote: bool,
    metrics: Metrics,
    refresh: Refresh,
) -> Result<Endpoint, ListenError> {
    if !address.ip().is_loopback() && !allow_remote {
        return Err(ListenError::Remote(address));
    }
    let listen = |source| ListenError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    let router = Router::new().route("/metrics", get(show)).with_state((metrics, refresh));
    let server = tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(error = &error as &dyn std::error::Error, "metrics are no longer served");
        }
    });
    Ok(Endpoint { address, server })
}

async fn show(State((metrics, refresh)): State<(Metrics, Refresh)>) -> Response {
    refresh().await;
    match metrics.text() {
        Ok(text) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Registrar;

    #[tokio::test]
    async fn other_machines_are_kept_out_unless_it_is_said() {
        let refresh: Refresh = Arc::new(|| Box::pin(async {}));
        let everywhere = SocketAddr::from(([0, 0, 0, 0], 0));
        let metrics = Registrar::default().finish();
        let refused = serve(everywhere, false, metrics.clone(), Arc::clone(&refresh)).await.unwrap_err();
        assert!(refused.to_string().contains("--metrics-allow-remote"), "{refused}");
        serve(everywhere, true, metrics, refresh).await.unwrap();
    }

    #[tokio::test]
    async fn what_is_measured_on_demand_is_measured_before_it_is_shown() {
        let mut registrar = Registrar::default();
        let asked = registrar.counter("asked_total", "Asked.");
        let refresh: Refresh = Arc::new(move || {
            asked.inc();
            Box::pin(async {})
        });
        let endpoint = serve(([127, 0, 0, 1], 0).into(), false, registrar.finish(), refresh).await.unwrap();
        let answer = reqwest::get(format!("http://{}/metrics", endpoint.address())).await.unwrap();
        let kind = answer.headers()["content-type"].to_str().unwrap().to_owned();
        let text = answer.text().await.unwrap();
        assert!(text.contains("asked_total 1\n") && text.ends_with("# EOF\n"), "{text}");
        assert!(kind.starts_with("application/openmetrics-text"), "{kind}");
    }
}
