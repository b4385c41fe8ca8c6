//! `fettle allocation`

use clap::{Args, Subcommand};

use super::{Session, node_set, target::PlaneArguments};
use crate::{error::CommandError, plane::NodeSetKind};

/// Allocations: nodes that a tenant gives to a project, under one name.
#[derive(Debug, Subcommand)]
#[expect(missing_docs, reason = "each command documents itself")]
pub enum AllocationCommand {
    List(List),
    Show(Show),
    Set(Set),
    Delete(Delete),
}

/// Lists the allocations of the project.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle allocation list
  fettle allocation list --json")]
pub struct List {
    #[command(flatten)]
    plane: PlaneArguments,
}

/// Shows an allocation with its nodes.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle allocation show a-7")]
pub struct Show {
    /// Its name.
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    plane: PlaneArguments,
}

/// Makes an allocation, or replaces what it holds. Only administrators of the tenant may.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle allocation set a-7 gpu-17 gpu-18
  fettle operation submit model.artifact.stage@v1 --allocation a-7 --input name=llama")]
pub struct Set {
    /// Its name.
    #[arg(value_name = "NAME")]
    name: String,
    /// Names or ids of its nodes: all of them, not those to add.
    #[arg(value_name = "NODE", required = true)]
    nodes: Vec<String>,
    #[command(flatten)]
    plane: PlaneArguments,
}

/// Removes an allocation. Operations that were made of it stay.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle allocation delete a-7")]
pub struct Delete {
    /// Its name.
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    plane: PlaneArguments,
}

/// Which sets these commands are about.
const KIND: NodeSetKind = NodeSetKind::Allocation;

impl AllocationCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// When the plane refuses or does not answer.
    pub async fn run(&self, session: &Session) -> Result<(), CommandError> {
        match self {
            Self::List(List { plane }) => node_set::list(session, plane, KIND).await,
            Self::Show(Show { name, plane }) => node_set::show(session, plane, KIND, name).await,
            Self::Set(Set { name, nodes, plane }) => node_set::set(session, plane, KIND, name, nodes).await,
            Self::Delete(Delete { name, plane }) => node_set::delete(session, plane, KIND, name).await,
        }
    }
}
