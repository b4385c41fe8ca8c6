//! GET /api/v1/projects/{project}/operations/{operation_id}/logs

use axum::{
    Json,
    extract::State as Extracted,
    http::HeaderMap,
    response::{IntoResponse, Response, sse::Event},
};
use fettle_model::{name::StepId, violation::Violation};
use fettle_store::{StoreError, id::NodeId, log::LogRecord, page::Page};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::{find, follow};
use crate::{
    api::{
        Problem,
        extract::{Path, Query},
        problem::ProblemDocument,
        v1::page,
    },
    identity::InProject,
    state::State,
};

/// Which lines.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Filter {
    /// Of one step only.
    step_id: Option<String>,
    /// Of one node only, by its id.
    node_id: Option<String>,
    /// `next_cursor` of the page before, or the id of the last event seen.
    cursor: Option<String>,
    /// 1 to 1000; 50 when absent.
    #[param(minimum = 1, maximum = 1000)]
    page_size: Option<u32>,
    /// Stream the lines as server-sent events until the operation is over.
    #[serde(default)]
    follow: bool,
}

/// A line of a log.
#[derive(Serialize, ToSchema)]
pub(crate) struct LogView {
    /// Cursor of this line.
    cursor: String,
    /// The node it was written on.
    node_id: String,
    /// The step that wrote it.
    step_id: String,
    /// The attempt that wrote it.
    attempt: u32,
    /// RFC 3339, by the node's clock.
    at: Option<String>,
    /// `debug`, `info`, `warn` or `error`.
    level: Value,
    /// The line.
    text: String,
}

/// A page of lines.
#[derive(Serialize, ToSchema)]
pub(crate) struct Logs {
    /// In the order they were stored.
    items: Vec<LogView>,
    /// Pass it as `cursor` for the lines after these; absent when there are none yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

impl From<LogRecord> for LogView {
    fn from(record: LogRecord) -> Self {
        Self {
            cursor: record.sequence.to_string(),
            node_id: record.node_id.to_string(),
            step_id: record.step_id.to_string(),
            attempt: record.attempt,
            at: Timestamp::from_millisecond(record.line.at).ok().map(|at| at.to_string()),
            level: serde_json::to_value(record.line.level).unwrap_or_default(),
            text: record.line.text,
        }
    }
}

/// Shows the log of an operation in pages, or follows it: events `log` with the cursor as their id, then
/// one event `end`. A reader that reconnects sends `Last-Event-ID` and misses nothing.
#[utoipa::path(get, path = "/api/v1/projects/{project}/operations/{operation_id}/logs", tag = "operations",
    params(
        ("project" = String, Path, description = "project"),
        ("operation_id" = String, Path, description = "operation"),
        Filter,
        ("Last-Event-ID" = Option<String>, Header, description = "of a follower that reconnects: the cursor of the last event it has seen"),
    ),
    responses(
        (status = 200, description = "a page, or with `follow=true` a stream",
            content((Logs = "application/json"), (String = "text/event-stream"))),
        (status = 404, description = "there is none, or not for the caller", body = ProblemDocument),
    ))]
pub(crate) async fn logs(
    Extracted(state): Extracted<State>,
    InProject { project, .. }: InProject,
    Path((_owner, id)): Path<(String, String)>,
    headers: HeaderMap,
    Query(filter): Query<Filter>,
) -> Result<Response, Problem> {
    let operation = find(&state, &project, &id).await?;
    let step = filter.step_id.as_deref().map(str::parse::<StepId>).transpose();
    let step = step.map_err(|error| Problem::invalid(vec![Violation::new("step_id", error.to_string())]))?;
    let node = filter.node_id.as_deref().map(str::parse::<NodeId>).transpose();
    let node = node.map_err(|error| Problem::invalid(vec![Violation::new("node_id", error.to_string())]))?;
    let resumed = follow::start(&headers, filter.cursor.as_deref())?;
    if filter.follow {
        let read = move |state: State, id, after, size| {
            let step = step.clone();
            async move { entries(&state.store.logs(id, node, step.as_ref(), Page { after: Some(after), size }).await?) }
        };
        return Ok(follow::follow(state, &operation, resumed, read).into_response());
    }
    let size = page::size(filter.page_size)?;
    let after = page::cursor(filter.cursor.as_deref())?;
    let records = state.store.logs(operation.id, node, step.as_ref(), Page { after, size }).await?;
    let next_cursor = records.last().map(|record| record.sequence.to_string());
    Ok(Json(Logs { items: records.into_iter().map(LogView::from).collect(), next_cursor }).into_response())
}

fn entries(records: &[LogRecord]) -> Result<Vec<follow::Entry>, StoreError> {
    records
        .iter()
        .map(|record| {
            let event = Event::default().event("log").json_data(LogView::from(record.clone()));
            Ok((record.sequence, event.map_err(|error| StoreError::corrupt("log line", error))?))
        })
        .collect()
}
