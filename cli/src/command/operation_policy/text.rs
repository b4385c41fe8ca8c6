//! Overlays as people read them.

use std::fmt::Write as _;

use fettle_model::overlay::{Overlay, chain::Explained};
use serde_json::Value;

use crate::{output, plane::OperationPolicy};

/// Columns of the names of keys.
const NAMES: usize = 32;

/// One entry for each key: its value, who decided it, what lost and why.
pub(crate) fn keys(keys: &[Explained]) -> String {
    let mut text = String::new();
    for explained in keys {
        let by = explained.decided_by.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
        let by = if by.is_empty() { "nobody said anything".to_owned() } else { format!("by {by}") };
        let first = format!("{:<NAMES$}", explained.key.name());
        // Places are long: each has a line of its own.
        let places = explained.value.as_array().filter(|items| !items.is_empty());
        let told = if places.is_some() { format!("({by})") } else { format!("{} ({by})", value(&explained.value)) };
        text.push_str(&output::wrap(&first, &told));
        for place in places.into_iter().flatten().filter_map(Value::as_str) {
            text.push_str(&output::wrap("    ", place));
        }
        for lost in &explained.lost {
            let told = format!("{} said {}: {}", lost.level, value(&lost.value), lost.why.sentence());
            text.push_str(&output::wrap("    ", &told));
        }
    }
    text
}

/// A value in one line.
fn value(value: &Value) -> String {
    match value {
        Value::Null => "any".to_owned(),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Array(items) => {
            items.iter().map(|item| item.as_str().unwrap_or_default()).collect::<Vec<_>>().join(", ")
        }
        Value::Object(scopes) if scopes.is_empty() => "any".to_owned(),
        Value::Object(scopes) => {
            scopes.iter().map(|(scope, number)| format!("{scope} {number}")).collect::<Vec<_>>().join(", ")
        }
        Value::Bool(true) => "true".to_owned(),
        other => other.to_string(),
    }
}

/// What an overlay says, key by key.
pub(super) fn overlay(overlay: &Overlay) -> String {
    let said = serde_json::to_value(overlay).unwrap_or_default();
    let Some(said) = said.as_object().filter(|said| !said.is_empty()) else {
        return "  nothing\n".to_owned();
    };
    let line = |(name, said): (&String, &Value)| output::wrap(&format!("  {name:<30}"), &value(said));
    said.iter().map(line).collect()
}

/// A whole policy.
pub(super) fn policy(policy: &OperationPolicy) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{} of {} ({})", policy.operation_type, policy.scope, policy.level);
    match (&policy.policy, policy.revision) {
        (Some(said), Some(revision)) => {
            let (by, at) = (policy.updated_by.as_deref(), policy.updated_at.as_deref());
            let told = format!("revision {revision} by {} at {}", by.unwrap_or_default(), at.unwrap_or_default());
            text.push_str(&output::wrap("  ", &told));
            text.push_str(&overlay(said));
        }
        _ => text.push_str("  says nothing\n"),
    }
    if let Some(resolved) = &policy.resolved {
        text.push_str("\nwhat holds\n");
        text.push_str(&keys(&resolved.keys));
    }
    text
}
