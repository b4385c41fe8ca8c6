//! The program `fettle-host`, and how a host is put together; `fettle dev` puts one together the same way.

mod cassettes;
mod data;
mod generate_key;
mod policies;
mod refusals;
mod run;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use fettle_egress::{ClientOptions, Guard};
use fettle_supply::{ContentStore, RegistryClient, RegistryOptions, Supplier, TrustFiles, TrustSource};
use fettle_telemetry::Telemetry;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use tokio_util::sync::CancellationToken;

use self::data::{fresh_key, host_id, kept_key, lock, make_private};
pub use self::run::{Run, environment_variable};
use crate::{
    agent::{Agent, Invitation, Settings, journal_path},
    capabilities::{Node, Queues, exec, facts, files, gpu, http, transfer},
    clock::Clock,
    executor::{
        Executor, Shelf,
        journal::{Bounds, Journal},
        policies::Policies,
    },
    metrics::HostMetrics,
    queue::Pressure,
    refusals::Refusals,
    sandbox::{CodeCache, Limits, Sandbox},
};

/// Compiled code that is kept on disk unless said otherwise, in MB.
pub const CODE_CACHE_MEGABYTES: u64 = 2_000;

/// Cassettes that are kept unless said otherwise, in MB.
pub const CASSETTE_MEGABYTES: u64 = 256;

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
    /// Say what this machine and this user let a host do. Exits with 0 when everything works, with 2 when
    /// the host would do less, and with 1 when it would not run.
    Check(crate::check::Check),
    /// What attempts asked of this node: list it, take it out.
    #[command(subcommand)]
    Cassettes(cassettes::CassettesCommand),
    Refusals(refusals::RefusalsCommand),
    Policies(policies::PoliciesCommand),
    GenerateKey(generate_key::GenerateKey),
    /// Asked by the host itself: read NVML and print JSON.
    #[command(hide = true)]
    NvmlSnapshot {
        /// Another library than the system's.
        #[arg(long)]
        library: Option<PathBuf>,
    },
}

/// The program.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.command {
        Command::NvmlSnapshot { library } => {
            gpu::nvml::print_snapshot(library.as_deref()).map(|()| ExitCode::SUCCESS).map_err(Into::into)
        }
        Command::Check(check) => crate::check::run(&check),
        Command::Cassettes(command) => command.run().map(|()| ExitCode::SUCCESS),
        Command::Refusals(command) => command.run(),
        Command::Policies(command) => command.run().map(|()| ExitCode::SUCCESS),
        Command::GenerateKey(command) => command.run().map(|()| ExitCode::SUCCESS),
        Command::Run(settings) => run(&settings).map(|()| ExitCode::SUCCESS),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("fettle-host: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(settings: &Run) -> anyhow::Result<()> {
    // No core dump, and no debugger but root's: the node's key and the credentials of steps are in memory.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).context("core dumps cannot be switched off")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no threads")?;
    let telemetry = runtime.block_on(async { Telemetry::start(&settings.telemetry, "fettle-host") })?;
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
        let agent = start(settings).await?;
        let _metrics = agent.serve_metrics(&settings.telemetry).await?;
        agent.run(stop).await.map_err(anyhow::Error::from)
    });
    telemetry.close();
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
    let settings = Settings {
        plane: settings.plane.clone(),
        name: settings
            .name
            .clone()
            .unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned()),
        invitation: invitation(settings)?,
        data_directory: settings.data.clone(),
        slots: settings.slots,
        capabilities: node_capabilities(&executor.node).await,
        labels: settings.label.iter().cloned().collect(),
        policies: settings.policies.clone(),
    };
    Ok(Agent::new(settings, executor)?)
}

/// By what the node is let in for the first time.
fn invitation(settings: &Run) -> anyhow::Result<Option<Invitation>> {
    if let (Some(file), Some(authority)) = (&settings.key_file, settings.authority) {
        return Ok(Some(Invitation::Key { file: file.clone(), authority }));
    }
    let Some(path) = &settings.join_token_file else { return Ok(None) };
    let token = std::fs::read_to_string(path);
    let token = token.with_context(|| format!("the join token {} cannot be read", path.display()))?;
    Ok(Some(Invitation::Token(token.trim().to_owned())))
}

/// Puts together what executes tasks. Also what author commands run components with.
///
/// # Errors
/// When its directories, its trust policy or its journal cannot be used.
pub async fn executor(settings: &Run) -> anyhow::Result<Executor> {
    let data = &settings.data;
    make_private(data)?;
    let lock = lock(data)?;
    let trust = TrustFiles::new(settings.trust.clone(), settings.trusted_root.clone(), Some(data.clone()));
    let trust = TrustSource::from(trust);
    trust.current()?;
    let plain_http = settings.plain_http.iter().cloned().collect::<BTreeSet<_>>();
    let registry = RegistryClient::new(RegistryOptions {
        plain_http,
        layouts: settings.oci_layout.clone(),
        ..RegistryOptions::default()
    })?;
    let store = ContentStore::open(&data.join("artifacts"))?;
    let bounds = Bounds { count: settings.keep_cassettes, bytes: megabytes(settings.keep_cassettes_megabytes) };
    let journal = Journal::open_bounded(&journal_path(data), bounds).await?;
    let host_id = host_id(data)?;
    let (cgroups, held) = match exec::Cgroups::open(&host_id) {
        Ok((cgroups, killed)) => (Some(cgroups), killed),
        Err(error) => {
            let reason = format!("{:#}", anyhow::Error::new(error));
            tracing::warn!(
                reason,
                "programs get no control group: one that leaves its process group and clears its environment is not found"
            );
            (None, 0)
        }
    };
    let killed = held + exec::leftovers::kill(&host_id);
    if killed > 0 {
        tracing::warn!(killed, "processes that an earlier run left behind were killed");
    }
    let pressure = Pressure::default();
    let files_directory = data.join("files");
    std::fs::create_dir_all(&files_directory)
        .with_context(|| format!("{} cannot be made", files_directory.display()))?;
    let web = ClientOptions { authorities: authorities(settings)?, ..ClientOptions::default() };
    let mut node = node(files_directory, registry.clone(), nvml_library(settings)?, cgroups, &pressure)?;
    node.web = http::Web::new(Guard::of_configuration(), web);
    node.gpu.environment = settings.nvml_environment.iter().cloned().collect();
    node.facts.kernel_log.clone_from(&settings.kernel_log);
    let calls = settings.slots.saturating_mul(u32::try_from(settings.concurrency).unwrap_or(u32::MAX)).clamp(1, 64);
    let sandbox = with_code_cache(Sandbox::with_pressure(calls, Limits::default(), &pressure)?, settings);
    Ok(Executor {
        shelf: Shelf::new(Supplier::new(store, registry, trust), sandbox.clone()),
        sandbox,
        node,
        journal,
        clock: Clock::system(),
        concurrency: settings.concurrency.max(1),
        cancel_grace: settings.cancel_grace,
        host_id: host_id.into(),
        pressure,
        metrics: HostMetrics::default(),
        refusals: Refusals::open(data)?,
        policies: Policies::open(data)?,
        handles: kept_key(&data.join("handles.key"))?.into(),
        lock: Arc::new(lock),
    })
}

/// What this machine has to give. Relative roots are below `files_directory`.
///
/// # Errors
/// When no program can be started from here.
pub fn node(
    files_directory: PathBuf,
    registry: RegistryClient,
    nvml_library: Option<PathBuf>,
    cgroups: Option<exec::Cgroups>,
    pressure: &Pressure,
) -> anyhow::Result<Node> {
    let spawner = exec::Spawner::start(cgroups, pressure).context("no thread to start programs from")?;
    let program = std::env::current_exe().context("the path of this program is unknown")?;
    Ok(Node {
        queues: Queues::new(pressure),
        gpu: gpu::Probe::new(program, nvml_library, spawner.clone()),
        spawner,
        files_directory,
        transfers: transfer::Transfers::new(registry),
        web: http::Web::new(Guard::of_configuration(), ClientOptions::default()),
        facts: facts::Source::default(),
        digests: files::DigestCache::default(),
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

fn megabytes(count: u64) -> usize {
    usize::try_from(count.saturating_mul(1_000_000)).unwrap_or(usize::MAX)
}

fn authorities(settings: &Run) -> anyhow::Result<Vec<Vec<u8>>> {
    let read = |path: &PathBuf| {
        std::fs::read(path).with_context(|| format!("the certificates {} cannot be read", path.display()))
    };
    settings.http_authority.iter().map(read).collect()
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

/// What the scheduler may count on (seed 001, 9.1).
async fn node_capabilities(node: &Node) -> BTreeMap<String, String> {
    let mut capabilities = BTreeMap::new();
    let mut set = |name: &str, value: String| capabilities.insert(name.to_owned(), value);
    let held = if node.spawner.holds_everything() { "cgroup" } else { "process-group" };
    set("host.containment", held.to_owned());
    let user = if rustix::process::geteuid().is_root() { "root" } else { "ordinary" };
    set("host.user", user.to_owned());
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
