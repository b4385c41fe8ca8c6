//! fettle-plane serve

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::Args;
use fettle_telemetry::Telemetry;
use tokio::signal::unix::{SignalKind, signal};

use super::place::Place;
use crate::{Plane, PlaneConfig};

fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; write one like `30s`"))
}

/// Runs the plane.
#[derive(Debug, Args)]
pub(super) struct Serve {
    /// Where to listen. Port 0 takes a free one.
    #[arg(long, env = "FETTLE_PLANE_LISTEN", default_value = "127.0.0.1:7480")]
    listen: SocketAddr,
    /// Allow an address that other machines can reach. There is no TLS yet.
    #[arg(long)]
    allow_remote: bool,
    /// Trust policy: whose signatures count. Read again whenever it changes.
    #[arg(long, env = "FETTLE_PLANE_TRUST")]
    trust: Option<PathBuf>,
    /// A Sigstore `trusted_root.json` that proves identities, for rules that name identities.
    #[arg(long, env = "FETTLE_PLANE_TRUSTED_ROOT", value_name = "FILE")]
    trusted_root: Option<PathBuf>,
    /// A registry (`host:port`) to speak to without TLS; loopback ones always are.
    #[arg(long)]
    plain_http: Vec<String>,
    /// OCI image layout directories that stand before all registries: an artifact that is in one is taken
    /// from it, with its signatures. Repeatable.
    #[arg(long, value_name = "DIR")]
    oci_layout: Vec<PathBuf>,
    /// How long a lease lasts when its host does not extend it.
    #[arg(long, value_parser = duration, default_value = "30s")]
    lease: Duration,
    /// How long a host may take to acknowledge a lease.
    #[arg(long, value_parser = duration, default_value = "10s")]
    acknowledge: Duration,
    /// How often hosts send heartbeats.
    #[arg(long, value_parser = duration, default_value = "10s")]
    heartbeat: Duration,
    /// What the plane says of itself.
    #[command(flatten)]
    telemetry: fettle_telemetry::Options,
}

impl Serve {
    pub(super) async fn run(self, place: Place) -> anyhow::Result<()> {
        let telemetry = Telemetry::start(&self.telemetry, "fettle-plane")?;
        // Before it says that it listens: whoever reads that may stop it at once.
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let mut plane = Plane::start(PlaneConfig {
            listen: self.listen,
            allow_remote: self.allow_remote,
            trust_policy: self.trust,
            trusted_root: self.trusted_root,
            plain_http_registries: self.plain_http.into_iter().collect(),
            oci_layouts: self.oci_layout,
            lease_duration: self.lease,
            acknowledge_timeout: self.acknowledge,
            heartbeat_interval: self.heartbeat,
            metrics_listen: self.telemetry.metrics_listen,
            metrics_allow_remote: self.telemetry.metrics_allow_remote,
            database: place.database,
            ..PlaneConfig::new(place.data)
        })
        .await?;
        super::print(&format!("fettle-plane listens on http://{}", plane.http_address()))?;
        if let Some(address) = plane.metrics_address() {
            super::print(&format!("fettle-plane serves metrics at http://{address}/metrics"))?;
        }
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            failed = plane.failed() => return Ok(failed?),
        }
        tracing::info!("shutting down");
        plane.shutdown().await;
        tokio::task::spawn_blocking(|| telemetry.close()).await?;
        Ok(())
    }
}
