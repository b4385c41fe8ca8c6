//! A plane, a host and a registry in one process, with everything they keep in one directory.
//!
//! ```text
//! <data>/context.json   where everything is, and a token
//! <data>/fettle.log     what everybody does
//! <data>/keys/          a key to sign with (its password is empty)
//! <data>/trust.yaml     a trust policy that trusts it
//! <data>/plane/  <data>/host/  <data>/registry/
//! ```

mod access;
mod keys;
mod referrers;
mod registry;

use std::{
    fs::File,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, bail};
use fettle_host::{
    agent::{Agent, AgentError},
    command::Run,
};
use fettle_plane::{Plane, PlaneConfig, RunningPlane};
use tokio::{task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;

use self::registry::Registry;
use crate::{
    context::Context,
    error::CommandError,
    plane::{PlaneClient, PlaneError},
};

/// Who wrote a context file, so that no other one is overwritten.
const WRITTEN_BY: &str = "fettle dev";
/// The project that is made.
const PROJECT: &str = "default";
/// How long the node may take to appear.
const PATIENCE: Duration = Duration::from_secs(60);

/// How to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where everything is kept.
    pub data: PathBuf,
    /// Where the plane listens; the place of the last run, or a free loopback port, when absent.
    pub plane: Option<SocketAddr>,
    /// The same for the registry.
    pub registry: Option<SocketAddr>,
    /// Name of the node.
    pub node: String,
    /// A second place for the context file, unless somebody else's is there.
    pub context: Option<PathBuf>,
    /// Another NVML than the system's.
    pub nvml_library: Option<PathBuf>,
    /// The environment of that library. For tests.
    pub nvml_environment: Vec<(String, String)>,
    /// The kernel log.
    pub kernel_log: PathBuf,
}

impl Options {
    /// Everything in `data`, on free loopback ports.
    #[must_use]
    pub fn new(data: impl Into<PathBuf>) -> Self {
        Self {
            data: data.into(),
            plane: None,
            registry: None,
            node: "local".to_owned(),
            context: None,
            nvml_library: None,
            nvml_environment: Vec::new(),
            kernel_log: PathBuf::from("/dev/kmsg"),
        }
    }
}

/// Everything runs, until [`Running::stop`] or the end of the runtime it was started on.
pub struct Running {
    /// `http://127.0.0.1:port` of the plane.
    pub plane_url: String,
    /// `127.0.0.1:port` of the registry.
    pub registry: String,
    /// Everything a client needs.
    pub context: Context,
    /// The file with [`Self::context`].
    pub context_path: PathBuf,
    /// The second file with it, when it was written.
    pub user_context_path: Option<PathBuf>,
    /// The data directory, absolute.
    pub data: PathBuf,
    parts: Parts,
}

struct Parts {
    stop: CancellationToken,
    host: JoinHandle<Result<(), AgentError>>,
    plane: RunningPlane,
    registry: Registry,
    _lock: File,
}

/// Starts everything, and returns when the node is ready for operations.
///
/// # Errors
/// When a directory, a port or a document cannot be used.
pub async fn start(options: Options) -> Result<Running, CommandError> {
    Box::pin(start_all(options)).await.map_err(CommandError::Development)
}

async fn start_all(options: Options) -> anyhow::Result<Running> {
    let data = std::path::absolute(&options.data).context("there is no current directory")?;
    make_private(&data)?;
    let lock = lock(&data)?;
    let context_path = data.join("context.json");
    let last = Context::read(&context_path).ok().flatten().unwrap_or_default();
    let keys = keys::ensure(&data)?;
    let registry = Registry::start(&data.join("registry"), address(options.registry, last.registry.as_deref())).await?;
    let plane = start_plane(&options, &data, &keys.trust, &last).await?;
    let plane_url = format!("http://{}", plane.http_address());
    let token = access::token(&data.join("plane"), &plane_url, last.token.as_deref()).await?;
    let context = Context {
        written_by: Some(WRITTEN_BY.to_owned()),
        plane: Some(plane_url.clone()),
        token: Some(token.clone()),
        project: Some(PROJECT.to_owned()),
        registry: Some(registry.address().to_string()),
        key: Some(keys.private),
        trust: Some(keys.trust.clone()),
        node: Some(options.node.clone()),
        login: None,
    };
    let stop = CancellationToken::new();
    let nodes = format!("https://{}", plane.node_address());
    let agent = agent(&options, &data, nodes, keys.trust).await?;
    let mut host = tokio::spawn(agent.run(stop.clone()));
    wait_for_node(&PlaneClient::new(&plane_url, &token, PROJECT)?, &options.node, &mut host).await?;
    context.write(&context_path)?;
    let user_context_path = write_user_context(&context, options.context)?;
    let registry_address = registry.address().to_string();
    let parts = Parts { stop, host, plane, registry, _lock: lock };
    Ok(Running { plane_url, registry: registry_address, context, context_path, user_context_path, data, parts })
}

impl Running {
    /// Stops everything: the host first, with a time of grace for running steps.
    ///
    /// # Errors
    /// What the host said when it ended badly.
    pub async fn stop(self) -> Result<(), CommandError> {
        let Parts { stop, host, plane, registry, _lock } = self.parts;
        stop.cancel();
        let ended = host.await;
        plane.shutdown().await;
        registry.stop().await;
        match ended {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(CommandError::Development(anyhow::Error::new(error))),
            Err(error) => Err(CommandError::Development(anyhow::Error::new(error).context("the host panicked"))),
        }
    }

    /// Waits until a part of it ends by itself, which means that something is badly wrong.
    pub async fn failed(&mut self) -> CommandError {
        let error = tokio::select! {
            ended = &mut self.parts.host => match ended {
                Ok(Ok(())) => anyhow::anyhow!("the host ended by itself"),
                Ok(Err(error)) => anyhow::Error::new(error).context("the host ended"),
                Err(error) => anyhow::Error::new(error).context("the host panicked"),
            },
            ended = self.parts.plane.failed() => match ended {
                Ok(()) => anyhow::anyhow!("the plane ended by itself"),
                Err(error) => anyhow::Error::new(error).context("the plane ended"),
            },
            () = self.parts.registry.failed() => anyhow::anyhow!("the registry ended by itself"),
        };
        CommandError::Development(error)
    }
}

async fn start_plane(options: &Options, data: &Path, trust: &Path, last: &Context) -> anyhow::Result<RunningPlane> {
    let known = last.plane.as_deref().and_then(|url| url.strip_prefix("http://"));
    let config = PlaneConfig {
        listen: address(options.plane, known),
        trust_policy: Some(trust.to_owned()),
        // Its node may be away for as long as its person is.
        rejoin_within: Duration::MAX,
        ..PlaneConfig::new(data.join("plane"))
    };
    Plane::start(config).await.context("the plane cannot start")
}

async fn agent(options: &Options, data: &Path, plane: String, trust: PathBuf) -> anyhow::Result<Arc<Agent>> {
    let directory = data.join("host");
    make_private(&directory)?;
    let join_token_file = access::join_token(&data.join("plane"), &directory).await?;
    let run = Run {
        plane,
        data: directory,
        trust,
        trusted_root: None,
        name: Some(options.node.clone()),
        join_token_file,
        policies: None,
        key_file: None,
        authority: None,
        label: Vec::new(),
        slots: 4,
        concurrency: 8,
        cancel_grace: fettle_host::executor::CANCEL_GRACE,
        keep_cassettes: fettle_host::executor::journal::Bounds::default().count,
        keep_cassettes_megabytes: fettle_host::command::CASSETTE_MEGABYTES,
        code_cache_megabytes: fettle_host::command::CODE_CACHE_MEGABYTES,
        plain_http: Vec::new(),
        http_authority: Vec::new(),
        oci_layout: Vec::new(),
        nvml_library: options.nvml_library.clone(),
        nvml_environment: options.nvml_environment.clone(),
        kernel_log: options.kernel_log.clone(),
        telemetry: Default::default(),
    };
    fettle_host::command::start(&run).await.context("the host cannot start")
}

/// Waits until the plane has heard of the node.
async fn wait_for_node(
    client: &PlaneClient,
    name: &str,
    host: &mut JoinHandle<Result<(), AgentError>>,
) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let mut again = tokio::time::interval(Duration::from_millis(100));
    loop {
        tokio::select! {
            ended = &mut *host => {
                ended.context("the host panicked")?.context("the host cannot join the plane")?;
                bail!("the host ended before it had joined the plane");
            }
            _ = again.tick() => {}
        }
        match client.node(name).await {
            Ok(node) if node.status == "online" => return Ok(()),
            Ok(_) => {}
            Err(PlaneError::Refused(problem)) if problem.status == 404 => {}
            Err(error) => return Err(error.into()),
        }
        if Instant::now() > deadline {
            bail!("the node `{name}` did not join the plane within {} s; read the log", PATIENCE.as_secs());
        }
    }
}

/// What was asked for, else the place of the last run, else a free port.
fn address(asked: Option<SocketAddr>, last: Option<&str>) -> SocketAddr {
    let last = last.and_then(|text| text.parse().ok());
    asked.or(last).unwrap_or_else(|| SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
}

fn make_private(directory: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .with_context(|| format!("cannot make {}; name a directory you may write with --data", directory.display()))
}

fn lock(data: &Path) -> anyhow::Result<File> {
    let path = data.join("dev.lock");
    let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => {
            bail!("another `fettle dev` runs on {}; stop it, or name another directory with --data", data.display())
        }
        Err(std::fs::TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot lock {}", path.display()))
        }
    }
}

/// Writes the user's own context file, unless somebody else wrote the one that is there.
fn write_user_context(context: &Context, path: Option<PathBuf>) -> Result<Option<PathBuf>, CommandError> {
    let Some(path) = path else { return Ok(None) };
    let foreign = match Context::read(&path) {
        Ok(Some(present)) => present.written_by.as_deref() != Some(WRITTEN_BY),
        Ok(None) => false,
        Err(_) => true,
    };
    if foreign {
        return Ok(None);
    }
    context.write(&path)?;
    Ok(Some(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_that_somebody_else_wrote_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("context.json");
        let production = Context { plane: Some("https://plane.internal".to_owned()), ..Context::default() };
        production.write(&path).unwrap();
        let own = Context { written_by: Some(WRITTEN_BY.to_owned()), ..Context::default() };
        assert_eq!(write_user_context(&own, Some(path.clone())).unwrap(), None);
        assert_eq!(Context::read(&path).unwrap(), Some(production));
        own.write(&path).unwrap();
        let newer = Context { node: Some("n".to_owned()), ..own };
        assert_eq!(write_user_context(&newer, Some(path.clone())).unwrap(), Some(path.clone()));
        assert_eq!(Context::read(&path).unwrap(), Some(newer));
    }

    #[test]
    fn a_port_is_kept_from_run_to_run_because_references_name_it() {
        let asked = "127.0.0.1:1".parse().unwrap();
        assert_eq!(address(Some(asked), Some("127.0.0.1:2")), asked);
        assert_eq!(address(None, Some("127.0.0.1:2")).port(), 2);
        assert_eq!(address(None, None).port(), 0);
    }
}
