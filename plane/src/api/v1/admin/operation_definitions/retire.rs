//! POST /api/v1/admin/operation-definitions/{id}/retire

use axum::{Json, extract::State as Extracted};
use fettle_store::definition::DefinitionChange;

use super::{find::find, view::DefinitionView};
use crate::{
    api::{Problem, extract::Path, problem::ProblemDocument},
    identity::Caller,
    registration,
    state::State,
};

/// Ends the use of a version, also of a draft: no new operation is made of it. Operations that were accepted before
/// run to their end. Doing it again changes nothing.
#[utoipa::path(post, path = "/api/v1/admin/operation-definitions/{id}/retire", tag = "operation definitions",
    params(("id" = String, Path, description = "id, or `operation_type@version`")),
    responses(
        (status = 200, description = "the version as it is now", body = DefinitionView),
        (status = 403, description = "not a platform administrator", body = ProblemDocument),
        (status = 404, description = "there is none", body = ProblemDocument),
    ))]
pub(crate) async fn retire(
    Extracted(state): Extracted<State>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<DefinitionView>, Problem> {
    let version = find(&state, &name).await?;
    let changed = registration::change(&state, &version, DefinitionChange::Retire, caller.context()).await?;
    Ok(Json(DefinitionView::whole(&changed)))
}
