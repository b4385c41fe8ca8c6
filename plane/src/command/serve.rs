//! fettle-plane serve

use std::{net::SocketAddr, num::NonZeroU32, path::PathBuf, time::Duration};

use clap::Args;
use fettle_telemetry::Telemetry;
use ipnet::IpNet;
use tokio::signal::unix::{SignalKind, signal};

use super::place::Place;
use crate::{Lockout, Plane, PlaneConfig, RateLimit, Retention, WebhookConfig};

fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; write one like `30s`"))
}

/// A duration, or for ever.
#[derive(Clone, Copy, Debug)]
struct Kept(Option<Duration>);

fn kept(text: &str) -> Result<Kept, String> {
    if text == "forever" {
        return Ok(Kept(None));
    }
    let parsed = humantime::parse_duration(text);
    parsed.map(|kept| Kept(Some(kept))).map_err(|error| format!("{error}; write one like `30d`, or `forever`"))
}

/// `host=network`.
fn private(text: &str) -> Result<(String, IpNet), String> {
    let (host, network) = text.split_once('=').ok_or("write `host=network`, like `ci.internal=10.0.0.0/8`")?;
    let network: IpNet = network.parse().map_err(|error| format!("`{network}`: {error}; write one like 10.0.0.0/8"))?;
    if host.is_empty() || host.chars().any(|character| character.is_ascii_uppercase()) {
        return Err(format!("write the host `{host}` as its URL is read: in small letters"));
    }
    if network.trunc() != network {
        return Err(format!("`{network}` has bits beyond its prefix; write `{}`", network.trunc()));
    }
    Ok((host.to_owned(), network))
}

/// Runs the plane.
#[derive(Debug, Args)]
pub(super) struct Serve {
    /// Where to serve REST. Port 0 takes a free one.
    #[arg(long, env = "FETTLE_PLANE_LISTEN", default_value = "127.0.0.1:7480")]
    listen: SocketAddr,
    /// Where to let nodes in, over TLS with certificates at both ends. Any address may be named.
    #[arg(long, env = "FETTLE_PLANE_NODE_LISTEN", default_value = "127.0.0.1:7483")]
    node_listen: SocketAddr,
    /// How long a node's certificate counts; it is renewed after two thirds of that.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "24h")]
    certificate_lifetime: Duration,
    /// How long after its certificate has expired a node that was off may come back by itself; `0s` is never.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "7d")]
    rejoin_within: Duration,
    /// Allow `--listen` to be an address that other machines can reach. REST speaks no TLS.
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
    /// How many leases of a task may be lost or expire before the task fails.
    #[arg(long, value_name = "NUMBER", default_value_t = fettle_store::task::MOST_LEASES, value_parser = clap::value_parser!(u32).range(1..))]
    most_leases: u32,
    /// How often hosts send heartbeats.
    #[arg(long, value_parser = duration, default_value = "10s")]
    heartbeat: Duration,
    /// A directory of Rego policies (`*.rego`): `deny` of `package fettle.submit` and `package fettle.dispatch`.
    #[arg(long, env = "FETTLE_PLANE_REGO", value_name = "DIR")]
    rego: Option<PathBuf>,
    /// A document that says which OpenID providers vouch for people and programs, and which roles their claims give.
    #[arg(long, env = "FETTLE_PLANE_OPENID", value_name = "FILE")]
    openid: Option<PathBuf>,
    /// A document that says where the credentials of steps come from.
    #[arg(long, env = "FETTLE_PLANE_CREDENTIALS", value_name = "FILE")]
    credentials: Option<PathBuf>,
    /// The key that the secrets in `--credentials` are sealed with, and those of webhooks in the database.
    #[arg(long, env = "FETTLE_PLANE_SECRET_KEY", value_name = "FILE")]
    secret_key: Option<PathBuf>,
    /// REST requests that each token may make in a second, in the long run; 0 is as many as it likes.
    #[arg(long, value_name = "NUMBER", default_value_t = 200)]
    rate: u32,
    /// REST requests that each token may make at once.
    #[arg(long, value_name = "NUMBER", default_value_t = 400, value_parser = clap::value_parser!(u32).range(1..))]
    burst: u32,
    /// Requests with a token that does not count, from one address in a minute, before the next one locks it out for a
    /// while; a token that counts may be refused three times as often. 0 locks nobody out.
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    lockout_after: u32,
    /// How long somebody is locked out.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "1m")]
    lockout_for: Duration,
    /// A network of proxies that say in `X-Forwarded-For` where requests come from. Repeatable.
    #[arg(long, value_name = "NETWORK")]
    trusted_proxy: Vec<IpNet>,
    /// A private network (`host=network`, like `ci.internal=10.0.0.0/8`) that receivers of webhooks at this host may be
    /// in; without it only public addresses are reached. Only such a host may be spoken to without TLS. Repeatable.
    #[arg(long, value_name = "HOST=NETWORK", value_parser = private)]
    webhook_private: Vec<(String, IpNet)>,
    /// How long a receiver of webhooks may take to answer.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "10s")]
    webhook_timeout: Duration,
    /// How often an event is sent before it is a dead letter.
    #[arg(long, value_name = "NUMBER", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=100))]
    webhook_attempts: u32,
    /// How long logs are kept after the end of an operation that did not fail; `forever` keeps them.
    #[arg(long, value_name = "DURATION", value_parser = kept, default_value = "14d")]
    retain_logs: Kept,
    /// How long events are kept after the end of an operation that did not fail.
    #[arg(long, value_name = "DURATION", value_parser = kept, default_value = "14d")]
    retain_events: Kept,
    /// How long operations that did not fail are kept after their end.
    #[arg(long, value_name = "DURATION", value_parser = kept, default_value = "30d")]
    retain_operations: Kept,
    /// How long operations that failed are kept, with their logs and events: not less long than any other.
    #[arg(long, value_name = "DURATION", value_parser = kept, default_value = "90d")]
    retain_failed: Kept,
    /// How long events that webhooks could not be told are kept.
    #[arg(long, value_name = "DURATION", value_parser = kept, default_value = "30d")]
    retain_dead_letters: Kept,
    /// What the plane says of itself.
    #[command(flatten)]
    telemetry: fettle_telemetry::Options,
}

/// None when the rate is 0.
fn rate_limit(per_second: u32, burst: u32) -> Option<RateLimit> {
    Some(RateLimit { per_second: NonZeroU32::new(per_second)?, burst: NonZeroU32::new(burst)? })
}

fn webhooks(private: Vec<(String, IpNet)>, timeout: Duration, attempts: u32) -> WebhookConfig {
    let mut config = WebhookConfig { timeout, attempts, ..WebhookConfig::default() };
    for (host, network) in private {
        config.private.private.entry(host).or_default().insert(network);
    }
    config
}

impl Serve {
    pub(super) async fn run(self, place: Place) -> anyhow::Result<()> {
        let telemetry = Telemetry::start(&self.telemetry, "fettle-plane")?;
        // Before it says that it listens: whoever reads that may stop it at once.
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let mut plane = Plane::start(PlaneConfig {
            listen: self.listen,
            node_listen: self.node_listen,
            authority_directory: place.authority,
            certificate_lifetime: self.certificate_lifetime,
            rejoin_within: self.rejoin_within,
            allow_remote: self.allow_remote,
            trust_policy: self.trust,
            trusted_root: self.trusted_root,
            plain_http_registries: self.plain_http.into_iter().collect(),
            oci_layouts: self.oci_layout,
            lease_duration: self.lease,
            acknowledge_timeout: self.acknowledge,
            most_leases: self.most_leases,
            heartbeat_interval: self.heartbeat,
            metrics_listen: self.telemetry.metrics_listen,
            metrics_allow_remote: self.telemetry.metrics_allow_remote,
            rego: self.rego,
            openid: self.openid,
            credentials: self.credentials,
            secret_key: self.secret_key,
            rate_limit: rate_limit(self.rate, self.burst),
            lockout: NonZeroU32::new(self.lockout_after).map(|after| Lockout { after, lasts: self.lockout_for }),
            trusted_proxies: self.trusted_proxy,
            retention: Retention {
                logs: self.retain_logs.0,
                events: self.retain_events.0,
                operations: self.retain_operations.0,
                failed: self.retain_failed.0,
                dead_letters: self.retain_dead_letters.0,
                ..Retention::default()
            },
            webhooks: webhooks(self.webhook_private, self.webhook_timeout, self.webhook_attempts),
            database: place.database,
            ..PlaneConfig::new(place.data)
        })
        .await?;
        super::print(&format!("fettle-plane listens on http://{}", plane.http_address()))?;
        super::print(&format!("fettle-plane lets nodes in at https://{}", plane.node_address()))?;
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
