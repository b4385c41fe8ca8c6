//! Server-sent events of something that grows: what is stored now, then what is added, then the end.

use std::{convert::Infallible, future::Future, time::Duration};

use axum::{
    http::HeaderMap,
    response::sse::{Event, KeepAlive, KeepAliveStream, Sse},
};
use fettle_store::{StoreError, id::OperationId, operation::Operation};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::{api::Problem, api::v1::page, observation::OpenStream, state::State};

/// Entries read at once.
const BATCH: u32 = 500;

/// Entries that wait for a slow reader at most.
const WAITING: usize = 64;

/// How often a silent stream says that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A stream of events.
pub(super) type Stream = Sse<KeepAliveStream<ReceiverStream<Result<Event, Infallible>>>>;

/// One entry: its sequence number and what is sent.
pub(super) type Entry = (i64, Event);

/// Where to resume: the header `Last-Event-ID` of a browser that reconnects, or the cursor.
pub(super) fn start(headers: &HeaderMap, cursor: Option<&str>) -> Result<i64, Problem> {
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    Ok(page::cursor(last.or(cursor))?.unwrap_or(0))
}

/// Follows until the operation is over and everything was sent. `read` answers up to a number of
/// entries after a sequence number.
pub(super) fn follow<R, F>(state: State, operation: &Operation, after: i64, read: R) -> Stream
where
    R: Fn(State, OperationId, i64, u32) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Vec<Entry>, StoreError>> + Send,
{
    let (sender, receiver) = mpsc::channel(WAITING);
    let open = OpenStream::begin(&state.metrics, "follow");
    let (id, project) = (operation.id, operation.project.project_id.clone());
    tokio::spawn(async move {
        let _open = open;
        let sent = tokio::select! {
            () = state.shutdown.cancelled() => return,
            () = sender.closed() => return,
            sent = send_all(&state, id, &project, after, &read, &sender) => sent,
        };
        let last = match sent {
            Ok(()) => Event::default().event("end").data("{}"),
            Err(error) => {
                tracing::error!(%error, operation = %id, "a stream broke off");
                Event::default().event("error").data(r#"{"code":"store.unavailable"}"#)
            }
        };
        let _ = sender.send(Ok(last)).await;
    });
    Sse::new(ReceiverStream::new(receiver)).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}

async fn send_all<R, F>(
    state: &State,
    id: OperationId,
    project: &fettle_model::name::Label,
    mut after: i64,
    read: &R,
    sender: &mpsc::Sender<Result<Event, Infallible>>,
) -> Result<(), StoreError>
where
    R: Fn(State, OperationId, i64, u32) -> F + Send + Sync,
    F: Future<Output = Result<Vec<Entry>, StoreError>> + Send,
{
    let mut changes = state.wakeups.operation(id);
    loop {
        changes.mark_unchanged();
        // Asked before reading: what is stored before the end is then surely read.
        let operation = state.store.operation(project, id).await?;
        let over = operation.is_none_or(|operation| operation.state.status().is_final());
        let entries = read(state.clone(), id, after, BATCH).await?;
        let drained = entries.is_empty();
        for (sequence, event) in entries {
            after = sequence;
            if sender.send(Ok(event.id(sequence.to_string()))).await.is_err() {
                return Ok(());
            }
        }
        if drained && over {
            return Ok(());
        }
        if drained && changes.changed().await.is_err() {
            return Ok(());
        }
    }
}
