//! What an operation would be.

use fettle_model::{access::StepAccess, plan::Plan};
use serde::{Deserialize, Serialize};

use super::Warning;

/// What an operation would be.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlannedOperation {
    /// The nodes it would be for.
    #[serde(default)]
    pub nodes: Vec<PlannedNode>,
    /// Digest of the plan.
    pub plan_digest: String,
    /// The plan.
    pub plan: Plan,
    /// What each step may reach, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<PlanAccess>,
    /// Why that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_problem: Option<String>,
    /// What whoever would submit it should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

/// A node that an operation would be for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlannedNode {
    /// Its id.
    pub node_id: String,
    /// Its name.
    pub name: String,
}

/// Request, grant and ceiling of every step, and whose word each is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlanAccess {
    /// Who signed the definition: the grants.
    pub definition_signed_by: String,
    /// Who signed the policy bundle: the ceiling.
    pub policy_signed_by: String,
    /// Its revision.
    pub policy_revision: u64,
    /// The steps, in the order of the plan.
    pub steps: Vec<PlannedAccess>,
}

/// What one step may reach.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlannedAccess {
    /// The step.
    pub step_id: String,
    /// Who signed its component: the request.
    pub signed_by: String,
    /// All of it.
    #[serde(flatten)]
    pub access: StepAccess,
}
