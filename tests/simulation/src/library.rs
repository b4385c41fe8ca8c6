//! The signed documents of the simulation, as a plane and as a host get them.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use fettle_host::simulation::{Library, Script};
use fettle_model::{descriptor::Descriptor, digest::Digest, reference::Reference};
use fettle_plane::artifact::{ArtifactError, ArtifactSource, Fetched};
use fettle_supply::ArtifactKind;
use serde_json::{Value, json};

/// All that there is.
pub(crate) struct Documents {
    documents: BTreeMap<Reference, Value>,
    components: BTreeMap<Reference, Descriptor>,
    /// The bodies that register the definitions.
    pub(crate) registrations: Vec<Value>,
}

fn reference(content: &Value) -> Reference {
    let text = format!("localhost:5000/simulated@{}", Digest::of(content.to_string().as_bytes()));
    text.parse().expect("it is a reference")
}

fn definition(name: &str, steps: Value) -> Value {
    json!({
        "operation_type": name, "version": "v1", "summary": "simulated", "backend_type": "node_agent",
        "input_schema": { "type": "object" }, "steps": steps,
    })
}

fn definitions() -> [Value; 2] {
    let retry = json!({ "attempts": 4 });
    let step = |kind: &str, needs: Value| {
        let mut step = json!({ "id": kind, "uses": format!("sim.{kind}@v1"), "needs": needs });
        if kind != "consume" {
            step["retry"] = retry.clone();
        }
        step
    };
    [
        definition("sim.short", json!([step("observe", json!([]))])),
        definition(
            "sim.long",
            json!([
                step("observe", json!([])),
                step("converge", json!(["observe"])),
                step("consume", json!(["converge"])),
                step("repair", json!(["observe"])),
                step("after", json!(["consume", "repair"])),
            ]),
        ),
    ]
}

/// The kinds of steps, each named like the only step of it, with their effects.
const KINDS: [(&str, &str); 5] = [
    ("observe", "observe"),
    ("converge", "converge"),
    ("consume", "consume"),
    ("repair", "converge"),
    ("after", "observe"),
];

impl Documents {
    /// Writes them.
    ///
    /// # Panics
    /// When one is not what it should be.
    #[must_use]
    pub(crate) fn write() -> Self {
        let mut written = Self { documents: BTreeMap::new(), components: BTreeMap::new(), registrations: Vec::new() };
        let mut steps = serde_json::Map::new();
        for (kind, effect) in KINDS {
            let descriptor = json!({
                "kind": format!("sim.{kind}@v1"), "summary": "simulated", "effect": effect,
                "input_schema": { "type": "object" }, "output_schema": { "type": "object" },
                "probes": effect == "converge",
            });
            let component = reference(&descriptor);
            steps.insert(format!("sim.{kind}@v1"), json!(component.to_string()));
            written.components.insert(component, serde_json::from_value(descriptor).expect("it is a descriptor"));
        }
        let catalog = written.document(json!({ "steps": steps }));
        let policy = written.document(json!({ "revision": 1 }));
        for definition in definitions() {
            let definition = written.document(definition);
            let body = json!({ "definition": definition, "catalog": catalog, "policy": policy });
            written.registrations.push(body);
        }
        written
    }

    fn document(&mut self, content: Value) -> String {
        let reference = reference(&content);
        let text = reference.to_string();
        self.documents.insert(reference, content);
        text
    }

    /// As a host gets them.
    #[must_use]
    pub(crate) fn library(&self, script: Arc<dyn Script>) -> Library {
        Library { documents: self.documents.clone(), components: self.components.clone(), script }
    }
}

#[async_trait]
impl ArtifactSource for Documents {
    async fn fetch(&self, _kind: ArtifactKind, reference: &Reference) -> Result<Fetched, ArtifactError> {
        let descriptor = self.components.get(reference).and_then(|known| serde_json::to_value(known).ok());
        let content = self.documents.get(reference).cloned().or_else(|| descriptor.clone());
        let content = content.ok_or_else(|| ArtifactError {
            code: "artifact.unsigned",
            message: format!("there is no {reference}"),
            transient: false,
        })?;
        let content = content.to_string().into_bytes().into();
        Ok(Fetched { content, descriptor, signed_by: "simulation".to_owned() })
    }
}
