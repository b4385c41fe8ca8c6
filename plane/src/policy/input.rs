//! What Rego policies are told. These types are the contract with whoever writes one: see
//! `docs/reference/policy-input.md`, which a test writes from them.

use std::collections::BTreeMap;

use fettle_model::plan::Graph;
use fettle_store::{node::Node, project::Project};
use jiff::{Timestamp, tz::TimeZone};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// The input of `data.fettle.submit.deny`: somebody asks for an operation, or for another run of one.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct SubmitInput {
    /// What is asked for.
    pub(crate) operation: OperationInput,
    /// For whom.
    pub(crate) project: ProjectInput,
    /// The nodes that the target selector stands for; of a retry, those on which it runs again.
    pub(crate) nodes: Vec<NodeInput>,
    /// What the target selector names: `node`, `label`, `allocation` or `group`.
    pub(crate) target_kind: String,
    /// The signed definition that it is made of.
    pub(crate) definition: DefinitionInput,
    /// Who asks: `token:<id>:<name>`.
    pub(crate) requested_by: String,
    /// Whether the request can be repeated safely.
    pub(crate) has_idempotency_key: bool,
    /// Whether it is another run of an operation that failed or was canceled.
    pub(crate) is_retry: bool,
    /// What the overlays of platform, tenant and project say together: their seven keys.
    pub(crate) effective: Value,
    /// When.
    pub(crate) at: TimeInput,
}

/// The input of `data.fettle.dispatch.deny`: a node is about to be given a task.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct DispatchInput {
    /// The operation that was accepted.
    pub(crate) operation: OperationInput,
    /// Its id.
    pub(crate) operation_id: String,
    /// Whose it is.
    pub(crate) project: ProjectInput,
    /// The node that would execute it.
    pub(crate) node: NodeInput,
    /// Who asked for it: `token:<id>:<name>`.
    pub(crate) requested_by: String,
    /// When it was accepted.
    pub(crate) accepted_at: TimeInput,
    /// Now.
    pub(crate) at: TimeInput,
}

/// An operation.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct OperationInput {
    /// `model.artifact.stage`
    pub(crate) operation_type: String,
    /// `v1`
    pub(crate) version: String,
    /// They fit the definition's schema.
    pub(crate) inputs: Value,
}

/// A project.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct ProjectInput {
    /// Its organisation.
    pub(crate) org_id: String,
    /// Its name.
    pub(crate) project_id: String,
}

/// A node.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct NodeInput {
    /// Its id.
    pub(crate) id: String,
    /// Its name.
    pub(crate) name: String,
    /// What it has: `gpu.vendor` -> `nvidia`.
    pub(crate) capabilities: BTreeMap<String, String>,
    /// Tasks it executes at once.
    pub(crate) slots: u32,
    /// Tasks it holds now.
    pub(crate) running_tasks: u32,
    /// The project that it belongs to; null when it is common to all.
    pub(crate) owner: Option<ProjectInput>,
}

/// What an operation is made of.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct DefinitionInput {
    /// Reference of the signed definition, by digest.
    pub(crate) reference: String,
    /// Reference of the signed step catalog, by digest.
    pub(crate) catalog: String,
    /// Reference of the signed policy bundle, by digest.
    pub(crate) policy: String,
    /// The kinds of its steps, in the order of the plan.
    pub(crate) step_kinds: Vec<String>,
    /// `allowed_repositories`, `require_signature` and `max_size_bytes`; null when it has none.
    pub(crate) artifact_constraints: Value,
}

/// A moment, in UTC. Policies have no clock of their own.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct TimeInput {
    /// RFC 3339.
    pub(crate) rfc3339: String,
    /// Seconds since the Unix epoch.
    pub(crate) unix_seconds: i64,
    /// 1 is Monday, 7 is Sunday.
    pub(crate) weekday: i8,
    /// 0 to 23.
    pub(crate) hour: i8,
    /// 0 to 59.
    pub(crate) minute: i8,
}

impl ProjectInput {
    pub(crate) fn of(project: &Project) -> Self {
        Self { org_id: project.org_id.to_string(), project_id: project.project_id.to_string() }
    }
}

impl NodeInput {
    pub(crate) fn of(node: &Node) -> Self {
        Self {
            id: node.id.to_string(),
            name: node.facts.name.clone(),
            capabilities: node.facts.capabilities.clone(),
            slots: node.facts.slots,
            running_tasks: node.running_tasks,
            owner: node.owner.as_ref().map(ProjectInput::of),
        }
    }
}

impl DefinitionInput {
    pub(crate) fn of(graph: &Graph) -> Self {
        Self {
            reference: graph.sources.definition.to_string(),
            catalog: graph.sources.catalog.to_string(),
            policy: graph.sources.policy.to_string(),
            step_kinds: graph.steps.iter().map(|step| step.kind.to_string()).collect(),
            artifact_constraints: serde_json::to_value(&graph.artifact_constraints).unwrap_or_default(),
        }
    }
}

impl TimeInput {
    pub(crate) fn of(at: Timestamp) -> Self {
        let civil = at.to_zoned(TimeZone::UTC);
        Self {
            rfc3339: at.to_string(),
            unix_seconds: at.as_second(),
            weekday: civil.weekday().to_monday_one_offset(),
            hour: civil.hour(),
            minute: civil.minute(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> String {
        let schema = |schema: schemars::Schema| serde_json::to_string_pretty(&schema).unwrap();
        format!(
            "# Input of Rego policies\n\n\
             What policies are told (`docs/how-to/set-an-operation-policy.md` says how to write one). This page is written\n\
             by a test from the types that the plane sends. Fields may be added; none changes its meaning.\n\n\
             Policies have no clock, no network and no randomness: the time is part of the input.\n\n\
             ## `data.fettle.submit.deny`\n\n```json\n{}\n```\n\n\
             ## `data.fettle.dispatch.deny`\n\n```json\n{}\n```\n",
            schema(schemars::schema_for!(SubmitInput)),
            schema(schemars::schema_for!(DispatchInput)),
        )
    }

    #[test]
    fn the_page_of_policy_inputs_is_what_the_plane_sends() {
        crate::reference::holds("policy-input.md", &page(), "the_page_of_policy_inputs");
    }

    #[test]
    fn a_moment_is_told_in_utc() {
        let time = TimeInput::of("2026-11-20T23:59:00+01:00".parse().unwrap());
        assert_eq!((time.weekday, time.hour, time.minute), (5, 22, 59));
        assert_eq!(time.rfc3339, "2026-11-20T22:59:00Z");
    }
}
