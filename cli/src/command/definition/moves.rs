//! `fettle definition deprecate` and `fettle definition retire`

use clap::Args;

use super::Session;
use crate::{command::target::PlaneArguments, error::CommandError, plane::Definition};

/// Tells people to move on to another version. This one can still be used.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle definition deprecate model.artifact.stage@v1")]
pub struct Deprecate {
    /// `operation_type@version`, or an id.
    #[arg(value_name = "TYPE@VERSION")]
    name: String,
    #[command(flatten)]
    plane: PlaneArguments,
}

/// Ends the use of a version, also of a draft. Operations that were accepted before run to their end.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle definition retire model.artifact.stage@v1")]
pub struct Retire {
    /// `operation_type@version`, or an id.
    #[arg(value_name = "TYPE@VERSION")]
    name: String,
    #[command(flatten)]
    plane: PlaneArguments,
}

impl Deprecate {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let moved = self.plane.client(session).await?.move_definition(&self.name, "deprecate").await?;
        session.show(&moved, now)
    }
}

impl Retire {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let moved = self.plane.client(session).await?.move_definition(&self.name, "retire").await?;
        session.show(&moved, now)
    }
}

/// What a version is now.
pub(super) fn now(definition: &Definition) -> String {
    format!("{}@{} is {}\n", definition.operation_type, definition.version, definition.status)
}
