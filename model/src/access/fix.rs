//! The line that would allow what was denied, and the document it belongs into.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::entry::Entry;
use crate::{
    grant::{Capability, Grants},
    name::StepId,
    policy::PolicyBundle,
};

/// Which document a line belongs into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Document {
    /// The operation definition.
    Definition,
    /// The policy bundle of the node.
    PolicyBundle,
    /// What the component says of itself.
    Component,
}

/// One line of YAML that would allow something. To write it is a decision: it widens what a step may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fix {
    /// The document.
    pub document: Document,
    /// Below what: `steps[pull].grants.files`, `ceiling`; empty for the top of the document.
    pub at: String,
    /// The line. It replaces one of the same name that is there.
    pub line: String,
}

impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Definition => "definition",
            Self::PolicyBundle => "policy bundle",
            Self::Component => "component's own description",
        })
    }
}

impl fmt::Display for Fix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { document, at, line } = self;
        if at.is_empty() {
            write!(f, "write `{line}` at the top of the {document}")
        } else {
            write!(f, "write `{line}` under `{at}` of the {document}")
        }
    }
}

impl Fix {
    /// A line that lists these values.
    pub(crate) fn list<'a>(document: Document, at: String, field: &str, values: impl Iterator<Item = &'a str>) -> Self {
        let values: Vec<String> = values.map(|value| element(field, value)).collect();
        Self { document, at, line: format!("{field}: [{}]", values.join(", ")) }
    }
}

/// Where the grants of a step stand: in its definition, or in a file of their own.
pub(super) fn grants_of(step: Option<&StepId>) -> Vec<String> {
    step.map_or_else(Vec::new, |step| vec![format!("steps[{step}]"), "grants".to_owned()])
}

/// The line that adds an entry to `grants`, which stand at `path` of the document.
pub(super) fn adding(document: Document, path: &[String], grants: &Grants, entry: &Entry) -> Fix {
    let field = if entry.is_switch() {
        format!("{}: {}", entry.field, entry.value)
    } else {
        let same = |known: &Entry| known.capability == entry.capability && known.field == entry.field;
        let known = grants.entries().into_iter().filter(same).map(|known| element(&known.field, &known.value));
        let known: Vec<String> = known.chain([element(&entry.field, &entry.value)]).collect();
        format!("{}: [{}]", entry.field, known.join(", "))
    };
    nested(document, path, grants, entry.capability, &field)
}

/// The line that grants a capability which is not granted at all; what exactly, the author must say.
pub(super) fn granting(path: &[String], grants: &Grants, capability: Capability) -> Fix {
    let example = capability.example();
    let inner = example.strip_prefix("grants: { ").and_then(|rest| rest.strip_suffix(" }")).unwrap_or(example);
    let field = inner.split_once(": { ").and_then(|(_, rest)| rest.strip_suffix(" }")).unwrap_or(inner);
    nested(Document::Definition, path, grants, capability, field)
}

/// Puts a field where the document ends: below the capability, below the grants, or with both.
fn nested(document: Document, path: &[String], grants: &Grants, capability: Capability, field: &str) -> Fix {
    let join = |names: &[String]| names.join(".");
    if grants.has(capability) {
        let at: Vec<String> = path.iter().cloned().chain([capability.to_string()]).collect();
        return Fix { document, at: join(&at), line: field.to_owned() };
    }
    let line = format!("{capability}: {{ {field} }}");
    match path.split_last() {
        Some((last, before)) if grants.capabilities().is_empty() => {
            Fix { document, at: join(before), line: format!("{last}: {{ {line} }}") }
        }
        _ => Fix { document, at: join(path), line },
    }
}

/// The line that gives a node a root of this name.
pub(super) fn root(policy: &PolicyBundle, name: &str) -> Fix {
    let line = format!("{}: {}", scalar(name), scalar(name));
    let document = Document::PolicyBundle;
    if policy.roots.is_empty() {
        Fix { document, at: String::new(), line: format!("roots: {{ {line} }}") }
    } else {
        Fix { document, at: "roots".to_owned(), line }
    }
}

/// The line that gives a node a command profile of this name.
pub(super) fn profile(policy: &PolicyBundle, id: &str) -> Fix {
    let profile = format!("{{ id: {}, command: /usr/bin/<program> }}", scalar(id));
    let document = Document::PolicyBundle;
    if policy.profiles.is_empty() {
        Fix { document, at: String::new(), line: format!("profiles: [{profile}]") }
    } else {
        Fix { document, at: "profiles".to_owned(), line: format!("- {profile}") }
    }
}

/// A value of a list as a document writes it: `GET https://host/path/` is an element of its own form.
fn element(field: &str, value: &str) -> String {
    match value.split_once(' ') {
        Some((method, url)) if field == "requests" => format!("{{ url: {}, methods: [{method}] }}", scalar(url)),
        Some((credential_type, scope)) if field == "mint" => {
            format!("{{ type: {credential_type}, scope: {} }}", scalar(scope))
        }
        _ => scalar(value),
    }
}

/// A text as YAML writes it inside brackets.
fn scalar(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic());
    let word = ["true", "false", "null", "yes", "no", "on", "off"].contains(&text.to_ascii_lowercase().as_str());
    if starts && !word && text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "''")) }
}
