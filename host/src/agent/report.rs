//! Reports of one task: from the journal to the plane, in order, until the plane has stored each.

use std::time::Duration;

use fettle_model::task::{Epoch, TaskOutcome};
use fettle_telemetry::span;
use fettle_wire::{
    convert,
    node::{CompleteRequest, FailRequest, ReportRequest, ReportResponse, Verdict},
};
use tokio::sync::watch;
use tonic::{Code, Status};

use super::{
    backoff,
    worker::{Standing, Work},
};

/// Events on their way at once.
const IN_FLIGHT: usize = 64;
/// Events the journal keeps after the plane has stored them.
const KEPT: u64 = 256;

/// Why a stream of reports ended.
enum Ended {
    /// Everything is told, and the end of the task too.
    Told,
    /// The lease is held under another epoch.
    Stale,
    /// The connection broke.
    Broken(Status),
    /// There is a newer connection.
    Moved,
    /// The plane refuses an event, and would again.
    Refused(String),
    /// The journal failed.
    Journal(crate::executor::journal::JournalError),
}

impl From<Status> for Ended {
    fn from(status: Status) -> Self {
        Self::Broken(status)
    }
}

/// Reports until the plane has accepted the end of the task, or the lease is lost.
pub(super) async fn run(work: &Work<'_>, mut outcome: watch::Receiver<Option<TaskOutcome>>) {
    let mut waits = backoff();
    let mut epochs = work.epoch.clone();
    loop {
        let epoch = *epochs.borrow_and_update();
        match stream(work, epoch, &mut outcome).await {
            Ended::Told => return work.forget().await,
            Ended::Moved => {}
            Ended::Stale if *epochs.borrow() > epoch => {}
            // It may only have expired while nobody could say so.
            Ended::Stale => match work.standing(epoch).await {
                Standing::Held(_) => {}
                Standing::Lost if *epochs.borrow() == epoch => return work.put_down(),
                Standing::Ended => return work.forget().await,
                Standing::Lost | Standing::Unknown => {
                    tokio::time::sleep(waits.next().unwrap_or(Duration::from_secs(10))).await;
                }
            },
            Ended::Journal(error) => {
                tracing::error!(
                    task_id = work.task.task_id,
                    error = &error as &dyn std::error::Error,
                    "reports cannot be read"
                );
                work.signals.put_down.cancel();
                return;
            }
            Ended::Refused(reason) => return put_down(work, &reason),
            Ended::Broken(status) if is_final(&status) => return put_down(work, status.message()),
            Ended::Broken(status) => {
                tracing::debug!(task_id = work.task.task_id, reason = status.message(), "reports wait for the plane");
                tokio::time::sleep(waits.next().unwrap_or(Duration::from_secs(10))).await;
            }
        }
    }
}

/// The same would be refused again: a plane of another version, or a bug.
fn put_down(work: &Work<'_>, reason: &str) {
    let task_id = &work.task.task_id;
    tracing::error!(task_id, reason, "the plane refuses the reports; the task is put down");
    work.signals.put_down.cancel();
}

fn is_final(status: &Status) -> bool {
    matches!(status.code(), Code::InvalidArgument | Code::FailedPrecondition | Code::PermissionDenied | Code::NotFound)
}

async fn stream(work: &Work<'_>, epoch: Epoch, outcome: &mut watch::Receiver<Option<TaskOutcome>>) -> Ended {
    match try_stream(work, epoch, outcome).await {
        Ok(ended) | Err(ended) => ended,
    }
}

/// Sends what the journal holds, takes acknowledgements, and tells the end when all is stored.
async fn try_stream(
    work: &Work<'_>,
    epoch: Epoch,
    outcome: &mut watch::Receiver<Option<TaskOutcome>>,
) -> Result<Ended, Ended> {
    let journal = &work.agent.executor.journal;
    let mut changes = journal.changes();
    let mut line = work.agent.reports.join(&work.task.task_id).await?;
    let moved = line.moved();
    let mut place = span::current().map(|place| place.to_string()).unwrap_or_default();
    let (mut sent, mut stored, mut forgotten) = (0, 0, 0);
    let mut moving = false;
    loop {
        if moving && sent == stored {
            return Ok(Ended::Moved);
        }
        let room = IN_FLIGHT - usize::try_from(sent - stored).unwrap_or(IN_FLIGHT).min(IN_FLIGHT);
        let room = if moving { 0 } else { room };
        let ended = outcome.borrow_and_update().clone();
        changes.mark_unchanged();
        let events = journal
            .unreported(&work.task.task_id, sent.max(stored), u32::try_from(room).unwrap_or_default())
            .await
            .map_err(Ended::Journal)?;
        if let Some(ended) = ended.filter(|_| events.is_empty() && sent == stored) {
            return tell_end(work, epoch, &ended).await;
        }
        for (sequence, event) in events {
            let request = ReportRequest {
                node_id: work.task.node_id.clone(),
                task_id: work.task.task_id.clone(),
                epoch: epoch.0,
                sequence,
                event,
                traceparent: std::mem::take(&mut place),
            };
            line.send(request).await?;
            if sent == 0 {
                // The first one may follow on reports that were acknowledged and forgotten.
                stored = sequence - 1;
            }
            sent = sequence;
        }
        tokio::select! {
            response = line.answer() => {
                let response = response?;
                if is_awaited(response.sequence, stored, sent) {
                    stored = accepted(&response, stored)?;
                }
            }
            _ = changes.changed(), if sent == stored || sent - stored < IN_FLIGHT as u64 => {}
            _ = outcome.changed() => {}
            // What is on its way is waited for first.
            () = moved.cancelled(), if !moving => moving = true,
        }
        if stored >= forgotten + KEPT {
            journal.acknowledge(&work.task.task_id, stored).await.map_err(Ended::Journal)?;
            forgotten = stored;
        }
    }
}

/// Whether an answer is to an event that is on its way. What the task sent before it joined the stream again may be
/// answered still, and was not sent yet this time.
fn is_awaited(sequence: u64, stored: u64, sent: u64) -> bool {
    stored < sequence && sequence <= sent
}

fn accepted(response: &ReportResponse, stored: u64) -> Result<u64, Ended> {
    match response.verdict() {
        Verdict::Accepted => Ok(stored.max(response.sequence)),
        Verdict::Stale | Verdict::Ended => Err(Ended::Stale),
        Verdict::Refused => Err(Ended::Refused(response.reason.clone())),
        Verdict::Unspecified => Err(Status::internal("the plane answered no verdict").into()),
    }
}

async fn tell_end(work: &Work<'_>, epoch: Epoch, outcome: &TaskOutcome) -> Result<Ended, Ended> {
    let mut client = work.agent.client.clone();
    let (node_id, task_id) = (work.task.node_id.clone(), work.task.task_id.clone());
    let complete =
        |canceled| CompleteRequest { node_id: node_id.clone(), task_id: task_id.clone(), epoch: epoch.0, canceled };
    let verdict = match outcome {
        TaskOutcome::Succeeded => client.complete(complete(false)).await?.into_inner().verdict(),
        TaskOutcome::Canceled => client.complete(complete(true)).await?.into_inner().verdict(),
        TaskOutcome::Failed { failure, step_id } => {
            let step_id = step_id.as_ref().map(ToString::to_string).unwrap_or_default();
            let request =
                FailRequest { node_id, task_id, epoch: epoch.0, failure: convert::to_text(failure)?, step_id };
            client.fail(request).await?.into_inner().verdict()
        }
    };
    match verdict {
        Verdict::Accepted => Ok(Ended::Told),
        Verdict::Stale | Verdict::Ended => Ok(Ended::Stale),
        Verdict::Refused | Verdict::Unspecified => Err(Status::internal("the plane answered no verdict").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::is_awaited;

    #[test]
    fn only_what_is_on_its_way_is_answered() {
        for (sequence, stored, sent, awaited) in [
            (1, 0, 1, true),
            (6, 4, 7, true),
            (7, 4, 7, true),
            (4, 4, 7, false),
            (8, 4, 7, false),
            // Joined again, and nothing sent yet.
            (6, 0, 0, false),
            (5, 4, 4, false),
        ] {
            assert_eq!(is_awaited(sequence, stored, sent), awaited, "{sequence} of {stored}..={sent}");
        }
    }
}
