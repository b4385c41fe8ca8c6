//! `fettle operation plan`

use std::fmt::Write as _;

use clap::Args;
use fettle_model::{plan::PlannedStep, reference::Reference};

use super::{Session, request::Request};
use crate::{
    command::{access, target::PlaneArguments},
    error::CommandError,
    output,
    plane::{PlannedAccess, PlannedOperation, TargetSelector},
    watch::clean,
};

/// Shows what an operation would be: its steps in order, each with its component by digest, what it
/// needs, and for each capability who asked and why, what the definition grants, what the node allows, and
/// the line that would allow what is denied. Nothing is stored, nothing runs.
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
        let planned = self.plane.client(session).await?.plan(&request).await?;
        session.warn(&planned.warnings);
        session.show(&planned, |planned| text(planned, &place(planned, &request.target_selector)))
    }
}

/// What was asked for, with the nodes it stands for.
fn place(planned: &PlannedOperation, target: &TargetSelector) -> String {
    let words = clean(&target.words());
    if matches!(target, TargetSelector::Node(_)) {
        return words;
    }
    let names = planned.nodes.iter().map(|node| clean(&node.name)).collect::<Vec<_>>().join(", ");
    output::wrap("", &format!("{words}: {names}")).trim_end().to_owned()
}

fn text(planned: &PlannedOperation, node: &str) -> String {
    let plan = &planned.plan;
    let access = planned.access.as_ref();
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<11} {value}");
    };
    line("operation", &format!("{}@{}", plan.graph.operation_type, plan.graph.version));
    line("node", node);
    let mut document = |name: &str, reference: &Reference, signed_by: Option<&str>| {
        let _ = writeln!(text, "{name:<11} {}\n  {}", reference.repository, reference.digest);
        if let Some(signer) = signed_by {
            text.push_str(&output::wrap("  signed by ", &short(signer)));
        }
    };
    document("definition", &plan.graph.sources.definition, access.map(|all| all.definition_signed_by.as_str()));
    document("catalog", &plan.graph.sources.catalog, None);
    document("policy", &plan.graph.sources.policy, access.map(|all| all.policy_signed_by.as_str()));
    if let Some(access) = access {
        let _ = writeln!(text, "  revision {}", access.policy_revision);
    }
    let _ = writeln!(text, "plan\n  {}", planned.plan_digest);
    for (index, step) in plan.graph.steps.iter().enumerate() {
        let access = access.and_then(|all| all.steps.iter().find(|one| one.step_id == step.id.as_str()));
        let _ = write!(text, "\n{}. {}", index + 1, step_text(step, access));
    }
    if let Some(problem) = &planned.access_problem {
        let _ = write!(text, "\n{}", output::wrap("not explained: ", &clean(problem)));
    }
    text
}

/// Keys by the start of their digest, all of which is in `--json`; other signers as they are.
fn short(signers: &str) -> String {
    let one = |signer: &str| match signer.split_once("sha256:") {
        Some((before, hex)) => format!("{before}{}", hex.chars().take(12).collect::<String>()),
        None => signer.to_owned(),
    };
    clean(&signers.split(", ").map(one).collect::<Vec<_>>().join(", "))
}

fn step_text(step: &PlannedStep, access: Option<&PlannedAccess>) -> String {
    let mut text = format!("{}  {}\n", step.id, step.kind);
    let _ = writeln!(text, "   component  {}\n     {}", step.component.repository, step.component.digest);
    if let Some(one) = access {
        text.push_str(&output::wrap("     signed by ", &short(&one.signed_by)));
    }
    if !step.needs.is_empty() {
        let needs = step.needs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        text.push_str(&output::wrap("   after      ", &needs));
    }
    match access {
        Some(one) => text.push_str(&access::text(&one.access, 3)),
        None => text.push_str(&output::wrap("   granted    ", &granted(step))),
    }
    let retry =
        if step.retry.attempts > 1 { format!(", at most {} attempts", step.retry.attempts) } else { String::new() };
    let own = own_limits(step);
    text.push_str(&output::wrap("   limits     ", &format!("{} an attempt{retry}{own}", limit(step.timeout))));
    text
}

/// What the definition lowers of what the node allows.
fn own_limits(step: &PlannedStep) -> String {
    let said = step.limits.entries().into_iter().filter_map(|(name, value, ..)| Some(format!(", {name} {}", value?)));
    said.collect()
}

/// What the definition grants, when nobody can say what the component asks for.
fn granted(step: &PlannedStep) -> String {
    let entries: Vec<String> = step.grants.entries().iter().map(ToString::to_string).collect();
    if entries.is_empty() { "nothing".to_owned() } else { entries.join(", ") }
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

#[cfg(test)]
mod tests {
    use fettle_model::{
        access::{Question, of_step},
        descriptor::Descriptor,
        document,
        policy::PolicyBundle,
    };
    use serde_json::json;

    use super::*;

    fn step() -> PlannedStep {
        serde_json::from_value(json!({
            "id": "pull", "kind": "artifact.pull_oci@v1",
            "component": format!("localhost:1/a@sha256:{}", "0".repeat(64)),
            "needs": ["token"], "with": {},
            "grants": {"files": {"read": [], "write": ["data", "models"]}, "transfer": {"hosts": ["localhost:1"]}},
            "retry": {"attempts": 5, "backoff": {}}, "timeout": "2h",
        }))
        .unwrap()
    }

    #[test]
    fn a_step_is_told_with_who_asked_who_granted_and_what_the_node_allows() {
        let descriptor: Descriptor = serde_json::from_value(json!({
            "kind": "artifact.pull_oci@v1", "summary": "", "effect": "converge", "input_schema": {},
            "output_schema": {}, "requests": {"files": "writes the layers", "transfer": "fetches them"}, "probes": true,
        }))
        .unwrap();
        let policy: PolicyBundle =
            document::read("{revision: 1, roots: {models: m, data: d}, ceiling: {files: {write: ['*']}}}").unwrap();
        let step = step();
        let question = Question {
            step: Some(&step.id),
            descriptor: &descriptor,
            imports: None,
            grants: Some(&step.grants),
            policy: Some(&policy),
        };
        let access =
            PlannedAccess { step_id: "pull".to_owned(), signed_by: "0123".to_owned(), access: of_step(&question) };
        assert_eq!(
            step_text(&step, Some(&access)),
            format!(
                "pull  artifact.pull_oci@v1
   component  localhost:1/a
     sha256:{}
     signed by 0123
   after      token
   files      allowed
     asked    writes the layers
     granted  write data, models
     node     write any
   transfer   DENIED
     asked    fetches them
     granted  hosts localhost:1
     node     nothing
     problem  the policy bundle does not allow `transfer.hosts: localhost:1`
     to allow transfer: {{ hosts: ['localhost:1'] }}
              under ceiling of the policy bundle
   limits     2h an attempt, at most 5 attempts
",
                "0".repeat(64)
            )
        );
    }

    #[test]
    fn without_an_explanation_the_grants_are_told() {
        let text = step_text(&step(), None);
        assert!(text.contains("   granted    files.write: data, files.write: models, transfer.hosts:\n"), "{text}");
    }
}
