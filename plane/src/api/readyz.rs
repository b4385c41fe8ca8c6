//! GET /readyz

use axum::extract::State as Extracted;

use super::Problem;
use crate::state::State;

/// Answers when requests can be served: the database answers, and the plane is not about to stop. Nothing is written.
#[utoipa::path(get, path = "/readyz", tag = "health", responses(
    (status = 200, description = "requests can be served", body = String, content_type = "text/plain",
        example = "ready\n"),
    (status = 503, description = "the database does not answer", body = super::problem::ProblemDocument),
))]
pub(crate) async fn show(Extracted(state): Extracted<State>) -> Result<&'static str, Problem> {
    if state.shutdown.is_cancelled() {
        return Err(Problem::unavailable("the plane is shutting down; ask another one".to_owned()));
    }
    state.store.check_health().await?;
    Ok("ready\n")
}
