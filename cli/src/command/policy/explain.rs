//! `fettle policy explain`

use std::fmt::Write as _;

use clap::Args;
use serde_json::Value;

use crate::{
    command::{Session, operation::request::Request, operation_policy::text::keys, target::PlaneArguments},
    error::CommandError,
    output,
    plane::Decision,
};

/// Says whether an operation would be accepted, and every rule that takes part in that: what platform, tenant and
/// project say, who decided each value and what lost, and the Rego policies. Nothing is submitted.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle policy explain model.artifact.stage@v1 --node gpu-1 -i name=llama
  fettle policy explain gpu.host.bootstrap@v1 --node gpu-1 --json")]
pub struct Explain {
    #[command(flatten)]
    request: Request,
    #[command(flatten)]
    plane: PlaneArguments,
}

impl Explain {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let operation = self.request.read(session, None)?;
        let decision = self.plane.client(session).await?.explain(&operation).await?;
        session.show(&decision, text)
    }
}

fn text(decision: &Decision) -> String {
    let verdict = if decision.allowed { "would be accepted" } else { "would be denied" };
    let subject = format!("{}@{} in {}", decision.operation_type, decision.version, decision.project);
    let mut text = output::wrap("", &format!("{subject} {verdict}"));
    for broken in &decision.violations {
        let by = broken.decided_by.iter().map(String::as_str).collect::<Vec<_>>().join(" and ");
        let pointer = if broken.pointer.is_empty() { "/" } else { &broken.pointer };
        text.push('\n');
        let _ = writeln!(text, "  denied by {} of {by}", broken.rule);
        text.push_str(&output::wrap("    ", &format!("{pointer}: {}", broken.message)));
    }
    text.push('\n');
    text.push_str(&keys(&decision.keys));
    text.push_str("\nread\n");
    if decision.overlays.is_empty() && decision.rego.is_none() {
        text.push_str("  no policy says anything of this type\n");
    }
    for overlay in &decision.overlays {
        let by = format!("{} {} revision {} by {}", overlay.level, overlay.scope, overlay.revision, overlay.updated_by);
        text.push_str(&output::wrap("  ", &by));
    }
    if let Some(rego) = &decision.rego {
        text.push_str(&output::wrap("  ", &format!("rego {}", rego.query)));
        for file in &rego.files {
            let part = |name: &str| file.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            // A digest is longer than a line holds beside a name; its beginning tells files apart.
            let digest: String = part("digest").chars().take(19).collect();
            text.push_str(&output::wrap("    ", &format!("{} {digest}", part("name"))));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_decision_fits_a_terminal_and_says_what_lost_and_why() {
        let source = "registry.internal:5000/models-of-a-team-with-a-long-name/*";
        let decision: Decision = serde_json::from_value(json!({
            "allowed": false, "operation_type": "model.artifact.stage", "version": "v1", "project": "default/demo",
            "decided_at": "2026-11-20T20:00:00Z",
            "violations": [{ "rule": "enabled", "decided_by": ["global"], "pointer": "/operation_type",
                "message": "the platform has disabled the type; ask its administrator" }],
            "effective": { "enabled": false, "max_concurrency": { "tenant": 2 }, "require_signature_verification": false },
            "keys": [
                { "key": "enabled", "value": false, "decided_by": ["global"],
                  "lost": [{ "level": "project", "value": true, "why": "hard_denied" }] },
                { "key": "max_concurrency", "value": { "tenant": 2 }, "decided_by": ["tenant"], "lost": [] },
                { "key": "allowed_artifact_sources", "value": [source, source], "decided_by": ["global", "project"],
                  "lost": [] },
            ],
            "overlays": [{ "level": "global", "scope": "platform", "revision": 3, "etag": "\"3-a\"",
                "digest": "sha256:aa", "updated_by": "token:01ARZ3NDEKTSV4RRFFQ69G5FAV:administrator" }],
            "rego": { "query": "data.fettle.submit.deny", "digest": "sha256:bb",
                "files": [{ "name": "submit.rego", "digest": format!("sha256:{}", "c".repeat(64)) }] },
        }))
        .unwrap();
        let text = text(&decision);
        assert!(text.lines().all(|line| line.chars().count() <= output::WIDTH), "{text}");
        for part in [
            "would be denied",
            "denied by enabled of global",
            "project said true: the platform denies the type",
            "tenant 2 (by tenant)",
            "submit.rego sha256:cccccccccccc",
            source,
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
