//! What is asked for when an operation is submitted or planned.

use axum::http::HeaderMap;
use fettle_model::violation::Violation;
use fettle_store::operation::DEFAULT_PRIORITY;
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::{
    api::Problem,
    submission::{Submission, is_key},
    target::TargetSelector,
};

/// A year.
const LONGEST_SECONDS: u32 = 366 * 24 * 60 * 60;

/// What is wrong with the longest that a run may take.
pub(super) fn timeout(seconds: Option<u32>) -> Option<Violation> {
    out_of_bounds("/timeout_seconds", seconds, 1, LONGEST_SECONDS)
}

fn out_of_bounds(pointer: &str, number: Option<u32>, least: u32, most: u32) -> Option<Violation> {
    number.filter(|number| !(least..=most).contains(number))?;
    Some(Violation::new(pointer, format!("write a number from {least} to {most}")))
}

/// An operation that is asked for.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewOperationRequest {
    /// Name of the operation type: `model.artifact.stage`.
    #[schema(pattern = "^[a-z][a-z0-9_]*([.][a-z][a-z0-9_]*)*$", max_length = 100)]
    operation_type: String,
    /// Its version: `v1`.
    #[schema(pattern = "^v[1-9][0-9]{0,5}$")]
    version: String,
    /// Must fit the input schema of the definition.
    #[serde(default = "empty")]
    #[schema(value_type = Object)]
    inputs: Value,
    /// Where.
    target_selector: TargetSelectorRequest,
    /// 0 to 9; among the operations of one organisation the higher goes first. 5 when absent.
    #[serde(default)]
    priority: Option<u8>,
    /// The longest that it may take, from now to its end; the definition's own limit holds too.
    #[serde(default)]
    timeout_seconds: Option<u32>,
    /// How many nodes may work on it at once; all of them when absent.
    #[serde(default)]
    max_parallel_nodes: Option<u32>,
    /// How many nodes may fail before no further node is started; all of them when absent.
    #[serde(default)]
    failure_budget: Option<u32>,
    /// The same request with the same key makes one operation. Also as header `Idempotency-Key`.
    #[serde(default)]
    #[schema(pattern = "^[!-~]{1,200}$")]
    idempotency_key: Option<String>,
    /// Follows the operation through all logs and events. Also as header `X-Correlation-Id`.
    #[serde(default)]
    #[schema(pattern = "^[!-~]{1,200}$")]
    correlation_id: Option<String>,
}

/// Which nodes: one of the four.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TargetSelectorRequest {
    /// Name or id of one node.
    #[serde(default)]
    node: Option<String>,
    /// A CEL expression over `name`, `labels` and `capabilities`: `labels.region == "eu"`.
    #[serde(default)]
    label: Option<String>,
    /// The name of an allocation of the project.
    #[serde(default)]
    allocation: Option<String>,
    /// The name of a node group of the project.
    #[serde(default)]
    group: Option<String>,
}

impl TargetSelectorRequest {
    fn read(self) -> Result<TargetSelector, Violation> {
        let Self { node, label, allocation, group } = self;
        let mut named = [
            node.map(TargetSelector::Node),
            label.map(TargetSelector::Label),
            allocation.map(TargetSelector::Allocation),
            group.map(TargetSelector::Group),
        ]
        .into_iter()
        .flatten();
        match (named.next(), named.next()) {
            (Some(selector), None) => Ok(selector),
            _ => Err(Violation::new("/target_selector", "write one of `node`, `label`, `allocation` and `group`")),
        }
    }
}

fn empty() -> Value {
    Value::Object(serde_json::Map::new())
}

impl NewOperationRequest {
    /// The submission, and the correlation id if the body names one.
    pub(crate) fn read(self, headers: &HeaderMap) -> Result<(Submission, Option<String>), Problem> {
        let mut found = Vec::new();
        let header = headers.get("idempotency-key").map(|value| value.to_str().unwrap_or_default().to_owned());
        let idempotency_key = match (self.idempotency_key, header) {
            (Some(body), Some(header)) if body != header => {
                let message = "differs from the header `Idempotency-Key`; send one of them, or both alike";
                found.push(Violation::new("/idempotency_key", message));
                Some(body)
            }
            (body, header) => body.or(header),
        };
        if self.correlation_id.as_deref().is_some_and(|id| !is_key(id)) {
            found.push(Violation::new("/correlation_id", "write 1 to 200 visible ASCII characters"));
        }
        found.extend(out_of_bounds("/priority", self.priority.map(u32::from), 0, 9));
        found.extend(timeout(self.timeout_seconds));
        found.extend(out_of_bounds("/max_parallel_nodes", self.max_parallel_nodes, 1, u32::MAX));
        let target = match self.target_selector.read() {
            Ok(target) if found.is_empty() => target,
            Ok(_) => return Err(Problem::invalid(found)),
            Err(violation) => {
                found.push(violation);
                return Err(Problem::invalid(found));
            }
        };
        let submission = Submission {
            operation_type: self.operation_type,
            version: self.version,
            inputs: self.inputs,
            target,
            priority: self.priority.unwrap_or(DEFAULT_PRIORITY),
            timeout_seconds: self.timeout_seconds,
            max_parallel_nodes: self.max_parallel_nodes,
            failure_budget: self.failure_budget,
            idempotency_key,
        };
        Ok((submission, self.correlation_id))
    }
}
