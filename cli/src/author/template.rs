//! The files of a new step: `cli/templates/step`, filled in.

use fettle_model::{descriptor::Effect, grant::Capability, name::StepKind};
use minijinja::{Environment, Value, syntax::SyntaxConfig, value::Serde};
use serde::Serialize;
use serde_json::json;

use super::{
    answers::{self, Looked},
    crate_name::CrateName,
};

/// The files, by their path in the crate.
const FILES: [(&str, &str); 8] = [
    ("Cargo.toml", include_str!("../../templates/step/Cargo.toml.tmpl")),
    ("rust-toolchain.toml", include_str!("../../templates/step/rust-toolchain.toml.tmpl")),
    (".gitignore", include_str!("../../templates/step/.gitignore.tmpl")),
    ("README.md", include_str!("../../templates/step/README.md.tmpl")),
    ("cases.yaml", include_str!("../../templates/step/cases.yaml.tmpl")),
    ("src/lib.rs", include_str!("../../templates/step/src/lib.rs.tmpl")),
    ("src/tests.rs", include_str!("../../templates/step/src/tests.rs.tmpl")),
    (".github/workflows/step.yml", include_str!("../../templates/step/.github/workflows/step.yml.tmpl")),
];

/// The order in which `look` of `src/lib.rs` asks.
const ORDER: [Capability; 8] = [
    Capability::Exec,
    Capability::Facts,
    Capability::Files,
    Capability::Gpu,
    Capability::Http,
    Capability::Transfer,
    Capability::Credentials,
    Capability::Policy,
];

/// The toolchain of a new crate: that of the SDK. A test compares it.
pub const TOOLCHAIN: &str = "1.95.0";

/// What a new step is.
#[derive(Clone, Debug)]
pub struct NewStep {
    /// The crate.
    pub name: CrateName,
    /// The kind.
    pub kind: StepKind,
    /// What running it does to the node.
    pub effect: Effect,
    /// What it asks for, in the order of [`Capability::ALL`].
    pub capabilities: Vec<Capability>,
    /// The SDK as a dependency: `path = "..."`, or `git = "..."`.
    pub sdk: String,
}

/// A line of the step's requests, and of the grant that it needs.
#[derive(Serialize)]
struct Request {
    name: &'static str,
    why: &'static str,
    grant: String,
}

impl NewStep {
    /// The files of the crate: path and content.
    ///
    /// # Errors
    /// When a template is broken, which tests rule out.
    pub fn files(&self) -> Result<Vec<(&'static str, String)>, minijinja::Error> {
        let mut environment = Environment::new();
        let mut syntax = SyntaxConfig::builder();
        // Delimiters that neither Rust nor workflows use.
        syntax.block_delimiters("<%", "%>").variable_delimiters("<<", ">>").comment_delimiters("<#", "#>");
        syntax.trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true);
        environment.set_syntax(syntax.build()?);
        environment.set_undefined_behavior(minijinja::UndefinedBehavior::Strict);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        let has = |capability| self.capabilities.contains(&capability);
        let looked =
            Looked::all(ORDER.into_iter().filter(|capability| has(*capability) && self.is_looked_at(*capability)));
        let found: Vec<&str> =
            std::iter::once("looked for one").chain(looked.iter().map(|answer| answer.found)).collect();
        let content: String = found.iter().map(|line| format!("{line}\n")).collect();
        let label = self.kind.name().replace(['.', '_'], "-");
        let summary = format!("{} {}.", self.verb(), self.kind.name().replace(['.', '_'], " "));
        let requests: Vec<Request> =
            self.capabilities.iter().map(|capability| self.request(*capability, &label)).collect();
        let values = Value::from(Serde(json!({
            "name": self.name.as_str(), "library": self.name.library(), "kind": self.kind, "label": label,
            "code": self.kind.name(), "id": self.kind.name().rsplit('.').next(), "sdk": self.sdk,
            "toolchain": TOOLCHAIN, "summary": summary, "effect": effect(self.effect).to_lowercase(),
            "effect_name": effect(self.effect), "converges": self.effect == Effect::Converge,
            "exec": has(Capability::Exec), "files": has(Capability::Files), "transfer": has(Capability::Transfer),
            "facts": has(Capability::Facts), "gpu": has(Capability::Gpu), "http": has(Capability::Http),
            "credentials": has(Capability::Credentials), "policy": has(Capability::Policy),
            "looks": !looked.is_empty(), "looked": looked, "ready": answers::again(&looked),
            "lines": found.len(), "found": found,
            // A string of JSON is one of YAML.
            "content": json!(content).to_string(),
            "writes": has(Capability::Files) && self.effect != Effect::Observe, "requests": requests,
        })));
        FILES.iter().map(|(path, template)| Ok((*path, environment.render_str(template, values.clone())?))).collect()
    }

    /// Whether `look` uses it. A file that is written is not looked at there.
    fn is_looked_at(&self, capability: Capability) -> bool {
        capability != Capability::Files || self.effect == Effect::Observe
    }

    const fn verb(&self) -> &'static str {
        match self.effect {
            Effect::Observe => "Looks at",
            Effect::Converge => "Keeps",
            Effect::Consume => "Does",
        }
    }

    fn request(&self, capability: Capability, label: &str) -> Request {
        let reads_only = self.effect == Effect::Observe;
        let (why, grant) = match capability {
            Capability::Exec => ("runs the command that does it", format!("exec: {{ profiles: [{label}] }}")),
            Capability::Files if reads_only => ("reads the file", "files: { read: [data] }".to_owned()),
            Capability::Files => {
                ("compares the file with what it should be, and writes it", "files: { write: [data] }".to_owned())
            }
            Capability::Transfer => {
                ("fetches the artifact's manifest", "transfer: { hosts: [\"registry.internal:5000\"] }".to_owned())
            }
            Capability::Facts => ("reads how much memory there is", "facts: { read: [memory] }".to_owned()),
            Capability::Http => (
                "asks the service whether it is ready",
                "http: { requests: [{ url: \"https://status.example.com/\", methods: [GET] }] }".to_owned(),
            ),
            Capability::Gpu => ("counts the GPUs", "gpu: { read: true }".to_owned()),
            Capability::Credentials => (
                "has a credential minted",
                "credentials: { mint: [{ type: hf_token, scope: \"meta/llama\" }] }".to_owned(),
            ),
            Capability::Policy => ("asks which policy bundles count", "policy: { activate: true }".to_owned()),
        };
        Request { name: capability.name(), why, grant }
    }
}

const fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::Observe => "Observe",
        Effect::Converge => "Converge",
        Effect::Consume => "Consume",
    }
}
