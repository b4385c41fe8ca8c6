//! What a plane is told when it starts.

use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, SocketAddr},
    num::NonZeroU32,
    path::PathBuf,
    time::Duration,
};

use crate::{database::Database, upkeep::Retention, webhook::WebhookConfig};

/// How a plane runs. [`PlaneConfig::new`] is right for most.
#[derive(Clone, Debug)]
pub struct PlaneConfig {
    /// Where REST and the node protocol are served. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// Whether `listen` may be reachable from other machines. There is no TLS yet.
    pub allow_remote: bool,
    /// Where everything is kept. Only this user may enter it.
    pub data_directory: PathBuf,
    /// Where that is not the place of the database too.
    pub database: Database,
    /// Whose signatures count. Without it no definition can be registered.
    pub trust_policy: Option<PathBuf>,
    /// A Sigstore `trusted_root.json` that proves identities, for rules that name identities.
    pub trusted_root: Option<PathBuf>,
    /// Registries (`host:port`) that are spoken to without TLS. Loopback addresses are always.
    pub plain_http_registries: BTreeSet<String>,
    /// OCI image layouts that stand before all registries.
    pub oci_layouts: Vec<PathBuf>,
    /// How long a lease lasts when it is not extended.
    pub lease_duration: Duration,
    /// How long a host may take to acknowledge a lease.
    pub acknowledge_timeout: Duration,
    /// How many leases of a task may be lost or expire before the task fails.
    pub most_leases: u32,
    /// How often hosts send heartbeats. A node is offline after three that did not come.
    pub heartbeat_interval: Duration,
    /// A directory of Rego policies that are asked about operations.
    pub rego: Option<PathBuf>,
    /// How often each token may ask; none is as often as it likes.
    pub rate_limit: Option<RateLimit>,
    /// The longest that a REST request may take, streams aside.
    pub request_timeout: Duration,
    /// The largest REST request body in bytes.
    pub request_limit_bytes: usize,
    /// How long things are kept after their end.
    pub retention: Retention,
    /// How webhooks are delivered.
    pub webhooks: WebhookConfig,
    /// Where metrics are served; nowhere when absent.
    pub metrics_listen: Option<SocketAddr>,
    /// Whether `metrics_listen` may be reachable from other machines.
    pub metrics_allow_remote: bool,
}

/// Requests that a token may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// In the long run.
    pub per_second: NonZeroU32,
    /// At once, after a while without any.
    pub burst: NonZeroU32,
}

impl Default for RateLimit {
    fn default() -> Self {
        const PER_SECOND: NonZeroU32 = NonZeroU32::new(200).unwrap();
        const BURST: NonZeroU32 = NonZeroU32::new(400).unwrap();
        Self { per_second: PER_SECOND, burst: BURST }
    }
}

impl PlaneConfig {
    /// A plane that keeps everything in `data_directory` and listens on a free loopback port.
    #[must_use]
    pub fn new(data_directory: impl Into<PathBuf>) -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            allow_remote: false,
            data_directory: data_directory.into(),
            database: Database::default(),
            trust_policy: None,
            trusted_root: None,
            plain_http_registries: BTreeSet::new(),
            oci_layouts: Vec::new(),
            lease_duration: Duration::from_secs(30),
            acknowledge_timeout: Duration::from_secs(10),
            most_leases: fettle_store::task::MOST_LEASES,
            heartbeat_interval: Duration::from_secs(10),
            rego: None,
            rate_limit: Some(RateLimit::default()),
            request_timeout: Duration::from_secs(60),
            request_limit_bytes: 1 << 20,
            retention: Retention::default(),
            webhooks: WebhookConfig::default(),
            metrics_listen: None,
            metrics_allow_remote: false,
        }
    }
}
