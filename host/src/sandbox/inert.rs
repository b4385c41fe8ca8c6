//! WASI interfaces that a toolchain drags into every component, linked so that they reach nothing.
//!
//! Clocks stand still, random numbers are always the same, there are no files, no arguments, no
//! environment and no network. Sockets and HTTP are not linked at all: a component that imports them
//! is refused.

use std::time::Duration;

use wasmtime::component::Linker;
use wasmtime_wasi::{
    Deterministic, HostMonotonicClock, HostWallClock, WasiCtx,
    cli::{WasiCli, WasiCliView as _},
    clocks::{WasiClocks, WasiClocksView as _},
    filesystem::{WasiFilesystem, WasiFilesystemView as _},
    p2::bindings::{cli, clocks, filesystem, random},
    random::WasiRandom,
};

use super::{
    limits::Limits,
    spent::Spent,
    state::AttemptState,
    streams::{Beginning, Nowhere},
};

/// Interfaces (without version) that a component may import and that reach nothing.
pub const INTERFACES: [&str; 19] = [
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
    Ok(())
}

/// A context in which they reach nothing; the beginning of standard error is kept.
pub(super) fn context(stderr: Beginning, spent: &Spent, limits: &Limits) -> WasiCtx {
    WasiCtx::builder()
        .stdout(Nowhere::new(None, spent.clone(), limits))
        .stderr(Nowhere::new(Some(stderr), spent.clone(), limits))
        .allow_tcp(false)
        .allow_udp(false)
        .wall_clock(Still)
        .monotonic_clock(Still)
        .insecure_random_seed(0)
        .secure_random(Deterministic::new(vec![0]))
        .max_random_size(limits.host_call as u64)
        .build()
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
