//! What is asked for when an operation is submitted or planned.

use axum::http::HeaderMap;
use fettle_model::violation::Violation;
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::{
    api::Problem,
    submission::{Submission, is_key},
};

/// An operation that is asked for.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewOperationRequest {
    /// Name of the operation type: `model.artifact.stage`.
    operation_type: String,
    /// Its version: `v1`.
    version: String,
    /// Must fit the input schema of the definition.
    #[serde(default = "empty")]
    inputs: Value,
    /// Where.
    target_selector: TargetSelector,
    /// The same request with the same key makes one operation. Also as header `Idempotency-Key`.
    #[serde(default)]
    idempotency_key: Option<String>,
    /// Follows the operation through all logs and events. Also as header `X-Correlation-Id`.
    #[serde(default)]
    correlation_id: Option<String>,
}

/// Which node.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TargetSelector {
    /// Name or id of one node.
    node: String,
}

fn empty() -> Value {
    Value::Object(serde_json::Map::new())
}

impl NewOperationRequest {
    /// The submission, and the correlation id if the body names one.
    pub(super) fn read(self, headers: &HeaderMap) -> Result<(Submission, Option<String>), Problem> {
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
        if !found.is_empty() {
            return Err(Problem::invalid(found));
        }
        let submission = Submission {
            operation_type: self.operation_type,
            version: self.version,
            inputs: self.inputs,
            node: self.target_selector.node,
            idempotency_key,
        };
        Ok((submission, self.correlation_id))
    }
}
