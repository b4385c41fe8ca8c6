//! `cargo xtask test`: builds the components, installs what the tests need where that is possible, and
//! runs everything.

use crate::{
    node, python, steps,
    tools::{self, cargo_of_the_run, ensure, has},
};

/// How to test.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// A suite that cannot run is an error.
    #[arg(long)]
    all: bool,
    /// Only tests whose name contains this.
    filter: Option<String>,
}

/// Programs that suites need, and the Debian packages that have them.
const PARTS: [(&str, &str); 5] = [
    ("docker-registry", "docker-registry"),
    ("skopeo", "skopeo"),
    ("promtool", "prometheus"),
    ("iptables", "iptables"),
    ("softhsm2-util", "softhsm2"),
];

/// The package of PostgreSQL, whose programs are on nobody's path. Its own server is not used: each test starts one.
const POSTGRESQL: &str = "postgresql";

/// Everything, with the points at which scenarios kill the programs.
pub(crate) const WHAT: [&str; 3] = ["--workspace", "--features", "fettle-tests/crash-points"];

/// Scenarios that run again with several planes over PostgreSQL, behind a client that asks one after the other: what goes
/// from end to end. What one plane does there is among it.
const AGAIN: &str = "package(fettle-tests) and binary(scenarios) and (test(submissions::) or test(stage_a_model::) \
     or test(interruptions::) or test(refusals::))";

/// The plane that is killed at each of its writes, once more on PostgreSQL. With several planes each of them is, which takes
/// long and says nothing new: `planes::` kills whole planes.
const KILLED: &str =
    "package(fettle-tests) and binary(scenarios) and test(the_plane_survives_a_kill_at_every_store_write)";

fn tests(options: &Options) -> std::process::Command {
    let mut command = cargo_of_the_run();
    command.env("RUST_BACKTRACE", "0");
    if options.all {
        command.env("FETTLE_TEST_ALL", "1");
        command.env("FETTLE_HOSTILE_SECONDS", "120");
    }
    command
}

/// Schemathesis, for the test of the API against its own description.
fn fuzzer() -> anyhow::Result<()> {
    let requirements = tools::root().join("plane/tests/it/conformance/requirements.txt");
    python::environment(&tools::target().join("tools/schemathesis"), &requirements, "schemathesis").map(drop)
}

/// An OpenID provider, for the tests of who somebody is by its word.
fn provider() -> anyhow::Result<()> {
    anyhow::ensure!(ensure("npm", "npm"), "npm is needed for it");
    node::packages(&tools::target().join("tools/openid"), &tools::root().join("plane/tests/it/openid"))
}

/// The command.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let mut missing = Vec::new();
    for (program, package) in PARTS {
        if !ensure(program, package) {
            missing.push(package);
        }
    }
    if !tools::ensure_postgresql(POSTGRESQL) {
        missing.push(POSTGRESQL);
    }
    if options.all && !missing.is_empty() {
        anyhow::bail!("these packages could not be installed, and suites need them: {}", missing.join(", "));
    }
    steps::build()?;
    match python::build() {
        Err(error) if options.all => return Err(error.context("steps in Python cannot be built, and suites need them")),
        Err(error) => eprintln!("tests of steps in Python are skipped: {error:#}"),
        Ok(()) => {}
    }
    match fuzzer() {
        Err(error) if options.all => return Err(error.context("the API's description cannot be tested")),
        Err(error) => eprintln!("the test of the API's description is skipped: {error:#}"),
        Ok(()) => {}
    }
    match provider() {
        Err(error) if options.all => return Err(error.context("OpenID cannot be tested")),
        Err(error) => eprintln!("the tests against an OpenID provider are skipped: {error:#}"),
        Ok(()) => {}
    }
    // No other runner knows the examples in the documentation.
    tools::run(tests(options).args(["test", "--doc", "--quiet"]).args(WHAT).args(options.filter.as_deref()))?;
    let runner: &[&str] =
        if has("cargo-nextest") { &["nextest", "run"] } else { &["test", "--lib", "--bins", "--tests"] };
    tools::run(tests(options).args(runner).args(WHAT).arg("--no-fail-fast").args(options.filter.as_deref()))?;
    if has("cargo-nextest") && options.filter.is_none() && !missing.contains(&POSTGRESQL) {
        for (planes, what) in [("1", KILLED), ("3", AGAIN)] {
            let mut again = tests(options);
            again.env("FETTLE_TEST_DATABASE", "postgres").env("FETTLE_TEST_PLANES", planes).args(runner).args(WHAT);
            tools::run(again.args(["--no-fail-fast", "-E", what]))?;
        }
    }
    if !missing.is_empty() {
        println!(
            "tests that need {} did not run in full; install it and run again, or use --all to make this an error",
            missing.join(", ")
        );
    }
    Ok(())
}
