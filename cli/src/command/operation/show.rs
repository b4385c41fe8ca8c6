//! `fettle operation show`

use std::fmt::Write as _;

use clap::Args;
use fettle_model::operation::StepStatus;

use super::Session;
use crate::{
    command::target::PlaneArguments,
    error::CommandError,
    output,
    plane::{DeniedCall, Operation, Step},
    watch::clean,
};

/// Shows an operation: where it is, its steps, what they put out, and why it failed.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle operation show 01J0000000000000000000000A
  fettle operation show 01J0000000000000000000000A --json | jq '.steps[].output'")]
pub struct Show {
    /// The operation.
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    plane: PlaneArguments,
}

impl Show {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let operation = self.plane.client(session).await?.operation(&self.id).await?;
        session.show(&operation, text)
    }
}

fn text(operation: &Operation) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(text, "{name:<11} {value}");
        }
    };
    let rest = |name: &str| operation.rest.get(name).and_then(|value| value.as_str()).unwrap_or_default().to_owned();
    line("operation", &operation.operation_id);
    line("type", &format!("{}@{}", operation.operation_type, operation.version));
    line("status", operation.status.name());
    if let Some(failure) = &operation.failure {
        line("failure", &clean(&failure.to_string()));
    }
    line("project", &rest("project_id"));
    line("node", &clean(&operation.place()));
    line("requested", &rest("requested_by_user_id"));
    line("correlation", &rest("correlation_id"));
    line("plan", &rest("plan_digest"));
    line("created", &operation.created_at);
    line("started", operation.started_at.as_deref().unwrap_or_default());
    line("finished", operation.finished_at.as_deref().unwrap_or_default());
    if let Some(inputs) = operation.rest.get("inputs") {
        line("inputs", &output::json_text(&inputs.to_string()));
    }
    text.push_str(&nodes(operation));
    let steps = operation.steps.as_deref().unwrap_or_default();
    if !steps.is_empty() {
        text.push('\n');
        let rows = steps.iter().map(|step| row(operation, step)).collect::<Vec<_>>();
        text.push_str(&output::table(&["STEP", "KIND", "STATUS", "ATTEMPTS", "TIME"], &rows));
    }
    text.push_str(&denials(operation.denials.as_deref().unwrap_or_default()));
    for step in steps {
        // A failure that says the same is shown below.
        let told = |message: &str| step.failure.as_ref().is_some_and(|failure| failure.message == message);
        if let Some(settlement) = step.settlement.as_ref().filter(|settlement| !told(&settlement.message)) {
            let head = format!("{}: {}", operation.step_name(step), settlement.finding.words());
            let _ = write!(text, "\n{}\n{}", clean(&head), output::wrap("  ", &clean(&settlement.message)));
        }
        if let Some(failure) = &step.failure {
            let _ = write!(text, "\n{} failed: {}\n", clean(&operation.step_name(step)), clean(&failure.to_string()));
        }
        if let Some(output) = &step.output {
            let output = output::json_text(&serde_json::to_string_pretty(output).unwrap_or_default());
            let _ = write!(text, "\n{} put out {output}\n", clean(&operation.step_name(step)));
        }
    }
    text
}

/// What steps were denied, by which rule, and the lines that would allow it.
fn denials(denials: &[DeniedCall]) -> String {
    let mut text = String::new();
    for denied in denials {
        let DeniedCall { step_id, attempt, capability, function, rule, dropped, .. } = denied;
        let on = if denied.subject.is_empty() { String::new() } else { format!(" on {}", denied.subject) };
        let head = format!("{step_id} was denied {capability}.{function}{on} (attempt {attempt})");
        let _ = write!(text, "\n{}\n", clean(&head));
        let allows = if denied.allows.is_empty() { "nothing".to_owned() } else { denied.allows.join(", ") };
        let _ = writeln!(text, "  rule      {}", clean(&format!("{rule} allows {allows}")));
        if let Some(fix) = &denied.fix {
            let _ = writeln!(text, "  to allow  {}", clean(&fix.line));
            let place = if fix.at.is_empty() { "at the top of" } else { fix.at.as_str() };
            let _ = writeln!(text, "  under     {} ({})", clean(place), fix.document);
        }
        if *dropped > 0 {
            let _ = writeln!(text, "  {dropped} more denied calls before it were not recorded");
        }
    }
    text
}

/// The nodes where there are several, and what is waited for.
fn nodes(operation: &Operation) -> String {
    let nodes = operation.nodes.as_deref().unwrap_or_default();
    let mut text = String::new();
    if operation.total_nodes > 1 {
        let rows = nodes.iter().map(|node| vec![clean(&node.name), clean(&node.status)]).collect::<Vec<_>>();
        text.push('\n');
        text.push_str(&output::table(&["NODE", "STATUS"], &rows));
    }
    let waits: Vec<&str> = nodes.iter().flat_map(|node| &node.waits_for).map(|wait| wait.message.as_str()).collect();
    if !waits.is_empty() {
        text.push('\n');
    }
    for wait in waits {
        text.push_str(&output::wrap("waits: ", &clean(wait)));
    }
    text
}

fn row(operation: &Operation, step: &Step) -> Vec<String> {
    let status = match step.changed {
        Some(false) => format!("{}, unchanged", step.status),
        Some(true) | None if step.status == StepStatus::Canceled && step.attempt_number == 0 => {
            format!("{}, not started", step.status)
        }
        Some(true) | None => step.status.to_string(),
    };
    let attempts = if step.attempt_number == 0 { String::new() } else { step.attempt_number.to_string() };
    let time = step.duration_ms.filter(|_| step.attempt_number > 0).map(|took| format!("{took} ms"));
    vec![clean(&operation.step_name(step)), step.kind.clone(), status, attempts, time.unwrap_or_default()]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_step_put_out_cannot_steer_the_terminal() {
        let hostile = "\u{9b}2J\u{1b}]0;title\u{7}\u{202e}gpj.exe\u{2069}";
        let operation = json!({
            "operation_id": "01J", "operation_type": "a.b", "version": "v1", "status": "failed",
            "created_at": "2026-11-20T10:00:00Z", "target_selector": {"node": hostile}, "inputs": {"name": hostile},
            "failure": {"class": "permanent", "code": "a.b", "message": hostile},
            "steps": [{"step_id": "one", "kind": "k@v1", "component": "c", "status": "failed",
                       "output": {"name": hostile, "list": [hostile]},
                       "failure": {"class": "permanent", "code": "a.b", "message": hostile}}],
        });
        let shown = text(&serde_json::from_value(operation).unwrap());
        assert!(!shown.chars().any(|character| character != '\n' && output::steers(character)), "{shown:?}");
        // What it is can still be told, and copied.
        assert!(shown.contains(r#""name": "\u009b2J\u001b]0;title\u0007\u202egpj.exe\u2069""#), "{shown}");
    }
}
