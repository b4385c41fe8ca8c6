//! The build's own commands: `cargo xtask demo`, `test`, `steps`, `python-steps`, `bench`, `components`.

#![expect(clippy::disallowed_methods, reason = "the build starts programs; nothing of this runs on a node")]

mod bench;
mod components;
mod demo;
mod node;
mod python;
mod steps;
mod test;
mod tools;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The build's own commands.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a real operation on this machine: plane, host, registry, signed steps.
    Demo(demo::Options),
    /// Run the tests; with --all also those that need parts which must be installed.
    Test(test::Options),
    /// Build the step components.
    Steps,
    /// Build the steps that are written in Python; needs python3 and PyPI.
    PythonSteps,
    /// Build every step with `cargo component build` and check that it has the same world.
    Components,
    /// Measure, and print one JSON object per figure.
    Bench(bench::Options),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Demo(options) => demo::run(&options),
        Command::Test(options) => test::run(&options),
        Command::Steps => steps::run(),
        Command::PythonSteps => python::run(),
        Command::Components => components::run(),
        Command::Bench(options) => bench::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nxtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
