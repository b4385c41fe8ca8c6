//! `cargo xtask bench NAME`: measures, optimised, against a baseline in the same run.

use crate::{
    python, steps,
    tools::{self, cargo, ensure},
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
    /// The first run of a component, and the first after a restart, against compiling it.
    Cold,
    /// Operations per second through plane and host.
    Dispatch,
    /// A graph of a thousand steps.
    Graph,
    /// Ten thousand nodes on one plane.
    Fleet,
    /// Connections and round trips over TLS, against the same in clear.
    Identity,
    /// Pages of a list of a million operations, on SQLite and on PostgreSQL.
    List,
    /// Memory of a thousand attempts that wait, against bare wasmtime.
    Density,
    /// A layer of 1 GB against skopeo.
    Pull,
}

/// The command.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    steps::build()?;
    if matches!(options.name, Name::Pull) {
        anyhow::ensure!(
            ensure("docker-registry", "docker-registry") && ensure("skopeo", "skopeo"),
            "docker-registry and skopeo are needed to measure against"
        );
    }
    if matches!(options.name, Name::Cold)
        && let Err(error) = python::build()
    {
        eprintln!("the 18 MB component is left out: {error:#}");
    }
    let (packages, bench): (&[&str], _) = match options.name {
        Name::Step => (&["fettle-host"], "step"),
        Name::Cold => (&["fettle-host"], "cold"),
        Name::Dispatch => (&["fettle-tests"], "dispatch"),
        Name::Graph => (&["fettle-tests"], "graph"),
        Name::Fleet => (&["fettle-tests"], "fleet"),
        Name::Identity => (&["fettle-tests"], "identity"),
        Name::List => (&["fettle-store-sqlite", "fettle-store-postgres"], "list"),
        Name::Density => (&["fettle-host"], "density"),
        Name::Pull => (&["fettle-tests"], "pull"),
    };
    let mut command = cargo();
    command.args(["bench", "--quiet", "--bench", bench]);
    command.args(packages.iter().flat_map(|package| ["-p", package]));
    if options.json { tools::run(&mut command) } else { table(&tools::output(&mut command)?) }
}

/// The same figures for people.
fn table(lines: &str) -> anyhow::Result<()> {
    println!("{:<24} {:>12} {:<6} {:<24} {:>12} {:>8}", "figure", "value", "unit", "baseline", "value", "ratio");
    for line in lines.lines() {
        let figure: serde_json::Value = serde_json::from_str(line)?;
        let text = |name: &str| figure[name].as_str().unwrap_or("-").to_owned();
        let number = |name: &str| figure[name].as_f64().map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
        println!(
            "{:<24} {:>12} {:<6} {:<24} {:>12} {:>8}",
            figure["component"]
                .as_str()
                .map_or_else(|| text("figure"), |component| format!("{} {component}", text("figure"))),
            number("value"),
            text("unit"),
            text("baseline"),
            number("baseline_value"),
            number("ratio")
        );
    }
    Ok(())
}
