//! `fettle-host check`: what this machine and this user let a host do, before any task finds out.

use std::{net::TcpListener, path::PathBuf, process::ExitCode, time::Duration};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use serde::Serialize;

use crate::{
    capabilities::{exec, gpu},
    queue::Pressure,
    sandbox::{Limits, Sandbox},
};

/// How long the GPU driver may take to answer.
const GPU_DEADLINE: Duration = Duration::from_secs(10);

/// How one thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// As it should be.
    Works,
    /// The host runs, and does less; the sentence says what.
    Restricted,
    /// The host does not run, or not safely.
    Missing,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// What: `control_groups`.
    pub name: &'static str,
    /// How it is.
    pub state: State,
    /// What that means here, and what would change it.
    pub message: String,
}

/// What to look at.
#[derive(Clone, Debug, clap::Args)]
pub struct Check {
    /// Where the host would keep its things.
    #[arg(long, env = "FETTLE_DATA", default_value = "/var/lib/fettle-host")]
    data: PathBuf,
    /// Another NVML than the system's.
    #[arg(long)]
    nvml_library: Option<PathBuf>,
    /// Another kernel log than /dev/kmsg.
    #[arg(long, default_value = "/dev/kmsg")]
    kernel_log: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn found(name: &'static str, state: State, message: impl Into<String>) -> Finding {
    Finding { name, state, message: message.into() }
}

/// `works` when `tried` did, else `otherwise` with the reason after the sentence.
fn tried<T, E: std::fmt::Display>(
    name: &'static str,
    tried: Result<T, E>,
    works: &str,
    otherwise: (State, &str),
) -> Finding {
    match tried {
        Ok(_) => found(name, State::Works, works),
        Err(error) => found(name, otherwise.0, format!("{} ({error})", otherwise.1)),
    }
}

/// Looks, prints, and answers 0 when everything works, 2 when the host would do less, and 1 when it would
/// not run.
pub(crate) fn run(check: &Check) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let findings = runtime.block_on(look(check));
    if check.json {
        println!("{}", serde_json::to_string_pretty(&findings)?);
    } else {
        for finding in &findings {
            let word = match finding.state {
                State::Works => "works     ",
                State::Restricted => "restricted",
                State::Missing => "MISSING   ",
            };
            println!("{word}  {:18}  {}", finding.name, finding.message);
        }
    }
    let worst = findings.iter().map(|finding| finding.state).max().unwrap_or(State::Works);
    Ok(match worst {
        State::Works => ExitCode::SUCCESS,
        State::Restricted => ExitCode::from(2),
        State::Missing => ExitCode::FAILURE,
    })
}

async fn look(check: &Check) -> Vec<Finding> {
    vec![
        data(&check.data),
        openat2_works(),
        tried(
            "no_new_privileges",
            rustix::thread::no_new_privs(),
            "programs cannot gain privileges",
            (State::Missing, "programs could gain privileges, so none is started; use Linux 3.5 or newer"),
        ),
        tried(
            "closed_descriptors",
            exec::can_close_descriptors(),
            "programs inherit no descriptor",
            (State::Missing, "descriptors cannot be kept from programs, so none is started; use Linux 5.11 or newer"),
        ),
        control_groups(),
        users(),
        tried(
            "kernel_log",
            std::fs::File::open(&check.kernel_log),
            "steps can be granted the kernel log",
            (State::Restricted, "steps cannot read the kernel log; run as root, or set kernel.dmesg_restrict=0"),
        ),
        gpus(check).await,
        sandbox(),
        tried(
            "ipv6",
            TcpListener::bind("[::1]:0"),
            "IPv6 is there",
            (State::Restricted, "only registries and services with an IPv4 address are reached"),
        ),
        tried(
            "tls",
            fettle_egress::Client::new(
                fettle_egress::Guard::of_configuration(),
                &fettle_egress::ClientOptions::default(),
            ),
            "registries and services are reached over TLS",
            (State::Missing, "no certificate could be checked; install the system's certificates"),
        ),
    ]
}

fn data(directory: &std::path::Path) -> Finding {
    let made = std::fs::create_dir_all(directory).and_then(|()| {
        let probe = directory.join(format!(".fettle-check-{}", std::process::id()));
        std::fs::write(&probe, b"")?;
        std::fs::remove_file(probe)
    });
    tried(
        "data_directory",
        made,
        &format!("{} can be written", directory.display()),
        (
            State::Missing,
            &format!("{} cannot be written; make it this user's, or name another with --data", directory.display()),
        ),
    )
}

fn openat2_works() -> Finding {
    let root = rustix::fs::open("/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let opened = root.and_then(|root| openat2(&root, ".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve));
    tried(
        "openat2",
        opened,
        "files are opened without following links",
        (
            State::Missing,
            "files cannot be held below their roots; use Linux 5.6 or newer, and allow openat2 in the container",
        ),
    )
}

fn control_groups() -> Finding {
    let opened = exec::Cgroups::open(&format!("check-{}", std::process::id()));
    let opened = opened.map_err(|error| format!("{:#}", anyhow::Error::new(error)));
    tried(
        "control_groups",
        opened,
        "everything that a program starts is killed with it",
        (
            State::Restricted,
            "a program that leaves its process group and clears its environment is not found when its step ends",
        ),
    )
}

fn users() -> Finding {
    const SETUID_AND_SETGID: u64 = (1 << 7) | (1 << 6);
    let status = procfs::process::Process::myself().and_then(|process| process.status());
    let own = rustix::process::geteuid().as_raw();
    if status.is_ok_and(|status| status.capeff & SETUID_AND_SETGID == SETUID_AND_SETGID) {
        return found("users", State::Works, "programs and files can belong to any user");
    }
    found(
        "users",
        State::Restricted,
        format!(
            "programs run as user {own} only, and files belong to that user: a profile or a file with another user is \
             refused; run the host as root"
        ),
    )
}

async fn gpus(check: &Check) -> Finding {
    let snapshot = async {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let spawner = exec::Spawner::start(None, &Pressure::default()).map_err(|error| error.to_string())?;
        let probe = gpu::Probe::new(program, check.nvml_library.clone(), spawner);
        probe.snapshot().await.map_err(|error| error.to_string())
    };
    let answered = match tokio::time::timeout(GPU_DEADLINE, snapshot).await {
        Ok(answered) => answered,
        Err(_) => Err(format!("the driver did not answer within {GPU_DEADLINE:?}")),
    };
    let works = match &answered {
        Ok(snapshot) => format!("{} GPUs, driver {}", snapshot.devices.len(), snapshot.driver_version),
        Err(_) => String::new(),
    };
    tried("nvml", answered, &works, (State::Restricted, "steps cannot read GPUs"))
}

fn sandbox() -> Finding {
    match Sandbox::new(8, Limits::default()) {
        Ok(sandbox) if sandbox.is_pooled() => found("sandbox", State::Works, "components run from a pool of instances"),
        Ok(_) => found(
            "sandbox",
            State::Restricted,
            "there is no pool of instances, so components start slower; allow the host more address space (ulimit -v)",
        ),
        Err(error) => found("sandbox", State::Missing, format!("components cannot run on this machine ({error:#})")),
    }
}
