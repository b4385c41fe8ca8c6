//! The stream of leases.

use std::{sync::Arc, time::Duration};

use fettle_model::{
    assignment::Assignment,
    digest::Digest,
    task::{Epoch, Task, TaskOutcome},
};
use fettle_telemetry::{TraceParent, span};
use fettle_wire::node::{
    AckRequest, Lease, PullFree, PullHello, PullRequest, PullResponse, pull_request, pull_response,
};
use futures::{StreamExt as _, future::join_all};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::{
    Agent,
    admission::{is_banned, says_expired},
    assignment::{Refused, Stream},
    backoff, worker,
};
use crate::{
    executor::journal::{Accepted, JournalError},
    refusals::{About, Refusal},
};

/// Artifacts the plane is told of at most.
const MOST_ARTIFACTS: usize = 128;

/// How long the rest of a stream is waited for that is left for a newer connection.
const REST: Duration = Duration::from_secs(2);

/// Messages that are taken together at most.
const TOGETHER: usize = 64;

/// Holds the stream open until `stop`, whatever happens to the connection.
///
/// Ends before that only when the plane says that this node may not connect any more; answers what it said.
pub(super) async fn run(
    agent: &Arc<Agent>,
    node_id: &Arc<str>,
    tasks: &mut JoinSet<()>,
    stop: &CancellationToken,
) -> Option<Status> {
    let mut waits = backoff();
    loop {
        let ended = tokio::select! {
            ended = hold(agent, node_id, tasks, &mut waits) => ended,
            () = stop.cancelled() => return None,
        };
        match &ended {
            Ok(Left::Moved) => continue,
            Err(status) if is_banned(status) => return ended.err(),
            Err(status) if says_expired(status) => agent.expired.send_modify(|times| *times += 1),
            Ok(Left::Closed) | Err(_) => {}
        }
        agent.executor.metrics.stream_errors.inc();
        let reason = ended.map_or_else(|status| status.message().to_owned(), |_| "it closed the stream".to_owned());
        tracing::warn!(plane = agent.settings.plane, reason, "the stream of leases broke; connecting again");
        tokio::select! {
            () = tokio::time::sleep(waits.next().unwrap_or(Duration::from_secs(10))) => {}
            () = stop.cancelled() => return None,
        }
        agent.executor.metrics.stream_reconnects.inc();
    }
}

/// Why a stream is over that nothing broke.
enum Left {
    /// The plane closed it.
    Closed,
    /// There is a newer connection.
    Moved,
}

async fn hold(
    agent: &Arc<Agent>,
    node_id: &Arc<str>,
    tasks: &mut JoinSet<()>,
    waits: &mut backon::ExponentialBackoff,
) -> Result<Left, Status> {
    let mut moves = agent.moves.subscribe();
    moves.mark_unchanged();
    let (requests, outgoing) = mpsc::channel(16);
    let mut ended = agent.ended.subscribe();
    ended.mark_unchanged();
    // Not inside the message: the lock would be held until the message is made, which takes it again.
    let held_task_ids = agent.workers().keys().cloned().collect();
    let mut pressure = agent.executor.pressure.subscribe();
    let mut announced = agent.free_slots();
    let mut stream = Stream::begin().map_err(|error| Status::unavailable(error.to_string()))?;
    let hello = PullHello {
        node_id: node_id.to_string(),
        held_task_ids,
        free_slots: announced,
        held_artifacts: agent.executor.shelf.held(MOST_ARTIFACTS).await.iter().map(Digest::short).collect(),
        challenge: stream.challenge.clone(),
    };
    send(&requests, pull_request::Request::Hello(hello)).await?;
    let incoming = agent.client.clone().pull(ReceiverStream::new(outgoing)).await?.into_inner();
    let mut messages = incoming.ready_chunks(TOGETHER);
    *waits = backoff();
    loop {
        tokio::select! {
            message = messages.next() => {
                let Some(message) = message else { return Ok(Left::Closed) };
                if !take_all(agent, (node_id, &mut stream), tasks, message).await? {
                    // The plane counts the slot as taken.
                    announced = announce(agent, &requests, None).await?;
                }
            },
            _ = moves.changed() => {
                // The plane closes it when it hears no more, behind the leases that are on their way.
                drop(requests);
                let rest = async {
                    while let Some(message) = messages.next().await {
                        take_all(agent, (node_id, &mut stream), tasks, message).await?;
                    }
                    Ok::<_, Status>(())
                };
                // The next one begins with what this host holds, as after any break.
                let _ = tokio::time::timeout(REST, rest).await;
                return Ok(Left::Moved);
            }
            _ = ended.changed() => announced = announce(agent, &requests, None).await?,
            _ = pressure.changed() => announced = announce(agent, &requests, Some(announced)).await?,
            Some(_) = tasks.join_next() => {}
        }
    }
}

/// Says how many slots are free; says nothing when the plane was told the same.
async fn announce(agent: &Agent, requests: &mpsc::Sender<PullRequest>, told: Option<u32>) -> Result<u32, Status> {
    let free_slots = agent.free_slots();
    if told != Some(free_slots) {
        send(requests, pull_request::Request::Free(PullFree { free_slots })).await?;
    }
    Ok(free_slots)
}

async fn send(requests: &mpsc::Sender<PullRequest>, request: pull_request::Request) -> Result<(), Status> {
    requests.send(PullRequest { request: Some(request) }).await.map_err(|_| Status::unavailable("the connection ended"))
}

/// Does what the plane says; false when a lease was not taken. Leases that arrive together are journaled together, and
/// what follows on a lease finds its task.
async fn take_all(
    agent: &Arc<Agent>,
    (node_id, stream): (&str, &mut Stream),
    tasks: &mut JoinSet<()>,
    messages: Vec<Result<PullResponse, Status>>,
) -> Result<bool, Status> {
    let (mut leases, mut all_taken) = (Vec::new(), true);
    for message in messages {
        match message?.response {
            Some(pull_response::Response::Lease(lease)) => {
                agent.executor.metrics.leases_received.inc();
                match stream.open(&lease, node_id, agent.now()) {
                    Ok(assignment) => leases.push((lease, assignment)),
                    Err(refused) => {
                        agent.refuse(&refused, Some(&lease));
                        all_taken = false;
                    }
                }
            }
            Some(pull_response::Response::Signer(signer)) => {
                if let Err(refused) = stream.introduce(signer.certificate, &agent.signers(), agent.now()) {
                    agent.refuse(&refused, None);
                    // Perhaps the plane's authority was replaced, and this host hears of it in a moment.
                    return Err(Status::unauthenticated(refused.reason));
                }
            }
            Some(pull_response::Response::Cancel(cancel)) => {
                all_taken &= take_leases(agent, tasks, std::mem::take(&mut leases)).await;
                if let Some(worker) = agent.workers().get(&cancel.task_id) {
                    worker.signals.cancel.cancel();
                }
            }
            None => {}
        }
    }
    Ok(take_leases(agent, tasks, leases).await && all_taken)
}

async fn take_leases(agent: &Arc<Agent>, tasks: &mut JoinSet<()>, leases: Vec<(Lease, Assignment)>) -> bool {
    let mut all_taken = true;
    for taken in join_all(leases.into_iter().map(|(lease, assignment)| accept(agent, lease, assignment))).await {
        match taken {
            Ok(taken) => begin(agent, tasks, taken),
            Err(error) => {
                // Without an acknowledgement the plane leases it again when this lease has expired.
                tracing::error!(error = &error as &dyn std::error::Error, "a lease was not taken");
                all_taken = false;
            }
        }
    }
    all_taken
}

/// A lease that is in the journal.
struct Taken {
    task: Task,
    epoch: Epoch,
    lease: Duration,
    place: Option<TraceParent>,
    /// How its task ended, when it has.
    outcome: Option<TaskOutcome>,
}

async fn accept(agent: &Agent, lease: Lease, assignment: Assignment) -> Result<Taken, JournalError> {
    let Assignment { mut task, epoch, .. } = assignment;
    // Whatever else a plane says there is not kept.
    task.trace_parent = lease.traceparent.parse::<TraceParent>().ok().map(|place| place.to_string());
    task.org_id = (!lease.org_id.is_empty()).then_some(lease.org_id);
    let journal = &agent.executor.journal;
    let outcome = match journal.accept(&task, epoch).await? {
        Accepted::New => None,
        Accepted::Known => journal.outcome(&task.task_id).await?,
    };
    let lease = Duration::from_secs(lease.lease_seconds.max(1).into());
    Ok(Taken { place: worker::place(&task), task, epoch, lease, outcome })
}

fn begin(agent: &Arc<Agent>, tasks: &mut JoinSet<()>, taken: Taken) {
    let Taken { task, epoch, lease, place, outcome } = taken;
    let acknowledge = AckRequest { node_id: task.node_id.clone(), task_id: task.task_id.clone(), epoch: epoch.0 };
    let known = agent.workers().get(&task.task_id).map(|worker| worker.renew(epoch, place));
    if known.is_none() {
        agent.lost().remove(&task.task_id);
        worker::start(agent, task, (epoch, lease), outcome, tasks);
    }
    // The next lease does not wait for the answer. One that is lost makes the plane lease again, under a
    // newer epoch, what runs here already.
    let agent = Arc::clone(agent);
    let acknowledged = async move {
        let task_id = acknowledge.task_id.clone();
        match agent.client.clone().ack(acknowledge).await {
            Ok(_) => {
                agent.executor.metrics.leases_acknowledged.inc();
                if let Some(worker) = agent.workers().get(&task_id) {
                    worker.confirm();
                }
            }
            Err(status) => tracing::warn!(task_id, reason = status.message(), "an acknowledgement did not arrive"),
        }
    };
    tasks.spawn(span::within(tracing::Span::none(), place, acknowledged));
}

impl Agent {
    /// Measures what is measured only when somebody asks.
    pub(crate) fn measure(&self) {
        let metrics = &self.executor.metrics;
        metrics.active_leases.set(i64::try_from(self.workers().len()).unwrap_or(i64::MAX));
        metrics.available_slots.set(self.free_slots().into());
    }

    /// Does not do what the plane asks, and writes down why. Without an acknowledgement the plane leases the task again.
    fn refuse(&self, refused: &Refused, lease: Option<&Lease>) {
        let (code, reason) = (refused.code, refused.reason.as_str());
        let about = lease.map_or_else(About::default, |lease| About::lease(&lease.task_id, lease.envelope.as_ref()));
        self.executor.refuse(&Refusal { code, reason, about });
    }

    /// Tasks that this node could take now.
    fn free_slots(&self) -> u32 {
        // Whoever waits for a place would wait longer beside another task, which another node may have room for.
        if self.executor.pressure.is_felt() {
            return 0;
        }
        let busy = u32::try_from(self.workers().len()).unwrap_or(u32::MAX);
        self.settings.slots.saturating_sub(busy)
    }
}
