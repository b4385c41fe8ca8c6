//! `fettle definition show`

use std::fmt::Write as _;

use clap::Args;

use super::Session;
use crate::{command::target::PlaneArguments, error::CommandError, output, plane::Definition};

/// Shows one registered definition: its documents, steps and inputs.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle definition show model.artifact.stage@v1
  fettle definition show model.artifact.stage@v1 --json    # with the whole document")]
pub struct Show {
    /// `operation_type@version`, or an id.
    #[arg(value_name = "TYPE@VERSION")]
    name: String,
    #[command(flatten)]
    plane: PlaneArguments,
}

impl Show {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let definition = self.plane.client(session).await?.definition(&self.name).await?;
        session.show(&definition, text)
    }
}

fn text(definition: &Definition) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<11} {value}");
    };
    line("operation", &format!("{}@{}", definition.operation_type, definition.version));
    if !definition.summary.is_empty() {
        line("summary", &definition.summary);
    }
    line("status", &definition.status);
    line("registered", &definition.created_at);
    line("definition", &definition.sources.definition);
    line("catalog", &definition.sources.catalog);
    line("policy", &definition.sources.policy);
    text.push('\n');
    let rows = definition.steps.iter().map(|step| vec![step.id.clone(), step.uses.clone(), step.needs.join(", ")]);
    text.push_str(&output::table(&["STEP", "USES", "NEEDS"], &rows.collect::<Vec<_>>()));
    if let Some(document) = &definition.definition {
        let schema = serde_norway::to_string(&document.input_schema).unwrap_or_default();
        let _ = write!(text, "\ninputs\n{}", schema.lines().fold(String::new(), |all, line| all + "  " + line + "\n"));
    }
    text
}
