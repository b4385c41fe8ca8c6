//! `cargo xtask components`: authors may build with `cargo component build`; what it makes must have
//! the same world as what plain cargo makes.

use std::process::Command;

use crate::{
    steps,
    test::WHAT,
    tools::{self, cargo, cargo_of_the_run, has, target},
};

/// The command.
pub(crate) fn run() -> anyhow::Result<()> {
    if !has("cargo-component") {
        // It only wraps cargo, so it is built without optimisation, in a third of the time.
        let mut install = cargo();
        install.args(["install", "cargo-component", "--version", "0.21.1", "--locked", "--debug"]);
        tools::run(install.env("CARGO_PROFILE_DEV_DEBUG", "0"))?;
    }
    let built = steps::build()?;
    let mut command = cargo();
    command.args(["component", "build", "--locked", "--profile", "step"]);
    for step in &built {
        command.args(["-p", &step.package]);
    }
    tools::run(&mut command)?;
    // With the features that the tests want, or everything below it would be compiled once more.
    tools::run(cargo_of_the_run().args(["build", "--quiet", "--example", "worlds"]).args(WHAT))?;
    let mut compare = Command::new(target().join("debug/examples/worlds"));
    compare.arg(target().join("wasm32-wasip2/step")).arg(target().join("wasm32-wasip1/step"));
    tools::run(&mut compare)
}
