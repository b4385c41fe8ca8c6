//! Artifacts in memory, as if fetched and verified.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use async_trait::async_trait;
use fettle_model::{digest::Digest, reference::Reference};
use fettle_plane::artifact::{ArtifactError, ArtifactSource, Fetched};
use fettle_supply::ArtifactKind;
use serde_json::{Value, json};

/// What there is.
#[derive(Default)]
pub(crate) struct Shelf(Mutex<HashMap<(ArtifactKind, Reference), Fetched>>);

impl Shelf {
    /// Puts an artifact there, and answers its reference.
    pub(crate) fn publish(&self, kind: ArtifactKind, content: &Value, descriptor: Option<Value>) -> String {
        let content = serde_json::to_vec(content).unwrap();
        let reference = format!("localhost:5000/{}@{}", kind.name().replace('_', "-"), Digest::of(&content));
        let fetched = Fetched { content: content.into(), descriptor, signed_by: "tester".to_owned() };
        let key = (kind, reference.parse().unwrap());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, fetched);
        reference
    }

    /// Publishes a step that takes and answers any object.
    pub(crate) fn publish_step(&self, kind: &str) -> String {
        let descriptor = json!({
            "kind": kind,
            "summary": "does nothing",
            "effect": "observe",
            "input_schema": { "type": "object" },
            "output_schema": { "type": "object" },
            "probes": false,
        });
        self.publish(ArtifactKind::Step, &json!(kind), Some(descriptor))
    }

    /// Publishes a definition with the catalog and the policy it needs; answers the body to register it.
    pub(crate) fn publish_definition(&self, definition: &Value) -> Value {
        let step = self.publish_step("test.noop@v1");
        let catalog = json!({ "steps": { "test.noop@v1": step } });
        json!({
            "definition": self.publish(ArtifactKind::Definition, definition, None),
            "catalog": self.publish(ArtifactKind::Catalog, &catalog, None),
            "policy": self.publish(ArtifactKind::PolicyBundle, &json!({ "revision": 1 }), None),
        })
    }

    /// Publishes `test.noop@v1`.
    pub(crate) fn publish_noop(&self) -> Value {
        self.publish_definition(&noop())
    }
}

/// `test.noop@v1`: `first` before `second`.
pub(crate) fn noop() -> Value {
    json!({
        "operation_type": "test.noop",
        "version": "v1",
        "summary": "does nothing, twice",
        "backend_type": "node_agent",
        "input_schema": {
            "type": "object",
            "required": ["name", "count"],
            "additionalProperties": false,
            "properties": { "name": { "type": "string", "minLength": 1 }, "count": { "type": "integer" } },
        },
        "steps": [
            { "id": "first", "uses": "test.noop@v1" },
            { "id": "second", "uses": "test.noop@v1", "needs": ["first"] },
        ],
    })
}

#[async_trait]
impl ArtifactSource for Shelf {
    async fn fetch(&self, kind: ArtifactKind, reference: &Reference) -> Result<Fetched, ArtifactError> {
        let shelf = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shelf.get(&(kind, reference.clone())).cloned().ok_or_else(|| ArtifactError {
            code: "artifact.unsigned",
            message: format!("UNSIGNED: {reference} has no signature"),
            transient: false,
        })
    }
}
