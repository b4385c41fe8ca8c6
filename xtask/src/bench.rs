//! `cargo xtask bench NAME`: measures, optimised, against a baseline in the same run.

use crate::{
    steps,
    tools::{self, cargo, ensure, target},
};

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The figure's group.
    name: Name,
    /// One JSON object per figure and nothing else.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Name {
    /// A warm no-op step against bare wasmtime and against fork and exec.
    Step,
    /// Operations per second through plane and host.
    Dispatch,
    /// A layer of 1 GB against skopeo.
    Pull,
}

/// The command.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    steps::build()?;
    if matches!(options.name, Name::Pull) {
        anyhow::ensure!(ensure("docker-registry", "docker-registry") && ensure("skopeo", "skopeo"), "docker-registry and skopeo are needed to measure against");
    }
    tools::run(cargo().args(["build", "--release", "--quiet", "-p", "fettle-tests", "--bin", "fettle-bench"]))?;
    let name = match options.name {
        Name::Step => "step",
        Name::Dispatch => "dispatch",
        Name::Pull => "pull",
    };
    let mut command = std::process::Command::new(target().join("release/fettle-bench"));
    command.arg(name);
    if options.json {
        command.arg("--json");
    }
    tools::run(&mut command)
}
