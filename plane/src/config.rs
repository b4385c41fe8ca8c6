//! What a plane is told when it starts.

use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, SocketAddr},
    num::NonZeroU32,
    path::{Path, PathBuf},
    time::Duration,
};

use fettle_identity::Directory;

use ipnet::IpNet;

use crate::{database::Database, upkeep::Retention, webhook::WebhookConfig};

/// How a plane runs. [`PlaneConfig::new`] is right for most.
#[derive(Clone, Debug)]
pub struct PlaneConfig {
    /// Where REST is served. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where nodes connect, over mutual TLS. Port 0 takes a free one.
    pub node_listen: SocketAddr,
    /// Where the authorities are kept that sign the certificates of nodes and planes. Planes over one database share
    /// them. `authority` in the data directory when absent.
    pub authority_directory: Option<PathBuf>,
    /// How long a certificate of a node or of this plane counts. It is renewed after two thirds of that.
    pub certificate_lifetime: Duration,
    /// How long after its certificate has expired a node may come back by itself.
    pub rejoin_within: Duration,
    /// Whether `listen` may be reachable from other machines. It speaks no TLS.
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
    /// OpenID providers whose word about people counts, and the roles that follow from it; none when absent.
    pub openid: Option<PathBuf>,
    /// Where the credentials of steps come from; nowhere when absent.
    pub credentials: Option<PathBuf>,
    /// What the secrets in `credentials` and those of webhooks are sealed with.
    pub secret_key: Option<PathBuf>,
    /// How often each token may ask; none is as often as it likes.
    pub rate_limit: Option<RateLimit>,
    /// When somebody is not listened to for a while; never when absent.
    pub lockout: Option<Lockout>,
    /// Networks of proxies whose word about where a request comes from counts.
    pub trusted_proxies: Vec<IpNet>,
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

/// Where the authorities are when nothing else is said.
pub(crate) fn default_authorities(data_directory: &Path) -> PathBuf {
    data_directory.join("authority")
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

/// When somebody is not listened to for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lockout {
    /// Requests with a token that does not count, from one address at once and in each minute, before the next one
    /// locks it out. Whoever has a token that counts may be refused three times as often.
    pub after: NonZeroU32,
    /// How long.
    pub lasts: Duration,
}

impl Default for Lockout {
    fn default() -> Self {
        const AFTER: NonZeroU32 = NonZeroU32::new(20).unwrap();
        Self { after: AFTER, lasts: Duration::from_secs(60) }
    }
}

impl PlaneConfig {
    /// Where the authorities are.
    pub(crate) fn authorities(&self) -> Directory {
        let directory = self.authority_directory.clone();
        Directory::new(directory.unwrap_or_else(|| default_authorities(&self.data_directory)))
    }

    /// A plane that keeps everything in `data_directory` and listens on a free loopback port.
    #[must_use]
    pub fn new(data_directory: impl Into<PathBuf>) -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            node_listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            authority_directory: None,
            certificate_lifetime: Duration::from_secs(24 * 3600),
            rejoin_within: Duration::from_secs(7 * 24 * 3600),
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
            openid: None,
            credentials: None,
            secret_key: None,
            rate_limit: Some(RateLimit::default()),
            lockout: Some(Lockout::default()),
            trusted_proxies: Vec::new(),
            request_timeout: Duration::from_secs(60),
            request_limit_bytes: 1 << 20,
            retention: Retention::default(),
            webhooks: WebhookConfig::default(),
            metrics_listen: None,
            metrics_allow_remote: false,
        }
    }
}
