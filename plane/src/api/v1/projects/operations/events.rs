//! GET /api/v1/projects/{project}/operations/{operation_id}/events

use axum::{
    Json,
    extract::State as Extracted,
    http::HeaderMap,
    response::{IntoResponse, Response, sse},
};
use fettle_store::{StoreError, event::Event, page::Page};
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

/// Which events.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Filter {
    /// `next_cursor` of the page before, or the id of the last event seen.
    cursor: Option<String>,
    /// 1 to 1000; 50 when absent.
    #[param(minimum = 1, maximum = 1000)]
    page_size: Option<u32>,
    /// Stream the events as server-sent events until the operation is over.
    #[serde(default)]
    follow: bool,
}

/// An event.
#[derive(Serialize, ToSchema)]
pub(crate) struct EventView {
    /// Cursor of this event.
    cursor: String,
    /// `operation.requested`, `.progress`, `.completed`, `.failed` or `.canceled`.
    event: &'static str,
    /// RFC 3339.
    at: String,
    /// The rest: for `operation.progress` at least `operation_id`, `correlation_id`, `current_step_index`
    /// (from 0), `total_steps`, `current_step_name`, `step_status`, `step_started_at`, `step_percent`.
    payload: Value,
}

/// A page of events.
#[derive(Serialize, ToSchema)]
pub(crate) struct Events {
    /// The oldest first.
    items: Vec<EventView>,
    /// Pass it as `cursor` for the events after these; absent when there are none yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

impl From<Event> for EventView {
    fn from(event: Event) -> Self {
        Self {
            cursor: event.sequence.to_string(),
            event: event.kind.name(),
            at: event.at.to_string(),
            payload: event.payload,
        }
    }
}

/// Shows the events of an operation in pages, or follows them: each under its own name with the cursor
/// as its id, then one event `end`. A reader that reconnects sends `Last-Event-ID` and misses nothing.
#[utoipa::path(get, path = "/api/v1/projects/{project}/operations/{operation_id}/events", tag = "operations",
    params(
        ("project" = String, Path, description = "project"),
        ("operation_id" = String, Path, description = "operation"),
        Filter,
        ("Last-Event-ID" = Option<String>, Header, description = "of a follower that reconnects: the cursor of the last event it has seen"),
    ),
    responses(
        (status = 200, description = "a page, or with `follow=true` a stream",
            content((Events = "application/json"), (String = "text/event-stream"))),
        (status = 404, description = "there is none, or not for the caller", body = ProblemDocument),
    ))]
pub(crate) async fn events(
    Extracted(state): Extracted<State>,
    InProject { project, .. }: InProject,
    Path((_owner, id)): Path<(String, String)>,
    headers: HeaderMap,
    Query(filter): Query<Filter>,
) -> Result<Response, Problem> {
    let operation = find(&state, &project, &id).await?;
    let resumed = follow::start(&headers, filter.cursor.as_deref())?;
    if filter.follow {
        let read = |state: State, id, after, size| async move {
            entries(state.store.events(id, Page { after: Some(after), size }).await?)
        };
        return Ok(follow::follow(state, &operation, resumed, read).into_response());
    }
    let size = page::size(filter.page_size)?;
    let after = page::cursor(filter.cursor.as_deref())?;
    let events = state.store.events(operation.id, Page { after, size }).await?;
    let next_cursor = events.last().map(|event| event.sequence.to_string());
    Ok(Json(Events { items: events.into_iter().map(EventView::from).collect(), next_cursor }).into_response())
}

fn entries(events: Vec<Event>) -> Result<Vec<follow::Entry>, StoreError> {
    events
        .into_iter()
        .map(|event| {
            let (sequence, name) = (event.sequence, event.kind.name());
            let sent = sse::Event::default().event(name).json_data(EventView::from(event));
            Ok((sequence, sent.map_err(|error| StoreError::corrupt("event", error))?))
        })
        .collect()
}
