//! The one stream over which all tasks of this host report. One for each task would take as many streams of the
//! connection as there are tasks, and a connection has only so many: acknowledgements would wait for tasks to end, and
//! tasks for acknowledgements.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use fettle_wire::node::{ReportRequest, ReportResponse};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tonic::{Status, Streaming};

use super::{Agent, backoff};

/// Events of all tasks that wait for the connection at most.
const WAITING: usize = 256;

/// Where tasks find the stream.
pub(super) struct Reports {
    current: watch::Sender<Option<Arc<Open>>>,
}

/// An open stream.
struct Open {
    requests: mpsc::Sender<ReportRequest>,
    routes: Arc<Routes>,
    /// There is a newer connection.
    moved: CancellationToken,
}

/// Which task hears which answers; nothing any more once the stream is over.
#[derive(Default)]
struct Routes(Mutex<Option<BTreeMap<String, mpsc::UnboundedSender<ReportResponse>>>>);

/// One task's part of the stream.
pub(super) struct Line {
    open: Arc<Open>,
    task_id: String,
    answers: mpsc::UnboundedReceiver<ReportResponse>,
}

impl Routes {
    fn new() -> Self {
        Self(Mutex::new(Some(BTreeMap::new())))
    }

    fn change<T>(
        &self,
        change: impl FnOnce(&mut BTreeMap<String, mpsc::UnboundedSender<ReportResponse>>) -> T,
    ) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(change)
    }

    /// Everybody hears that the stream is over.
    fn close(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl Default for Reports {
    fn default() -> Self {
        Self { current: watch::Sender::new(None) }
    }
}

impl Reports {
    /// A part of the stream for one task, as soon as there is a stream.
    pub(super) async fn join(&self, task_id: &str) -> Result<Line, Status> {
        let gone = |_| Status::unavailable("the host stops");
        let mut current = self.current.subscribe();
        loop {
            let found = current.wait_for(Option::is_some).await.map_err(gone)?.clone();
            if let Some(open) = found {
                let (answer, answers) = mpsc::unbounded_channel();
                let added = open.routes.change(|routes| drop(routes.insert(task_id.to_owned(), answer)));
                if added.is_some() {
                    return Ok(Line { open, task_id: task_id.to_owned(), answers });
                }
            }
            // That one is over; the next one is on its way.
            current.changed().await.map_err(|_| Status::unavailable("the host stops"))?;
        }
    }
}

impl Line {
    /// Sends an event.
    pub(super) async fn send(&self, request: ReportRequest) -> Result<(), Status> {
        self.open.requests.send(request).await.map_err(|_| Status::unavailable("the stream of reports is over"))
    }

    /// What the plane answers to an event of this task.
    pub(super) async fn answer(&mut self) -> Result<ReportResponse, Status> {
        self.answers.recv().await.ok_or_else(|| Status::unavailable("the stream of reports is over"))
    }

    /// Says when there is a newer connection. What is on its way is answered on this one.
    pub(super) fn moved(&self) -> CancellationToken {
        self.open.moved.clone()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.open.routes.change(|routes| drop(routes.remove(&self.task_id)));
    }
}

/// Holds the stream open, whatever happens to the connection; never ends.
pub(super) async fn keep(agent: Arc<Agent>) {
    let (mut waits, mut moves) = (backoff(), agent.moves.subscribe());
    loop {
        moves.mark_unchanged();
        match open(&agent).await {
            Ok((open, incoming)) => {
                waits = backoff();
                let mut reading = AbortOnDropHandle::new(tokio::spawn(read(Arc::clone(&open.routes), incoming)));
                agent.reports.current.send_replace(Some(Arc::clone(&open)));
                tokio::select! {
                    _ = &mut reading => drop(agent.reports.current.send_replace(None)),
                    // Tasks go on at the next stream, and wait for it; this one is over when the last of them has left it.
                    _ = moves.changed() => {
                        agent.reports.current.send_replace(None);
                        open.moved.cancel();
                        drop(reading.detach());
                        continue;
                    }
                }
            }
            Err(status) => tracing::debug!(reason = status.message(), "reports wait for the plane"),
        }
        tokio::time::sleep(waits.next().unwrap_or(Duration::from_secs(10))).await;
    }
}

async fn open(agent: &Agent) -> Result<(Arc<Open>, Streaming<ReportResponse>), Status> {
    let (requests, outgoing) = mpsc::channel(WAITING);
    let incoming = agent.client.clone().report(ReceiverStream::new(outgoing)).await?.into_inner();
    let open = Open { requests, routes: Arc::new(Routes::new()), moved: CancellationToken::new() };
    Ok((Arc::new(open), incoming))
}

/// Gives each answer to its task, until the stream is over.
async fn read(routes: Arc<Routes>, mut incoming: Streaming<ReportResponse>) {
    let ended = loop {
        match incoming.message().await {
            Ok(Some(response)) => {
                // Nobody hears it whose task is over.
                routes.change(|routes| routes.get(&response.task_id).map(|task| task.send(response.clone())));
            }
            Ok(None) => break None,
            Err(status) => break Some(status),
        }
    };
    let reason = ended.as_ref().map_or("the plane closed it", |status| status.message());
    tracing::debug!(reason, "a stream of reports is over");
    routes.close();
}
