//! How a host is set up: the options of `fettle-host run`.

use std::{path::PathBuf, time::Duration};

use fettle_identity::Fingerprint;
use fettle_model::reference::Reference;

use super::{CASSETTE_MEGABYTES, CODE_CACHE_MEGABYTES};
use crate::executor::journal::Bounds;

/// How a host is set up.
#[derive(Clone, Debug, clap::Args)]
pub struct Run {
    /// Address of the plane.
    #[arg(long, env = "FETTLE_PLANE")]
    pub plane: String,
    /// Everything the host keeps: identity, journal, artifacts, files.
    #[arg(long, env = "FETTLE_DATA", default_value = "/var/lib/fettle-host")]
    pub data: PathBuf,
    /// The trust policy: whose signatures count. Read again whenever it changes.
    #[arg(long)]
    pub trust: PathBuf,
    /// A Sigstore `trusted_root.json` that proves identities, for rules that name identities.
    #[arg(long, value_name = "FILE")]
    pub trusted_root: Option<PathBuf>,
    /// A signed policy activation, by its digest: which policy bundles count on this node from the start. A newer one that
    /// the node has obeyed since then counts on.
    #[arg(long, value_name = "REFERENCE")]
    pub policies: Option<Reference>,
    /// Name of this node; the host name when absent.
    #[arg(long)]
    pub name: Option<String>,
    /// File with the join token, for the first registration.
    #[arg(long)]
    pub join_token_file: Option<PathBuf>,
    /// File with a key that the plane was told of before (`fettle-host generate-key`), instead of a join token.
    #[arg(long, value_name = "FILE", requires = "authority", conflicts_with = "join_token_file")]
    pub key_file: Option<PathBuf>,
    /// What the plane is known by, for a node that comes with a key: the fingerprint of its authority.
    #[arg(long, value_name = "FINGERPRINT", requires = "key_file")]
    pub authority: Option<Fingerprint>,
    /// What this node is called by, for target selectors: `region=eu`. Repeatable.
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    pub label: Vec<(String, String)>,
    /// Tasks at once.
    #[arg(long, default_value_t = 4)]
    pub slots: u32,
    /// Steps of one task at once.
    #[arg(long, default_value_t = 8)]
    pub concurrency: usize,
    /// How long a running step may take to end by itself after its operation was canceled, before it is stopped.
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration, default_value = "10s")]
    pub cancel_grace: Duration,
    /// Compiled code kept on disk, in MB, so that a restart compiles nothing again; 0 keeps none.
    #[arg(long, value_name = "MB", default_value_t = CODE_CACHE_MEGABYTES)]
    pub code_cache_megabytes: u64,
    /// Cassettes of attempts that are kept; the oldest go first, those of failures last.
    #[arg(long, value_name = "COUNT", default_value_t = Bounds::default().count)]
    pub keep_cassettes: usize,
    /// The same in MB.
    #[arg(long, value_name = "MB", default_value_t = CASSETTE_MEGABYTES)]
    pub keep_cassettes_megabytes: u64,
    /// Registries (`host:port`) that are spoken to without TLS; loopback ones always are.
    #[arg(long)]
    pub plain_http: Vec<String>,
    /// Certificates in a PEM file that steps' HTTP requests trust beside the system's. May be given again.
    #[arg(long, value_name = "FILE")]
    pub http_authority: Vec<PathBuf>,
    /// OCI image layout directories that stand before all registries: an artifact that is in one is taken
    /// from it, with its signatures. Repeatable.
    #[arg(long, value_name = "DIR")]
    pub oci_layout: Vec<PathBuf>,
    /// Another NVML than the system's.
    #[arg(long)]
    pub nvml_library: Option<PathBuf>,
    /// What that library finds in its environment, which is empty otherwise. For tests.
    #[arg(long, hide = true, requires = "nvml_library", value_name = "NAME=VALUE", value_parser = environment_variable)]
    pub nvml_environment: Vec<(String, String)>,
    /// Another kernel log than /dev/kmsg.
    #[arg(long, default_value = "/dev/kmsg")]
    pub kernel_log: PathBuf,
    /// What the host says of itself.
    #[command(flatten)]
    pub telemetry: fettle_telemetry::Options,
}

/// Reads `NAME=VALUE`.
///
/// # Errors
/// When it is of another form.
pub fn environment_variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("`{text}` names no variable; write NAME=VALUE")),
    }
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("`{text}` is no label; write KEY=VALUE, like `region=eu`")),
    }
}
