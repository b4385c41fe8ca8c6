//! The command line, and the program around it.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::{
    command::{
        self, Session,
        allocation::AllocationCommand,
        artifact::ArtifactCommand,
        catalog::CatalogCommand,
        completions::Completions,
        definition::DefinitionCommand,
        dev::Dev,
        key::KeyCommand,
        login::{Login, Logout},
        node::NodeCommand,
        node_group::NodeGroupCommand,
        nvml_snapshot::NvmlSnapshot,
        operation::OperationCommand,
        operation_policy::OperationPolicyCommand,
        policy::PolicyCommand,
        step::StepCommand,
        trust::TrustCommand,
        webhook::WebhookCommand,
    },
    context::Context,
    error::CommandError,
    exit::Exit,
    logging,
    output::{self, Output},
    report,
};

/// Prepares GPU nodes and keeps them in order.
///
/// Steps are signed WebAssembly components; an operation is a signed graph of steps; a plane leases
/// operations to nodes, and each node runs only what was signed and granted.
#[derive(Debug, Parser)]
#[command(name = "fettle", version, propagate_version = true, after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Print results as JSON, and errors as JSON on standard error.
    #[arg(long, global = true, help_heading = "Global options")]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  fettle dev                                      a plane, a node and a registry on this machine
  fettle step build steps/my-step                 build a component
  fettle step publish my_step.wasm                push and sign it
  fettle definition apply <reference> --catalog <reference> --policy <reference>
  fettle operation submit model.artifact.stage@v1 --input name=llama --watch

Commands find the plane, token, project, registry, key and trust policy in options, then in
FETTLE_PLANE, FETTLE_TOKEN, FETTLE_PROJECT, FETTLE_KEY, FETTLE_TRUST, then in the context file that
`fettle dev` writes (FETTLE_CONTEXT, or ~/.config/fettle/context.json).

`fettle exit-codes` explains the exit codes.";

#[derive(Debug, Subcommand)]
enum Command {
    Dev(Dev),
    Login(Login),
    Logout(Logout),
    /// Keys that sign artifacts.
    #[command(subcommand)]
    Key(KeyCommand),
    /// Steps: make, build, publish, attest, inspect, verify.
    #[command(subcommand)]
    Step(StepCommand),
    /// Artifacts: files of any size, and verifying what was signed.
    #[command(subcommand)]
    Artifact(ArtifactCommand),
    /// Catalogs: which component implements which step kind.
    #[command(subcommand)]
    Catalog(CatalogCommand),
    /// Policy bundles (command profiles, roots, the ceiling of a node), and why an operation may be or not.
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Trust policies: check, publish, activate, look.
    #[command(subcommand)]
    Trust(TrustCommand),
    /// Operation definitions: check, publish, register, look.
    #[command(subcommand)]
    Definition(DefinitionCommand),
    /// Operations: plan, submit, watch, list, cancel.
    #[command(subcommand)]
    Operation(OperationCommand),
    /// What platform, tenants and projects say of operation types.
    #[command(subcommand)]
    OperationPolicy(OperationPolicyCommand),
    /// Nodes.
    #[command(subcommand)]
    Node(NodeCommand),
    /// Webhooks: events of operations to an address of yours.
    #[command(subcommand)]
    Webhook(WebhookCommand),
    /// Node groups: nodes of a project under one name.
    #[command(subcommand)]
    NodeGroup(NodeGroupCommand),
    /// Allocations: nodes that a tenant gives to a project, under one name.
    #[command(subcommand)]
    Allocation(AllocationCommand),
    Completions(Completions),
    /// Explains the exit codes.
    ExitCodes,
    /// Asked by the host itself: reads NVML and prints JSON.
    #[command(hide = true)]
    NvmlSnapshot(NvmlSnapshot),
}

/// The program `fettle`, with the arguments of the process.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let output = Output { json: arguments.json };
    match start(arguments.command, output) {
        Ok(()) => Exit::Success.into(),
        Err(error) => {
            if !error.is_shown() {
                let text = if output.json { report::json(&error) } else { report::text(&error) };
                output::remark(text.trim_end());
            }
            error.exit().into()
        }
    }
}

fn start(command: Command, output: Output) -> Result<(), CommandError> {
    // These need neither a context nor threads, and work when the context file is broken.
    match command {
        Command::Completions(completions) => return completions.run(),
        Command::ExitCodes => return command::exit_codes::run(output),
        Command::NvmlSnapshot(snapshot) => return snapshot.run(),
        Command::Key(command) => return command.run(output),
        Command::Step(_)
        | Command::Artifact(_)
        | Command::Catalog(_)
        | Command::Policy(_)
        | Command::Trust(_)
        | Command::Definition(_)
        | Command::Operation(_)
        | Command::OperationPolicy(_)
        | Command::Node(_)
        | Command::Webhook(_)
        | Command::NodeGroup(_)
        | Command::Allocation(_)
        | Command::Login(_)
        | Command::Logout(_)
        | Command::Dev(_) => {}
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CommandError::Sandbox(format!("no threads: {error}")))?;
    // `dev` writes the context file and so must start with a broken one.
    if let Command::Dev(dev) = command {
        return runtime.block_on(Box::pin(dev.run(output)));
    }
    logging::to_stderr();
    let session = Session { output, context: Context::load()? };
    runtime.block_on(Box::pin(run(command, session)))
}

async fn run(command: Command, session: Session) -> Result<(), CommandError> {
    match command {
        Command::Step(command) => command.run(&session).await,
        Command::Artifact(command) => command.run(&session).await,
        Command::Catalog(command) => command.run(&session).await,
        Command::Policy(command) => command.run(&session).await,
        Command::Trust(command) => command.run(&session).await,
        Command::Definition(command) => command.run(&session).await,
        Command::Operation(command) => command.run(&session).await,
        Command::OperationPolicy(command) => command.run(&session).await,
        Command::Node(command) => command.run(&session).await,
        Command::Webhook(command) => command.run(&session).await,
        Command::NodeGroup(command) => command.run(&session).await,
        Command::Allocation(command) => command.run(&session).await,
        Command::Login(command) => command.run(&session).await,
        Command::Logout(command) => command.run(&session),
        Command::Dev(_) | Command::Key(_) | Command::Completions(_) | Command::ExitCodes | Command::NvmlSnapshot(_) => {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_that_people_type_says_how_in_an_example() {
        fn visit(command: &clap::Command, missing: &mut Vec<String>, path: &str) {
            let path = format!("{path} {}", command.get_name());
            let leaf = !command.has_subcommands();
            if leaf && !command.is_hide_set() && command.get_name() != "exit-codes" {
                let help = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
                if !help.contains("Example") || !help.contains(path.trim()) {
                    missing.push(path.clone());
                }
            }
            command.get_subcommands().for_each(|below| visit(below, missing, &path));
        }
        let mut missing = Vec::new();
        visit(&Arguments::command(), &mut missing, "");
        assert!(missing.is_empty(), "no example: {missing:?}");
    }

    #[test]
    fn json_is_understood_after_any_command() {
        let arguments = Arguments::try_parse_from(["fettle", "node", "list", "--json"]).unwrap();
        assert!(arguments.json);
    }

    #[test]
    fn a_tag_is_a_usage_error_that_names_the_fix() {
        let error = Arguments::try_parse_from(["fettle", "step", "verify", "localhost:1/steps/a:v1"]).unwrap_err();
        assert_eq!(error.exit_code(), i32::from(Exit::Usage.code()));
        assert!(error.to_string().contains("write the digest"), "{error}");
    }
}
