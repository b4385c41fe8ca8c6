//! The program `fettle-host`, and how a host is put together; `fettle dev` puts one together the same way.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use fettle_supply::{ContentStore, RegistryClient, RegistryOptions, Supplier, TrustPolicy};
use tokio_util::sync::CancellationToken;

use crate::{
    agent::{Agent, Settings, journal_path},
    capabilities::{Node, Queues, exec, facts, files, gpu, transfer},
    clock::Clock,
    executor::{Executor, Shelf, journal::Journal},
    queue::Pressure,
    sandbox::{CodeCache, Limits, Sandbox},
};

/// Compiled code that is kept on disk unless said otherwise, in MB.
pub const CODE_CACHE_MEGABYTES: u64 = 2_000;

/// Runs signed steps on this node for a plane.
#[derive(Debug, Parser)]
#[command(name = "fettle-host", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run until told to stop.
    Run(Box<Run>),
    /// Asked by the host itself: read NVML and print JSON.
    #[command(hide = true)]
    NvmlSnapshot {
        /// Another library than the system's.
        #[arg(long)]
        library: Option<PathBuf>,
    },
}

/// How a host is set up.
#[derive(Clone, Debug, clap::Args)]
pub struct Run {
    /// Address of the plane.
    #[arg(long, env = "FETTLE_PLANE")]
    pub plane: String,
    /// Everything the host keeps: identity, journal, artifacts, files.
    #[arg(long, env = "FETTLE_DATA", default_value = "/var/lib/fettle-host")]
    pub data: PathBuf,
    /// Keys that are trusted to sign artifacts (a trust policy).
    #[arg(long)]
    pub trust: PathBuf,
    /// Name of this node; the host name when absent.
    #[arg(long)]
    pub name: Option<String>,
    /// File with the join token, for the first registration.
    #[arg(long)]
    pub join_token_file: Option<PathBuf>,
    /// Tasks at once.
    #[arg(long, default_value_t = 4)]
    pub slots: u32,
    /// Steps of one task at once.
    #[arg(long, default_value_t = 8)]
    pub concurrency: usize,
    /// Compiled code kept on disk, in MB, so that a restart compiles nothing again; 0 keeps none.
    #[arg(long, value_name = "MB", default_value_t = CODE_CACHE_MEGABYTES)]
    pub code_cache_megabytes: u64,
    /// Registries (`host:port`) that are spoken to without TLS; loopback ones always are.
    #[arg(long)]
    pub plain_http: Vec<String>,
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
}

/// The program.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.command {
        Command::NvmlSnapshot { library } => gpu::nvml::print_snapshot(library.as_deref()).map_err(Into::into),
        Command::Run(settings) => run(&settings),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fettle-host: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(settings: &Run) -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .json()
        .with_env_filter(tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into()))
        .with_writer(std::io::stderr)
        .init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no threads")?;
    let ended = runtime.block_on(async {
        let stop = CancellationToken::new();
        let signaled = stop.clone();
        tokio::spawn(async move {
            let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).ok();
            let terminated = async {
                match &mut terminate {
                    Some(signal) => signal.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminated => {}
            }
            signaled.cancel();
        });
        start(settings).await?.run(stop).await.map_err(anyhow::Error::from)
    });
    // Work that blocks in the kernel (a dead network mount) must not keep the host from ending.
    runtime.shutdown_timeout(std::time::Duration::from_secs(5));
    ended
}

/// Puts a host together.
///
/// # Errors
/// When its directories, its trust policy or its journal cannot be used.
pub async fn start(settings: &Run) -> anyhow::Result<Arc<Agent>> {
    let executor = executor(settings).await?;
    let join_token = match &settings.join_token_file {
        Some(path) => Some(
            std::fs::read_to_string(path)
                .with_context(|| format!("the join token {} cannot be read", path.display()))?
                .trim()
                .to_owned(),
        ),
        None => None,
    };
    let settings = Settings {
        plane: settings.plane.clone(),
        name: settings
            .name
            .clone()
            .unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned()),
        join_token,
        data_directory: settings.data.clone(),
        slots: settings.slots,
        capabilities: node_capabilities(&executor.node).await,
    };
    Ok(Agent::new(settings, executor)?)
}

/// Puts together what executes tasks. Also what author commands run components with.
///
/// # Errors
/// When its directories, its trust policy or its journal cannot be used.
pub async fn executor(settings: &Run) -> anyhow::Result<Executor> {
    let data = &settings.data;
    make_private(data)?;
    let lock = lock(data)?;
    let trust = std::fs::read_to_string(&settings.trust)
        .with_context(|| format!("the trust policy {} cannot be read", settings.trust.display()))?;
    let trust = TrustPolicy::read(&trust)
        .with_context(|| format!("the trust policy {} is not valid", settings.trust.display()))?;
    let plain_http = settings.plain_http.iter().cloned().collect::<BTreeSet<_>>();
    let registry = RegistryClient::new(RegistryOptions {
        plain_http,
        layouts: settings.oci_layout.clone(),
        ..RegistryOptions::default()
    })?;
    let store = ContentStore::open(&data.join("artifacts"))?;
    let journal = Journal::open(&journal_path(data)).await?;
    let host_id = host_id(data)?;
    let killed = exec::leftovers::kill(&host_id);
    if killed > 0 {
        tracing::warn!(killed, "processes that an earlier run left behind were killed");
    }
    let pressure = Pressure::default();
    let spawner = exec::Spawner::start(&pressure).context("no thread to start programs from")?;
    let files_directory = data.join("files");
    std::fs::create_dir_all(&files_directory)
        .with_context(|| format!("{} cannot be made", files_directory.display()))?;
    let program = std::env::current_exe().context("the path of this program is unknown")?;
    let mut gpu = gpu::Probe::new(program, nvml_library(settings)?, spawner.clone());
    gpu.environment = settings.nvml_environment.iter().cloned().collect();
    let node = Node {
        queues: Queues::new(&pressure),
        gpu,
        spawner,
        files_directory,
        transfers: transfer::Transfers { registry: registry.clone(), unfinished: transfer::Unfinished::default() },
        facts: facts::Source { kernel_log: settings.kernel_log.clone(), ..facts::Source::default() },
        digests: files::DigestCache::default(),
    };
    let calls = settings.slots.saturating_mul(u32::try_from(settings.concurrency).unwrap_or(u32::MAX)).clamp(1, 64);
    let sandbox = with_code_cache(Sandbox::with_pressure(calls, Limits::default(), &pressure)?, settings);
    Ok(Executor {
        shelf: Shelf::new(Supplier::new(store, registry, trust), sandbox.clone()),
        sandbox,
        node,
        journal,
        clock: Clock::system(),
        concurrency: settings.concurrency.max(1),
        host_id: host_id.into(),
        pressure,
        lock: Arc::new(lock),
    })
}

/// Steps run without the cache too: they are compiled again after each start.
fn with_code_cache(sandbox: Sandbox, settings: &Run) -> Sandbox {
    let limit = settings.code_cache_megabytes.saturating_mul(1_000_000);
    if limit == 0 {
        return sandbox;
    }
    match CodeCache::open(&settings.data.join("code-cache"), limit, fresh_key) {
        Ok(cache) => sandbox.with_code_cache(cache),
        Err(error) => {
            let error = anyhow::Error::new(error);
            tracing::warn!(error = format!("{error:#}"), "compiled code is not kept");
            sandbox
        }
    }
}

fn fresh_key() -> std::io::Result<[u8; 32]> {
    let mut key = [0; 32];
    getrandom::fill(&mut key).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(key)
}

/// The library as the child finds it, which starts in another directory. A bare name is the loader's to
/// look for.
fn nvml_library(settings: &Run) -> anyhow::Result<Option<PathBuf>> {
    match &settings.nvml_library {
        Some(path) if path.components().count() > 1 => {
            let absolute = std::path::absolute(path).context("there is no current directory")?;
            Ok(Some(absolute))
        }
        other => Ok(other.clone()),
    }
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

/// What the scheduler may count on (seed 001, 9.1).
async fn node_capabilities(node: &Node) -> BTreeMap<String, String> {
    let mut capabilities = BTreeMap::new();
    let mut set = |name: &str, value: String| capabilities.insert(name.to_owned(), value);
    match node.gpu.snapshot().await {
        Ok(snapshot) => {
            set("gpu.vendor", "nvidia".to_owned());
            set("gpu.driver_series", snapshot.driver_version.split('.').take(2).collect::<Vec<_>>().join("."));
            set("compute.runtime", "cuda".to_owned());
        }
        Err(error) => {
            tracing::info!(reason = %error, "no GPU is offered");
            set("compute.runtime", "none".to_owned());
        }
    }
    capabilities
}

fn make_private(directory: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::create_dir_all(directory)
        .with_context(|| format!("the data directory {} cannot be made", directory.display()))?;
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700))
        .with_context(|| format!("the data directory {} belongs to another user", directory.display()))
}

/// One host at a time: two would run the same tasks from the same journal.
fn lock(data: &Path) -> anyhow::Result<std::fs::File> {
    let path = data.join("host.lock");
    let file = std::fs::File::create(&path).with_context(|| format!("{} cannot be made", path.display()))?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).with_context(|| {
        format!("another host runs in {}; stop it, or give this one a data directory of its own", data.display())
    })?;
    Ok(file)
}

/// What marks the processes of this host, across restarts.
fn host_id(data: &Path) -> anyhow::Result<String> {
    let path = data.join("host-id");
    if let Ok(known) = std::fs::read_to_string(&path)
        && known.len() == 32
    {
        return Ok(known);
    }
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("no randomness: {error}"))?;
    let id = hex::encode(bytes);
    std::fs::write(&path, &id).with_context(|| format!("{} cannot be written", path.display()))?;
    Ok(id)
}
