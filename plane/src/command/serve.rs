//! fettle-plane serve

use std::{net::SocketAddr, num::NonZeroU32, path::PathBuf, time::Duration};

use clap::Args;
use fettle_telemetry::Telemetry;
use tokio::signal::unix::{SignalKind, signal};

use super::place::Place;
use crate::{Plane, PlaneConfig, RateLimit};

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
    /// A directory of Rego policies (`*.rego`): `deny` of `package fettle.submit` and `package fettle.dispatch`.
    #[arg(long, env = "FETTLE_PLANE_REGO", value_name = "DIR")]
    rego: Option<PathBuf>,
    /// REST requests that each token may make in a second, in the long run; 0 is as many as it likes.
    #[arg(long, value_name = "NUMBER", default_value_t = 200)]
    rate: u32,
    /// REST requests that each token may make at once.
    #[arg(long, value_name = "NUMBER", default_value_t = 400, value_parser = clap::value_parser!(u32).range(1..))]
    burst: u32,
    /// What the plane says of itself.
    #[command(flatten)]
    telemetry: fettle_telemetry::Options,
}

/// None when the rate is 0.
fn rate_limit(per_second: u32, burst: u32) -> Option<RateLimit> {
    Some(RateLimit { per_second: NonZeroU32::new(per_second)?, burst: NonZeroU32::new(burst)? })
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
            rego: self.rego,
            rate_limit: rate_limit(self.rate, self.burst),
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
