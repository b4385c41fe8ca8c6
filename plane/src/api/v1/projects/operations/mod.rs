//! /api/v1/projects/{project}/operations

pub(crate) mod cancel;
pub(crate) mod create;
pub(crate) mod events;
mod follow;
pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod plan;
mod request;
pub(crate) mod show;
mod view;

use fettle_store::{id::OperationId, operation::Operation, project::Project};

use crate::{api::Problem, state::State};

/// The operation of a project, or 404.
async fn find(state: &State, project: &Project, id: &str) -> Result<Operation, Problem> {
    let found = match id.parse::<OperationId>() {
        Ok(id) => state.store.operation(&project.project_id, id).await?,
        Err(_) => None,
    };
    found.ok_or_else(|| unknown(project, id))
}

fn unknown(project: &Project, id: &str) -> Problem {
    let detail = format!("there is no operation `{id}` in project `{}`", project.project_id);
    Problem::not_found("operation.unknown", detail)
}
