//! `fettle dev`

use std::{
    fmt::Write as _,
    fs::OpenOptions,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use clap::Args;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    context::{self, Context},
    dev::{self, Options, Running},
    error::CommandError,
    logging,
    output::{Output, even_if_unread, remark},
};

/// Runs a plane, a node and a registry in one process until ctrl-c, for development.
///
/// Everything they keep is in one directory, with a key, a trust policy that trusts it, and a token.
/// The context file it writes lets all other commands find it. Everything listens on loopback only;
/// ports are kept from run to run, because published references name the registry's.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle dev
  fettle dev --data /tmp/try --node gpu-17 --listen 127.0.0.1:8080
  FETTLE_LOG=debug fettle dev          # more in .fettle/fettle.log")]
pub struct Dev {
    /// Where everything is kept.
    #[arg(long, value_name = "DIR", default_value = ".fettle")]
    data: PathBuf,
    /// Where the plane listens; the port of the last run, or a free one, when absent.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Where the registry listens; the port of the last run, or a free one, when absent.
    #[arg(long, value_name = "ADDRESS:PORT")]
    registry: Option<SocketAddr>,
    /// Name of the node.
    #[arg(long, default_value = "local")]
    node: String,
    /// Write no context file but the one in the data directory.
    #[arg(long)]
    no_context: bool,
    /// Another NVML than the system's.
    #[arg(long, value_name = "FILE")]
    nvml_library: Option<PathBuf>,
    /// What that library finds in its environment, which is empty otherwise. For tests.
    #[arg(
        long,
        hide = true,
        requires = "nvml_library",
        value_name = "NAME=VALUE",
        value_parser = fettle_host::command::environment_variable
    )]
    nvml_environment: Vec<(String, String)>,
    /// The kernel log.
    #[arg(long, value_name = "FILE", default_value = "/dev/kmsg")]
    kernel_log: PathBuf,
}

impl Dev {
    /// Runs the command.
    ///
    /// # Errors
    /// When something cannot start, or ends by itself.
    pub async fn run(&self, output: Output) -> Result<(), CommandError> {
        let log = self.open_log()?;
        let options = Options {
            data: self.data.clone(),
            plane: self.listen,
            registry: self.registry,
            node: self.node.clone(),
            context: Context::path().filter(|_| !self.no_context),
            nvml_library: self.nvml_library.clone(),
            nvml_environment: self.nvml_environment.clone(),
            kernel_log: self.kernel_log.clone(),
        };
        let mut running = dev::start(options).await?;
        let told = json!({
            "plane": running.plane_url, "registry": running.registry, "data": running.data, "log": log,
            "context": running.context_path,
        });
        even_if_unread(output.show(&told, |_| text(&running, &log))).map_err(CommandError::Output)?;
        let failure = tokio::select! {
            () = told_to_stop() => None,
            failure = running.failed() => Some(failure),
        };
        remark("stopping; running steps get 20 s, another ctrl-c stops at once");
        let stopped = tokio::select! {
            stopped = stop(running, failure.is_some()) => stopped,
            () = told_to_stop() => return Err(CommandError::Interrupted),
        };
        failure.map_or(stopped, Err)
    }

    fn open_log(&self) -> Result<PathBuf, CommandError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| CommandError::Write { path, source }
        };
        std::fs::create_dir_all(&self.data).map_err(failed(&self.data))?;
        let path = self.data.join("fettle.log");
        let file = OpenOptions::new().append(true).create(true).open(&path).map_err(failed(&path))?;
        logging::to_file(file);
        Ok(path)
    }
}

/// After a failure, a part has ended and cannot be waited for once more.
async fn stop(running: Running, failed: bool) -> Result<(), CommandError> {
    if failed { Ok(()) } else { running.stop().await }
}

async fn told_to_stop() {
    let mut terminate = signal(SignalKind::terminate()).ok();
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
}

fn text(running: &Running, log: &Path) -> String {
    let context = &running.context;
    let path =
        |path: &Option<PathBuf>| path.as_deref().map(|path| shown(path).display().to_string()).unwrap_or_default();
    let mut text = String::from("Everything runs; ctrl-c stops it.\n\n");
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "  {name:<9} {value}");
    };
    line("plane", &format!("{}  (/api/v1/openapi.json)", running.plane_url));
    line("registry", &running.registry);
    line("node", context.node.as_deref().unwrap_or_default());
    line("project", context.project.as_deref().unwrap_or_default());
    line("data", &shown(&running.data).display().to_string());
    line("log", &shown(log).display().to_string());
    line("key", &format!("{}  (its password is empty)", path(&context.key)));
    line("trust", &path(&context.trust));
    let user = running.user_context_path.as_ref();
    line("context", &shown(user.unwrap_or(&running.context_path)).display().to_string());
    text.push_str("\nType next, in another terminal:\n\n");
    if user.is_none() {
        let _ = writeln!(text, "  export {}={}", context::VARIABLE, running.context_path.display());
    }
    text.push_str(
        "  fettle node list\n  fettle step build <crate directory>\n  fettle step publish <component.wasm>\n  fettle \
         catalog publish <catalog.yaml>\n  fettle policy publish <bundle.yaml>\n  fettle definition publish \
         <definition.yaml>\n  fettle definition apply <definition> --catalog <catalog> --policy <policy>\n  fettle \
         operation submit <type>@<version> --input <key>=<value> --watch\n",
    );
    text
}

/// A path as short as it can be.
fn shown(path: &Path) -> &Path {
    std::env::current_dir().ok().and_then(|here| path.strip_prefix(here).ok()).unwrap_or(path)
}
