//! `fettle operation plan`

use std::fmt::Write as _;

use clap::Args;
use fettle_model::plan::PlannedStep;

use super::{Session, request::Request};
use crate::{command::target::PlaneArguments, error::CommandError, plane::PlannedOperation};

/// Shows what an operation would be: its steps in order, each with its component by digest, what it
/// needs and what it is granted. Nothing is stored, nothing runs.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle operation plan model.artifact.stage@v1 --node gpu-17 --input name=llama
  fettle operation plan model.artifact.stage@v1 --inputs inputs.yaml --json")]
pub struct Plan {
    #[command(flatten)]
    request: Request,
    #[command(flatten)]
    plane: PlaneArguments,
}

impl Plan {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let request = self.request.read(session, None)?;
        let planned = self.plane.client(session)?.plan(&request).await?;
        session.show(&planned, |planned| text(planned, &request.target_selector.node))
    }
}

fn text(planned: &PlannedOperation, node: &str) -> String {
    let plan = &planned.plan;
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<11} {value}");
    };
    line("operation", &format!("{}@{}", plan.operation_type, plan.version));
    line("node", node);
    line("plan", &planned.plan_digest);
    line("definition", &plan.sources.definition.to_string());
    line("catalog", &plan.sources.catalog.to_string());
    line("policy", &plan.sources.policy.to_string());
    for (index, step) in plan.steps.iter().enumerate() {
        let _ = write!(text, "\n{}. {}", index + 1, step_text(step));
    }
    text
}

fn step_text(step: &PlannedStep) -> String {
    let mut text = format!("{}  {}\n", step.id, step.kind);
    let _ = writeln!(text, "   component  {}", step.component.digest);
    if !step.needs.is_empty() {
        let needs = step.needs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let _ = writeln!(text, "   after      {needs}");
    }
    let grants = grants(step);
    for (index, grant) in grants.iter().enumerate() {
        let _ = writeln!(text, "   {:<10} {grant}", if index == 0 { "granted" } else { "" });
    }
    if grants.is_empty() {
        text.push_str("   granted    nothing\n");
    }
    let retry =
        if step.retry.attempts > 1 { format!(", at most {} attempts", step.retry.attempts) } else { String::new() };
    let _ = writeln!(text, "   limits     {} an attempt{retry}", limit(step.timeout));
    text
}

fn limit(timeout: std::time::Duration) -> String {
    let seconds = timeout.as_secs();
    if seconds >= 3600 && seconds.is_multiple_of(3600) {
        format!("{}h", seconds / 3600)
    } else if seconds >= 60 && seconds.is_multiple_of(60) {
        format!("{}m", seconds / 60)
    } else {
        format!("{}s", timeout.as_secs_f64())
    }
}

/// One line per capability: `files: write data, models`.
fn grants(step: &PlannedStep) -> Vec<String> {
    let Ok(serde_json::Value::Object(capabilities)) = serde_json::to_value(&step.grants) else { return Vec::new() };
    let list = |value: &serde_json::Value| match value.as_array() {
        Some(items) => items.iter().filter_map(serde_json::Value::as_str).collect::<Vec<_>>().join(", "),
        None => value.to_string(),
    };
    let is_empty = |value: &serde_json::Value| value.as_array().is_some_and(Vec::is_empty) || *value == false;
    let capability = |(name, grant): (&String, &serde_json::Value)| {
        let fields = grant.as_object().into_iter().flatten().filter(|(_, value)| !is_empty(value));
        let fields = fields.map(|(field, value)| format!("{field} {}", list(value))).collect::<Vec<_>>();
        format!("{name}: {}", fields.join("; "))
    };
    capabilities.iter().map(capability).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_step_is_told_with_all_that_it_may_reach() {
        let step: PlannedStep = serde_json::from_value(json!({
            "id": "pull", "kind": "artifact.pull_oci@v1",
            "component": format!("localhost:1/a@sha256:{}", "0".repeat(64)),
            "needs": ["token"], "with": {},
            "grants": {"files": {"read": [], "write": ["data", "models"]}, "transfer": {"hosts": ["localhost:1"]}},
            "retry": {"attempts": 5, "backoff": {}}, "timeout": "2h",
        }))
        .unwrap();
        assert_eq!(
            step_text(&step),
            format!(
                "pull  artifact.pull_oci@v1\n   component  sha256:{}\n   after      token\n   granted    files: write \
                 data, models\n              transfer: hosts localhost:1\n   limits     2h an attempt, at most 5 \
                 attempts\n",
                "0".repeat(64)
            )
        );
    }
}
