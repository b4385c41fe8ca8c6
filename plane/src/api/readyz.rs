//! GET /readyz

use axum::extract::State as Extracted;

use super::Problem;
use crate::state::State;

/// Answers when requests can be served: the database reads and writes.
#[utoipa::path(get, path = "/readyz", tag = "health", responses(
    (status = 200, description = "requests can be served"),
    (status = 503, description = "the database does not answer", body = super::problem::ProblemDocument),
))]
pub(crate) async fn show(Extracted(state): Extracted<State>) -> Result<&'static str, Problem> {
    if state.shutdown.is_cancelled() {
        return Err(Problem::unavailable("the plane is shutting down; ask another one".to_owned()));
    }
    state.store.check_health().await?;
    Ok("ready\n")
}
