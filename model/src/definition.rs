//! Operation definitions: what an administrator writes and signs.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    grant::Grants,
    limits::AttemptLimits,
    name::{OperationType, StepId, StepKind, Version},
    time,
};

/// A versioned, declarative operation: a graph of steps with what each may reach.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// Its name.
    pub operation_type: OperationType,
    /// Its version; immutable once published.
    pub version: Version,
    /// One sentence for people who choose an operation.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// Who executes it.
    pub backend_type: BackendType,
    /// JSON Schema (2020-12) of the inputs.
    pub input_schema: Value,
    /// What a node must have.
    #[serde(default, skip_serializing_if = "Requirements::is_empty")]
    pub requires: Requirements,
    /// Which artifacts its inputs may name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_constraints: Option<ArtifactConstraints>,
    /// The graph.
    pub steps: Vec<StepDefinition>,
    /// What to do when a step has failed for good.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// The longest that an operation may take from its request to its end.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "time::optional")]
    pub timeout: Option<Duration>,
}

/// Who executes an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendType {
    /// The host on each node.
    NodeAgent,
    /// A Kubernetes cluster's own API.
    K8sAdapter,
    /// A Slurm cluster's own API.
    SlurmAdapter,
    /// A Ray cluster's own API.
    RayAdapter,
}

/// What a node must have for an operation to be sent to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Requirements {
    /// For each capability key (`compute.runtime`), the values that will do.
    pub capabilities: BTreeMap<String, BTreeSet<String>>,
}

/// Which artifacts the inputs of an operation may name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArtifactConstraints {
    /// Repository paths; a trailing `/*` stands for all below.
    pub allowed_repositories: Vec<String>,
    /// Whether artifacts must be signed by a trusted key.
    #[serde(default)]
    pub require_signature: bool,
    /// Largest artifact in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_size_bytes: Option<u64>,
}

/// One step of the graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepDefinition {
    /// Its name in this definition.
    pub id: StepId,
    /// The kind of step.
    pub uses: StepKind,
    /// Steps that must have succeeded before. Steps that `with` refers to are needed in any case.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub needs: BTreeSet<StepId>,
    /// Its input; texts may hold `${{ expression }}` in CEL over `inputs` and `steps`.
    #[serde(default = "empty_object")]
    pub with: Value,
    /// What it may reach. Literals only.
    #[serde(default)]
    pub grants: Grants,
    /// Whether and how a transient failure is tried again.
    #[serde(default)]
    pub retry: Retry,
    /// The longest that one attempt may take.
    #[serde(default = "default_timeout", with = "time")]
    pub timeout: Duration,
    /// Whether another run of the operation may take over what it put out. A step whose result does not last, such as
    /// a short-lived credential, says false.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub reusable: bool,
    /// What one attempt may use, where that is less than the node allows.
    #[serde(default, skip_serializing_if = "AttemptLimits::is_empty")]
    pub limits: AttemptLimits,
}

const fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for this form")]
const fn is_true(value: &bool) -> bool {
    *value
}

fn empty_object() -> Value {
    Value::Object(serde_json::Map::new())
}

const fn default_timeout() -> Duration {
    Duration::from_mins(10)
}

/// How transient failures are tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// Attempts in all, the first included; 1 to 100.
    #[serde(default = "one")]
    pub attempts: u32,
    /// How long to wait between them.
    #[serde(default)]
    pub backoff: Backoff,
}

const fn one() -> u32 {
    1
}

impl Default for Retry {
    fn default() -> Self {
        Self { attempts: one(), backoff: Backoff::default() }
    }
}

/// Waits between attempts: `initial`, then `factor` times longer each time, never longer than `max`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Backoff {
    /// Before the second attempt.
    #[serde(with = "time")]
    pub initial: Duration,
    /// 1 to 10.
    pub factor: u32,
    /// The longest wait.
    #[serde(with = "time")]
    pub max: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { initial: Duration::from_secs(1), factor: 2, max: Duration::from_mins(1) }
    }
}

impl Backoff {
    /// The wait after attempt `attempt` (1 for the first) has failed.
    #[must_use]
    pub fn wait_after(&self, attempt: u32) -> Duration {
        let factor = self.factor.checked_pow(attempt.saturating_sub(1)).unwrap_or(u32::MAX);
        self.initial.checked_mul(factor).unwrap_or(self.max).min(self.max)
    }
}

/// What to do when a step has failed for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// Start no further step.
    #[default]
    Stop,
    /// Then undo the steps that succeeded, in reverse order.
    Undo,
}

impl BackendType {
    /// The name in documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NodeAgent => "node_agent",
            Self::K8sAdapter => "k8s_adapter",
            Self::SlurmAdapter => "slurm_adapter",
            Self::RayAdapter => "ray_adapter",
        }
    }
}

impl Requirements {
    /// Whether any node will do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.capabilities.is_empty()
    }
}

impl ArtifactConstraints {
    /// Whether the repository path (`models/llama`) is one of the allowed ones.
    #[must_use]
    pub fn allows(&self, path: &str) -> bool {
        self.allowed_repositories.iter().any(|pattern| match pattern.strip_suffix("/*") {
            Some(prefix) => path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/')),
            None => pattern == path,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_grows_to_its_limit() {
        let backoff = Backoff { initial: Duration::from_secs(1), factor: 3, max: Duration::from_secs(20) };
        let waits: Vec<u64> = (1..=5).map(|attempt| backoff.wait_after(attempt).as_secs()).collect();
        assert_eq!(waits, [1, 3, 9, 20, 20]);
        assert_eq!(backoff.wait_after(u32::MAX).as_secs(), 20);
    }

    #[test]
    fn a_repository_prefix_keeps_its_slash() {
        let constraints = ArtifactConstraints {
            allowed_repositories: vec!["models/*".into(), "one".into()],
            require_signature: false,
            max_size_bytes: None,
        };
        assert!(constraints.allows("models/a") && constraints.allows("models/a/b") && constraints.allows("one"));
        assert!(
            !constraints.allows("models-evil/a") && !constraints.allows("models") && !constraints.allows("one/two")
        );
    }
}
