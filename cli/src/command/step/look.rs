//! Looking at a component: what it says of itself, in a sandbox where it reaches nothing, and what it
//! really imports.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use fettle_host::sandbox::{Imports, Limits, Sandbox};
use fettle_model::{descriptor::Descriptor, digest::Digest};
use serde::Serialize;

use crate::error::CommandError;

/// A component that was looked at.
#[derive(Debug, Serialize)]
pub(super) struct Look {
    /// Of the component's bytes.
    pub(super) digest: Digest,
    /// Of the component, in bytes.
    pub(super) size: u64,
    /// What it says of itself.
    pub(super) descriptor: Descriptor,
    /// What it imports.
    pub(super) imports: Imports,
}

/// Compiles a component and asks it what it is. `path` is for messages.
pub(super) async fn look(path: &Path, content: Bytes) -> Result<Look, CommandError> {
    let sandbox = Sandbox::new(1, Limits::default()).map_err(|error| CommandError::Sandbox(format!("{error:#}")))?;
    let wrong = |source| CommandError::Component { path: path.to_owned(), source };
    let size = content.len() as u64;
    let digest = Digest::of(&content);
    let compiled = sandbox.compile(content).await.map_err(wrong)?;
    let descriptor = sandbox.describe(&compiled).await.map_err(wrong)?;
    Ok(Look { digest, size, descriptor, imports: compiled.imports().clone() })
}

/// Reads a component's file.
pub(super) async fn read(path: &Path) -> Result<Bytes, CommandError> {
    let failed = |source| CommandError::Read { path: path.to_owned(), source };
    Ok(tokio::fs::read(path).await.map_err(failed)?.into())
}

impl Look {
    /// Whether the component asks for all that it imports, and imports nothing that no grant can give.
    pub(super) fn check(&self, path: &Path) -> Result<(), CommandError> {
        let refused = |reason: String| CommandError::Refused { path: PathBuf::from(path), reason };
        if let Some(name) = self.imports.unknown.first() {
            return Err(refused(format!(
                "it imports `{name}`, which no grant can give a step; remove what pulls it in, and build again"
            )));
        }
        match self.imports.capabilities.iter().find(|used| !self.descriptor.requests.contains_key(used)) {
            Some(used) => Err(refused(format!(
                "it imports `{}` and does not ask for capability `{used}`; add `{used}: \"<why>\"` to its requests",
                used.interface()
            ))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use fettle_model::grant::Capability;
    use serde_json::json;

    use super::*;

    fn seen(requests: &serde_json::Value, imports: Imports) -> Look {
        let descriptor = json!({"kind": "a@v1", "summary": "", "effect": "observe", "input_schema": {},
            "output_schema": {}, "requests": requests, "probes": false});
        Look { digest: Digest::of(b""), size: 0, descriptor: serde_json::from_value(descriptor).unwrap(), imports }
    }

    #[test]
    fn a_step_asks_for_all_that_it_imports() {
        let imports = || Imports { capabilities: [Capability::Files].into(), ..Imports::default() };
        seen(&json!({"files": "to write"}), imports()).check(Path::new("a.wasm")).unwrap();
        let error = seen(&json!({"exec": "to run"}), imports()).check(Path::new("a.wasm")).unwrap_err().to_string();
        assert!(error.contains("`fettle:files/files`") && error.contains("add `files: \"<why>\"`"), "{error}");
    }

    #[test]
    fn what_no_grant_can_give_is_refused_by_name() {
        let imports = Imports { unknown: ["wasi:http/outgoing-handler@0.2.3".to_owned()].into(), ..Imports::default() };
        let error = seen(&json!({}), imports).check(Path::new("a.wasm")).unwrap_err();
        assert!(error.to_string().contains("`wasi:http/outgoing-handler@0.2.3`"), "{error}");
        assert_eq!(error.exit(), crate::exit::Exit::Invalid);
    }
}
