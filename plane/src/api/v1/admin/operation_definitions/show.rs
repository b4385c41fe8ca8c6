//! GET /api/v1/admin/operation-definitions/{id}

use axum::{
    Json,
    extract::{Path, State as Extracted},
};

use super::{find::find, view::DefinitionView};
use crate::{
    api::{Problem, problem::ProblemDocument},
    state::State,
};

/// Shows one version with its document.
#[utoipa::path(get, path = "/api/v1/admin/operation-definitions/{id}", tag = "operation definitions",
    params(("id" = String, Path, description = "id, or `operation_type@version`")),
    responses(
        (status = 200, description = "the version", body = DefinitionView),
        (status = 404, description = "there is none", body = ProblemDocument),
    ))]
pub(crate) async fn show(
    Extracted(state): Extracted<State>,
    Path(name): Path<String>,
) -> Result<Json<DefinitionView>, Problem> {
    Ok(Json(DefinitionView::whole(&find(&state, &name).await?)))
}
