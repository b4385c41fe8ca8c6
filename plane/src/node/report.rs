//! Report: what happens to the tasks of a node, over one stream. Events that arrive together are stored together.

use fettle_store::task::Report;
use fettle_wire::{
    convert,
    node::{ReportRequest, ReportResponse, Verdict},
};
use futures::StreamExt as _;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Status, Streaming};

use super::{
    Answers,
    authentication::{Caller, Standing, authenticate},
    status, trace,
};
use crate::{observation::OpenStream, state::State};

/// Events stored in one transaction at most.
const TOGETHER: usize = 256;

/// Answers that wait for a slow host at most.
const ANSWERS: usize = 512;

pub(super) async fn report(
    state: &State,
    request: Request<Streaming<ReportRequest>>,
) -> Result<Answers<ReportResponse>, Status> {
    let caller = authenticate(state, &request).await?;
    let (sender, receiver) = mpsc::channel(ANSWERS);
    let state = state.clone();
    tokio::spawn(async move {
        let _open = OpenStream::begin(&state.metrics, "report");
        tokio::select! {
            () = state.shutdown.cancelled() => {}
            () = store_all(&state, &caller, request.into_inner(), &sender) => {}
        }
    });
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

/// Stores what can be stored, and refuses the others one by one: they are of many tasks. An error that is of none of them
/// comes last, and ends the stream.
async fn store_chunk(
    state: &State,
    caller: &Caller,
    chunk: Vec<Result<ReportRequest, Status>>,
) -> Vec<Result<ReportResponse, Status>> {
    let mut reports = Vec::with_capacity(chunk.len());
    let (mut answers, mut broken, mut spans) = (Vec::with_capacity(chunk.len() + 1), None, Vec::new());
    for message in chunk {
        let read = message.and_then(|message| Ok((read(state, caller, &message)?, message)));
        match read {
            Ok((Ok(report), message)) => {
                spans.extend(trace::begun("report", &message.traceparent));
                reports.push(report);
            }
            Ok((Err(refused), message)) => answers.push(Ok(refuse(message.task_id, message.sequence, &refused))),
            Err(status) => {
                broken = Some(status);
                break;
            }
        }
    }
    let places: Vec<_> = reports.iter().map(|report| (report.lease.task_id, report.sequence)).collect();
    if !reports.is_empty() {
        match state.store.apply_reports(reports, caller.context(state, String::new())).await {
            Ok(verdicts) => {
                for ((task_id, sequence), verdict) in places.into_iter().zip(verdicts) {
                    let task_id = task_id.to_string();
                    answers.push(match verdict.map_err(status::store) {
                        Ok(verdict) => {
                            let verdict = status::told(state, "report", verdict);
                            Ok(ReportResponse { task_id, sequence, verdict, reason: String::new() })
                        }
                        Err(status) if is_of_the_report(&status) => Ok(refuse(task_id, sequence, &status)),
                        Err(status) => Err(status),
                    });
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

/// Whether it would be the same the next time.
fn is_of_the_report(status: &Status) -> bool {
    matches!(status.code(), Code::InvalidArgument | Code::FailedPrecondition | Code::NotFound)
}

fn refuse(task_id: String, sequence: u64, status: &Status) -> ReportResponse {
    ReportResponse { task_id, sequence, verdict: Verdict::Refused as i32, reason: status.message().to_owned() }
}

/// What a message reports. The outer error is of the node, the inner one of this report.
fn read(state: &State, caller: &Caller, message: &ReportRequest) -> Result<Result<Report, Status>, Status> {
    caller.check(state, &message.node_id)?;
    let report = || {
        Ok(Report {
            lease: caller.lease(state, &message.node_id, &message.task_id, message.epoch)?,
            sequence: message.sequence,
            event: convert::event(&message.event)?,
        })
    };
    Ok(report())
}
