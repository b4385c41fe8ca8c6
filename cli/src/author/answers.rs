//! What a node answers to a new step in its `cases.yaml`, and what `look` of the template makes of it.

use fettle_model::grant::Capability;
use serde::Serialize;

/// The answer to the one call of a capability that the template's `look` makes.
#[derive(Serialize)]
pub(super) struct Looked {
    /// Which.
    capability: &'static str,
    /// The call, as tables of cases name it.
    call: &'static str,
    /// Under which name later cases refer to the answer.
    anchor: &'static str,
    /// The answer, field by field, as YAML.
    answer: &'static [&'static str],
    /// The line that the step makes of it.
    pub(super) found: &'static str,
    /// What is answered before, a line of YAML each, in cases after the first.
    before: String,
}

/// The lines that answer all of it once more.
pub(super) fn again(looked: &[Looked]) -> String {
    looked.iter().map(|one| format!("      {}: [{{ ok: *{} }}]\n", one.call, one.anchor)).collect()
}

impl Looked {
    /// The answers to what `look` asks of these capabilities, in this order.
    pub(super) fn all(capabilities: impl Iterator<Item = Capability>) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for capability in capabilities {
            let before = again(&all);
            all.push(Self { before, ..Self::at(capability) });
        }
        all
    }

    fn at(capability: Capability) -> Self {
        let (call, anchor, answer, found): (_, _, &[&str], _) = match capability {
            Capability::Exec => ("exec.run", "command", &EXEC, "ready"),
            Capability::Files => ("files.read", "file", &[r#"text: "1\n""#], "2 bytes in the file"),
            Capability::Transfer => ("transfer.pull-manifest", "manifest", &TRANSFER, "a manifest of 2 bytes"),
            Capability::Facts => ("facts.memory", "memory", &FACTS, "68719476736 bytes of memory"),
            Capability::Http => ("http.send", "service", &HTTP, "the service answers 200"),
            Capability::Gpu => ("gpu.read", "gpus", &GPU, "0 GPUs"),
            Capability::Credentials => ("credentials.mint", "credential", &CREDENTIALS, "a credential"),
            Capability::Policy => ("policy.active", "policies", &POLICY, "revision 7 of the policy"),
        };
        Self { capability: capability.name(), call, anchor, answer, found, before: String::new() }
    }
}

const EXEC: [&str; 8] = [
    "termination: { exited: 0 }",
    "expected: true",
    r#"stdout: "ready\n""#,
    "stdout-truncated: false",
    "stderr: ''",
    "stderr-truncated: false",
    "duration-ms: 3",
    "attempts: 1",
];
const CREDENTIALS: [&str; 1] = ["'credential:look:1'"];
const POLICY: [&str; 3] = ["activation: registry.internal:5000/policy", "revision: 7", "bundles: []"];
const FACTS: [&str; 4] = ["total: 68719476736", "available: 60000000000", "swap-total: 0", "swap-free: 0"];
const GPU: [&str; 4] = ["driver-version: '580.1'", "nvml-version: '12.580.1'", "cuda-version: [13, 0]", "devices: []"];
const HTTP: [&str; 3] = ["status: 200", "headers: []", "body: { text: ready }"];
const TRANSFER: [&str; 2] = ["media-type: application/vnd.oci.image.manifest.v1+json", "content: { text: '{}' }"];
