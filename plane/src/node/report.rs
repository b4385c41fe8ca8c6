//! Report: what happens to tasks. Events that arrive together are stored together.

use fettle_store::task::Report;
use fettle_wire::{
    convert,
    node::{ReportRequest, ReportResponse},
};
use futures::StreamExt as _;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Status, Streaming};

use super::{
    Answers,
    authentication::{Caller, Standing, authenticate},
    status, trace,
};
use crate::{observation::OpenStream, state::State};

/// Events stored in one transaction at most.
const TOGETHER: usize = 64;

/// Answers that wait for a slow host at most.
const ANSWERS: usize = 128;

pub(super) async fn report(
    state: &State,
    request: Request<Streaming<ReportRequest>>,
) -> Result<Answers<ReportResponse>, Status> {
    let caller = authenticate(state, &request).await?;
    let (sender, receiver) = mpsc::channel(ANSWERS);
    let state = state.clone();
    let sent = trace::sent(request.metadata());
    let work = async move {
        let _open = OpenStream::begin(&state.metrics, "report");
        tokio::select! {
            () = state.shutdown.cancelled() => {}
            () = store_all(&state, &caller, request.into_inner(), &sender) => {}
        }
    };
    tokio::spawn(trace::follow("report", sent, work));
    Ok(Box::pin(ReceiverStream::new(receiver)))
}

async fn store_all(
    state: &State,
    caller: &Caller,
    requests: Streaming<ReportRequest>,
    answers: &mpsc::Sender<Result<ReportResponse, Status>>,
) {
    let mut chunks = requests.ready_chunks(TOGETHER);
    while let Some(chunk) = chunks.next().await {
        if let Err(status) = goes_on(state, caller).await {
            let _ = answers.send(Err(status)).await;
            return;
        }
        for answer in store_chunk(state, caller, chunk).await {
            let end = answer.is_err();
            if answers.send(answer).await.is_err() || end {
                return;
            }
        }
    }
}

/// Whether the node may still report: its certificate counts, and is not revoked.
async fn goes_on(state: &State, caller: &Caller) -> Result<(), Status> {
    if !caller.is_expired(state) && caller.stands(state).await? == Standing::Good {
        return Ok(());
    }
    // Not final for the host: it connects again, and is told there why it may not, or may.
    Err(Status::unauthenticated("the certificate that this stream began with counts no longer; connect again"))
}

/// Stores what can be stored. An error comes last: it ends the stream.
async fn store_chunk(
    state: &State,
    caller: &Caller,
    chunk: Vec<Result<ReportRequest, Status>>,
) -> Vec<Result<ReportResponse, Status>> {
    let mut reports = Vec::with_capacity(chunk.len());
    let mut broken = None;
    for message in chunk {
        match message.and_then(|message| read(state, caller, &message)) {
            Ok(report) => reports.push(report),
            Err(status) => {
                broken = Some(status);
                break;
            }
        }
    }
    let places: Vec<_> = reports.iter().map(|report| (report.lease.task_id, report.sequence)).collect();
    let mut answers = Vec::with_capacity(places.len() + 1);
    if !reports.is_empty() {
        match state.store.apply_reports(reports, caller.context(state, String::new())).await {
            Ok(verdicts) => {
                for ((task_id, sequence), verdict) in places.into_iter().zip(verdicts) {
                    let answer = verdict.map(|verdict| ReportResponse {
                        task_id: task_id.to_string(),
                        sequence,
                        verdict: status::told(state, "report", verdict),
                    });
                    answers.push(answer.map_err(status::store));
                }
            }
            Err(error) => broken = Some(status::store(error)),
        }
    }
    // Good answers first: the first error ends the stream.
    answers.sort_by_key(Result::is_err);
    answers.extend(broken.map(Err));
    answers
}

fn read(state: &State, caller: &Caller, message: &ReportRequest) -> Result<Report, Status> {
    Ok(Report {
        lease: caller.lease(state, &message.node_id, &message.task_id, message.epoch)?,
        sequence: message.sequence,
        event: convert::event(&message.event)?,
    })
}
