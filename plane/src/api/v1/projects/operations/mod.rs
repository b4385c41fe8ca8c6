//! /api/v1/projects/{project}/operations

pub(crate) mod cancel;
pub(crate) mod create;
pub(crate) mod decision;
pub(crate) mod events;
mod follow;
pub(crate) mod force_probe;
pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod plan;
pub(crate) mod recover;
pub(super) mod request;
pub(crate) mod retry;
pub(crate) mod show;
mod view;
mod waiting;

use fettle_store::{
    id::OperationId,
    operation::{NodeTask, Operation},
    page::Page,
    project::Project,
};

use self::view::OperationView;
use crate::{api::Problem, state::State};

/// Denied calls that are shown with an operation.
const DENIALS: u32 = 100;

/// The operation of a project, or 404.
async fn find(state: &State, project: &Project, id: &str) -> Result<Operation, Problem> {
    let found = match id.parse::<OperationId>() {
        Ok(id) => state.store.operation(&project.project_id, id).await?,
        Err(_) => None,
    };
    found.ok_or_else(|| unknown(project, id))
}

/// One operation with its steps and what they were denied.
async fn whole(state: &State, operation: Operation) -> Result<OperationView, Problem> {
    let nodes = state.store.node_tasks(operation.id, state.heard_since()).await?;
    whole_of(state, operation, nodes).await
}

/// The same with tasks that were read before.
async fn whole_of(state: &State, operation: Operation, nodes: Vec<NodeTask>) -> Result<OperationView, Problem> {
    let steps = state.store.steps(operation.id).await?;
    let denied = state.store.denied_calls(operation.id, Page { after: None, size: DENIALS }).await?;
    Ok(OperationView::whole(operation, nodes, steps, denied.into_iter().map(|(_, denied)| denied).collect()))
}

fn unknown(project: &Project, id: &str) -> Problem {
    let detail = format!("there is no operation `{id}` in project `{}`", project.project_id);
    Problem::not_found("operation.unknown", detail)
}
