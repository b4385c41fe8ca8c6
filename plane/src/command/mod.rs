//! The program `fettle-plane`.

mod audit;
mod authority;
mod copy;
mod join_token;
mod place;
mod project;
mod secret;
mod serve;
mod token;

use std::{io::Write as _, process::ExitCode};

use clap::{Parser, Subcommand};
use fettle_model::name::Label;
use fettle_store::project::Project;

use crate::administration;

/// Plans, schedules and records operations on nodes.
#[derive(Debug, Parser)]
#[command(name = "fettle-plane", version)]
struct Arguments {
    #[command(flatten)]
    place: place::PlaceOptions,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the plane until it is told to stop (SIGTERM, SIGINT).
    Serve(Box<serve::Serve>),
    /// Tokens of people and programs.
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Tokens with which nodes join.
    #[command(subcommand)]
    JoinToken(join_token::JoinTokenCommand),
    /// What signs the certificates of nodes and planes.
    #[command(subcommand)]
    Authority(authority::AuthorityCommand),
    /// Secrets in documents that the plane reads.
    #[command(subcommand)]
    Secret(secret::SecretCommand),
    /// Projects.
    #[command(subcommand)]
    Project(project::ProjectCommand),
    Audit(audit::Audit),
    Backup(copy::Backup),
    Restore(copy::Restore),
    Migrate(copy::Migrate),
}

/// Runs the program with the arguments of the process. Exit code 0: done; 1: it failed; 2: wrong usage.
#[must_use]
pub fn run() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&anyhow::Error::new(error).context("cannot start threads")),
    };
    let done = runtime.block_on(async {
        let place = arguments.place.place()?;
        match arguments.command {
            Command::Serve(serve) => Box::pin(serve.run(place)).await,
            Command::Token(command) => command.run(&place).await,
            Command::JoinToken(command) => command.run(&place).await,
            Command::Authority(command) => command.run(&place),
            Command::Secret(command) => command.run(),
            Command::Project(command) => command.run(&place).await,
            Command::Audit(audit) => audit.run(&place).await,
            Command::Backup(backup) => backup.run(&place).await,
            Command::Restore(restore) => restore.run(&place).await,
            Command::Migrate(migrate) => migrate.run(&place).await,
        }
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn fail(error: &anyhow::Error) -> ExitCode {
    let causes = error.chain().map(ToString::to_string).collect::<Vec<_>>().join(": ");
    let _ = writeln!(std::io::stderr(), "error: {causes}");
    ExitCode::FAILURE
}

/// Prints one line.
fn print(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()?;
    Ok(())
}

/// The project that two options name.
fn named_project(project: Option<Label>, org: Option<Label>) -> anyhow::Result<Option<Project>> {
    match project {
        Some(project) => Ok(administration::project(project, org)),
        None if org.is_some() => anyhow::bail!("`--org` goes with `--project`"),
        None => Ok(None),
    }
}
