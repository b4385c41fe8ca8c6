//! WASI interfaces that a toolchain drags into every component, linked so that they reach nothing.
//!
//! Clocks stand still, random numbers are always the same, there are no files, no arguments, no
//! environment and no network: no socket can be made and no name is looked up. HTTP is not linked at all:
//! a component that imports it is refused.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use wasmtime::component::Linker;
use wasmtime_wasi::{
    Deterministic, HostMonotonicClock, HostWallClock, WasiCtx,
    cli::{WasiCli, WasiCliView as _},
    clocks::{WasiClocks, WasiClocksView as _},
    filesystem::{WasiFilesystem, WasiFilesystemView as _},
    p2::bindings::{cli, clocks, filesystem, random, sockets},
    random::WasiRandom,
    sockets::{WasiSockets, WasiSocketsView as _},
};

use crate::mutation::{Protection, off};

use super::{
    limits::Limits,
    spent::Spent,
    state::AttemptState,
    streams::{Beginning, Nowhere},
};

/// Interfaces (without version) that a component may import and that reach nothing.
pub const INTERFACES: [&str; 26] = [
    "wasi:cli/environment",
    "wasi:cli/exit",
    "wasi:cli/stderr",
    "wasi:cli/stdin",
    "wasi:cli/stdout",
    "wasi:cli/terminal-input",
    "wasi:cli/terminal-output",
    "wasi:cli/terminal-stderr",
    "wasi:cli/terminal-stdin",
    "wasi:cli/terminal-stdout",
    "wasi:clocks/monotonic-clock",
    "wasi:clocks/wall-clock",
    "wasi:filesystem/preopens",
    "wasi:filesystem/types",
    "wasi:io/error",
    "wasi:io/poll",
    "wasi:io/streams",
    "wasi:random/insecure-seed",
    "wasi:random/random",
    "wasi:sockets/instance-network",
    "wasi:sockets/ip-name-lookup",
    "wasi:sockets/network",
    "wasi:sockets/tcp",
    "wasi:sockets/tcp-create-socket",
    "wasi:sockets/udp",
    "wasi:sockets/udp-create-socket",
];

/// Links them.
pub(super) fn link(linker: &mut Linker<AttemptState>) -> wasmtime::Result<()> {
    use wasmtime_wasi::WasiView as _;

    wasmtime_wasi_io::add_to_linker_async(linker)?;
    clocks::wall_clock::add_to_linker::<_, WasiClocks>(linker, AttemptState::clocks)?;
    clocks::monotonic_clock::add_to_linker::<_, WasiClocks>(linker, AttemptState::clocks)?;
    filesystem::types::add_to_linker::<_, WasiFilesystem>(linker, AttemptState::filesystem)?;
    filesystem::preopens::add_to_linker::<_, WasiFilesystem>(linker, AttemptState::filesystem)?;
    random::insecure_seed::add_to_linker::<_, WasiRandom>(linker, |state| state.ctx().ctx.random())?;
    random::random::add_to_linker::<_, WasiRandom>(linker, |state| state.ctx().ctx.random())?;
    cli::exit::add_to_linker::<_, WasiCli>(linker, AttemptState::cli)?;
    cli::environment::add_to_linker::<_, WasiCli>(linker, AttemptState::cli)?;
    cli::stdin::add_to_linker::<_, WasiCli>(linker, AttemptState::cli)?;
    cli::stdout::add_to_linker::<_, WasiCli>(linker, AttemptState::cli)?;
    cli::stderr::add_to_linker::<_, WasiCli>(linker, AttemptState::cli)?;
    cli::terminal_input::add_to_linker::<_, WasiCli>(linker, AttemptState::cli)?;
    cli::terminal_output::add_to_linker::<_, WasiCli>(linker, AttemptState::cli)?;
    cli::terminal_stdin::add_to_linker::<_, WasiCli>(linker, AttemptState::cli)?;
    cli::terminal_stdout::add_to_linker::<_, WasiCli>(linker, AttemptState::cli)?;
    cli::terminal_stderr::add_to_linker::<_, WasiCli>(linker, AttemptState::cli)?;
    link_sockets(linker)
}

/// The runtimes of languages import them whether a step uses them or not.
fn link_sockets(linker: &mut Linker<AttemptState>) -> wasmtime::Result<()> {
    let options = sockets::network::LinkOptions::default();
    sockets::instance_network::add_to_linker::<_, WasiSockets>(linker, AttemptState::sockets)?;
    sockets::ip_name_lookup::add_to_linker::<_, WasiSockets>(linker, AttemptState::sockets)?;
    sockets::network::add_to_linker::<_, WasiSockets>(linker, &options, AttemptState::sockets)?;
    sockets::tcp::add_to_linker::<_, WasiSockets>(linker, AttemptState::sockets)?;
    sockets::tcp_create_socket::add_to_linker::<_, WasiSockets>(linker, AttemptState::sockets)?;
    sockets::udp::add_to_linker::<_, WasiSockets>(linker, AttemptState::sockets)?;
    sockets::udp_create_socket::add_to_linker::<_, WasiSockets>(linker, AttemptState::sockets)
}

/// A context in which they reach nothing; the beginning of standard error is kept.
pub(super) fn context(stderr: Beginning, spent: &Spent, limits: &Limits) -> WasiCtx {
    let mut context = WasiCtx::builder();
    context
        .stdout(Nowhere::new(None, spent.clone(), limits))
        .stderr(Nowhere::new(Some(stderr), spent.clone(), limits))
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        .insecure_random_seed(if off(Protection::StepsHaveNoChance) { chance() } else { 0 })
        .secure_random(Deterministic::new(vec![0]))
        .max_random_size(limits.host_call as u64);
    if !off(Protection::ClocksStandStill) {
        context.wall_clock(Still).monotonic_clock(Still);
    }
    if off(Protection::ComponentsHaveNoNetwork) {
        context.inherit_network().allow_tcp(true).allow_udp(true).allow_ip_name_lookup(true);
    }
    context.build()
}

/// Another number each time. Only a test that takes the protection out ever asks.
fn chance() -> u128 {
    static ASKED: AtomicU64 = AtomicU64::new(1);
    u128::from(ASKED.fetch_add(1, Ordering::Relaxed)) << 64 | 0x9e37_79b9
}

struct Still;

impl HostWallClock for Still {
    fn resolution(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

impl HostMonotonicClock for Still {
    fn resolution(&self) -> u64 {
        1_000_000_000
    }

    fn now(&self) -> u64 {
        0
    }
}
