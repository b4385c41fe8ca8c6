//! `simulation seed <n>` repeats one seed; `simulation seeds <from> <to>` looks for one that fails.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use fettle_simulation::{Broken, Course, Outcome, all, simulate};

#[derive(Parser)]
#[command(about = "One plane, three hosts and random faults, from a seed")]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Simulates one seed.
    Seed {
        /// Which.
        seed: u64,
        /// Prints everything that happens.
        #[arg(long)]
        trace: bool,
        /// Takes one protection out.
        #[arg(long)]
        broken: Option<String>,
    },
    /// Simulates one seed in which nothing goes wrong, until certificates were renewed so often.
    Renewals {
        /// Which seed.
        seed: u64,
        /// How often.
        renewals: u64,
        /// Prints everything that happens.
        #[arg(long)]
        trace: bool,
    },
    /// Simulates all seeds from one to before another, and prints those that fail.
    Seeds {
        /// The first.
        from: u64,
        /// The one after the last.
        to: u64,
        /// Takes one protection out.
        #[arg(long)]
        broken: Option<String>,
    },
}

fn broken(name: Option<&str>) -> Option<Broken> {
    let found = name.map(|name| (name, Broken::from_name(name)));
    if let Some((name, None)) = found {
        let known: Vec<_> = Broken::ALL.iter().map(|broken| broken.name()).collect();
        eprintln!("`{name}` is nothing that can be broken; write one of {}", known.join(", "));
        std::process::exit(2);
    }
    found.and_then(|(_, broken)| broken)
}

fn main() -> ExitCode {
    match Arguments::parse().what {
        What::Seed { seed, trace, broken: name } => {
            tell(seed, &simulate(seed, Course::Trouble, broken(name.as_deref()), trace))
        }
        What::Renewals { seed, renewals, trace } => {
            tell(seed, &simulate(seed, Course::Renewals(renewals), None, trace))
        }
        What::Seeds { from, to, broken: name } => seeds(from, to, broken(name.as_deref())),
    }
}

fn tell(seed: u64, outcome: &Outcome) -> ExitCode {
    println!("seed {seed}: {} {}", outcome.digest, outcome.summary);
    for violation in &outcome.violations {
        println!("seed {seed}: {violation}");
    }
    if outcome.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn seeds(from: u64, to: u64, broken: Option<Broken>) -> ExitCode {
    let said = std::env::current_exe().and_then(|program| {
        all(&program, from..to, broken, |said| {
            if !said.held {
                println!("{}repeat it with: cargo run -p fettle-simulation -- seed {} --trace", said.text, said.seed);
            }
            false
        })
    });
    match said {
        Ok(said) => {
            let failed = said.iter().filter(|said| !said.held).count();
            println!("{} seeds, {failed} failed", said.len());
            if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
