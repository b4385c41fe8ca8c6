//! GET /api/v1/projects/{project}/operations

use axum::{Json, extract::State as Extracted};
use fettle_model::operation::OperationStatus;
use fettle_store::page::Page;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::view::OperationView;
use crate::{
    api::{Problem, extract::Query, problem::ProblemDocument, v1::page},
    identity::InProject,
    state::State,
};

/// Which operations.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Filter {
    /// `queued`, `running`, `succeeded`, `failed` or `canceled`.
    #[param(value_type = Option<String>)]
    status: Option<OperationStatus>,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
    /// 1 to 1000; 50 when absent.
    #[param(minimum = 1, maximum = 1000)]
    page_size: Option<u32>,
}

/// A page of operations.
#[derive(Serialize, ToSchema)]
pub(crate) struct Operations {
    /// The newest first.
    items: Vec<OperationView>,
    /// Pass it as `cursor` for the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// Lists operations of a project, each without its inputs, nodes and steps.
#[utoipa::path(get, path = "/api/v1/projects/{project}/operations", tag = "operations",
    params(("project" = String, Path, description = "project"), Filter),
    responses(
        (status = 200, description = "a page", body = Operations),
        (status = 404, description = "no such project, or not for the caller", body = ProblemDocument),
    ))]
pub(crate) async fn list(
    Extracted(state): Extracted<State>,
    InProject { project, .. }: InProject,
    Query(filter): Query<Filter>,
) -> Result<Json<Operations>, Problem> {
    let size = page::size(filter.page_size)?;
    let page = Page { after: page::cursor(filter.cursor.as_deref())?, size };
    let operations = state.store.operations(&project.project_id, filter.status, page).await?;
    let next_cursor = page::next(&operations, size, |operation| operation.id.to_string());
    Ok(Json(Operations { items: operations.into_iter().map(OperationView::summary).collect(), next_cursor }))
}
