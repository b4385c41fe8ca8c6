//! Pull: leases go to the node while it has free slots; cancels go when they come.

use std::{collections::HashSet, sync::Arc};

use fettle_store::{
    context::Context,
    id::TaskId,
    task::{Lease, Wanted},
};
use fettle_telemetry::{SPANS, span};
use fettle_wire::node::{
    Cancel, Lease as LeaseMessage, PullHello, PullRequest, PullResponse, pull_request, pull_response,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Status, Streaming};

use super::{
    Answers,
    authentication::{Caller, Standing, authenticate, correlation_id},
    refusals,
    seal::Seal,
    status,
};
use crate::{
    dispatch::{NodeWake, Screen},
    observation::OpenStream,
    policy::rego::Entry,
    state::State,
};

/// Messages that wait for a slow host at most.
const WAITING: usize = 32;

/// Tasks that a host can say it holds.
const HELD: usize = 10_000;

type Answer = Result<PullResponse, Status>;

pub(super) async fn pull(
    state: &State,
    request: Request<Streaming<PullRequest>>,
) -> Result<Answers<PullResponse>, Status> {
    let caller = authenticate(state, &request).await?;
    let correlation_id = correlation_id(state, request.metadata());
    let (sender, receiver) = mpsc::channel(WAITING);
    let session = Session {
        _open: OpenStream::begin(&state.metrics, "pull"),
        token: state.wakeups.begin_session(caller.id, &state.shutdown),
        wake: state.wakeups.node(caller.id),
        state: state.clone(),
        screen: Screen::new(caller.id),
        caller,
        correlation_id,
        answers: sender,
        free: 0,
        canceled: HashSet::new(),
    };
    tokio::spawn(session.run(request.into_inner()));
    Ok(Box::pin(ReceiverStream::new(receiver)))
}

/// The stream of one node.
struct Session {
    _open: OpenStream,
    state: State,
    caller: Caller,
    correlation_id: String,
    answers: mpsc::Sender<Answer>,
    wake: Arc<NodeWake>,
    token: CancellationToken,
    screen: Screen,
    free: u32,
    /// Tasks whose cancel was sent on this stream.
    canceled: HashSet<TaskId>,
}

/// The stream is over.
struct Over;

impl Session {
    async fn run(mut self, mut requests: Streaming<PullRequest>) {
        let ended = self.serve(&mut requests).await;
        if let Err(Some(status)) = ended {
            let _ = self.answers.send(Err(status)).await;
        }
        tracing::debug!(node = %self.caller.id, "a pull stream ended");
    }

    /// Ends with `None` when the other side is gone, and with a status when it should be told.
    async fn serve(&mut self, requests: &mut Streaming<PullRequest>) -> Result<(), Option<Status>> {
        let hello = tokio::select! {
            () = self.token.cancelled() => return Err(Some(gone())),
            hello = first(requests) => hello.map_err(Some)?,
        };
        // After this stream can be ended by a revocation, so that none is missed in between.
        self.stands().await?;
        self.resume(&hello).await?;
        let mut seal = Seal::new(&hello.challenge).map_err(Some)?;
        self.free = hello.free_slots;
        // What was requested before this stream is among what is looked up now.
        self.wake.take_cancels();
        self.send_cancels().await?;
        let left = self.caller.expires_at().duration_since(self.state.clock.now());
        let expiry = tokio::time::sleep(left.try_into().unwrap_or_default());
        tokio::pin!(expiry);
        loop {
            self.send_leases(&mut seal).await?;
            tokio::select! {
                // First, so that a stream which another one replaced takes no lease and no wake-up any more.
                biased;
                () = self.token.cancelled() => return Err(Some(gone())),
                () = self.wake.wait() => {}
                message = requests.message() => match message {
                    Ok(Some(PullRequest { request: Some(pull_request::Request::Free(free)) })) => {
                        self.free = free.free_slots;
                    }
                    Ok(Some(_)) => return Err(Some(Status::invalid_argument("after the first message send `free`"))),
                    Ok(None) | Err(_) => return Err(None),
                },
                () = self.screen.again() => {}
                () = &mut expiry => return Err(Some(expired())),
            }
            if self.wake.take_cancels() {
                self.stands().await?;
                self.send_cancels().await?;
            }
        }
    }

    /// As the database says it now.
    async fn stands(&self) -> Result<(), Option<Status>> {
        match self.caller.looked_up(&self.state).await.map_err(Some)? {
            Standing::Good => Ok(()),
            Standing::Outdated | Standing::Revoked | Standing::Unknown => Err(Some(gone())),
        }
    }

    async fn resume(&mut self, hello: &PullHello) -> Result<(), Option<Status>> {
        self.caller.check(&self.state, &hello.node_id).map_err(Some)?;
        if hello.held_task_ids.len() > HELD {
            return Err(Some(Status::invalid_argument(format!("a node holds at most {HELD} tasks"))));
        }
        self.state.holdings.said(self.caller.id, &hello.held_artifacts);
        let held = hello.held_task_ids.iter().map(|id| id.parse::<TaskId>()).collect::<Result<Vec<_>, _>>();
        let held = held.map_err(|error| Some(Status::invalid_argument(error.to_string())))?;
        let deadline = self.state.after(self.state.config.lease_duration);
        let context = self.caller.context(&self.state, self.correlation_id.clone());
        let resumed = self.state.store.resume_leases(self.caller.id, held, deadline, context).await;
        for task_id in resumed.map_err(|error| Some(status::store(error)))?.dropped {
            self.send(cancel(task_id)).await?;
        }
        Ok(())
    }

    async fn send_leases(&mut self, seal: &mut Seal) -> Result<(), Option<Status>> {
        if self.free == 0 || self.token.is_cancelled() {
            self.screen.rest();
            return Ok(());
        }
        let context = self.caller.context(&self.state, self.correlation_id.clone());
        if self.state.rego.has(Entry::Dispatch) {
            return self.send_screened(seal, &context).await;
        }
        let acknowledge_by = self.state.after(self.state.config.acknowledge_timeout);
        let wanted = Wanted::First(self.free);
        let leases = self.state.store.lease_tasks(self.caller.id, wanted, acknowledge_by, context).await;
        for lease in leases.map_err(|error| Some(status::store(error)))? {
            self.give(seal, lease).await?;
        }
        Ok(())
    }

    /// Each lease as soon as the organisation's own rules let it go.
    async fn send_screened(&mut self, seal: &mut Seal, context: &Context) -> Result<(), Option<Status>> {
        let failed = |error| Some(status::store(error));
        let mut pass = self.screen.begin(&self.state).await.map_err(failed)?;
        while self.free > 0 {
            let next = self.screen.next(&self.state, &mut pass, &self.token, context).await;
            let Some(lease) = next.map_err(failed)? else { break };
            self.give(seal, lease).await?;
        }
        Ok(())
    }

    async fn give(&mut self, seal: &mut Seal, lease: Lease) -> Result<(), Option<Status>> {
        self.free = self.free.saturating_sub(1);
        if let Some(signer) = seal.introduction(&self.state).map_err(Some)? {
            self.send(pull_response::Response::Signer(signer)).await?;
        }
        let message = self.lease(seal, lease).map_err(Some)?;
        self.send(message).await
    }

    fn lease(&self, seal: &mut Seal, mut lease: Lease) -> Result<pull_response::Response, Status> {
        // Beside the task: a host that does not know them yet takes the task all the same.
        let (sent, org_id) = (lease.task.trace_parent.take(), lease.task.org_id.take());
        let span = tracing::debug_span!(
            target: SPANS,
            "lease",
            task_id = %lease.task_id,
            epoch = lease.epoch.0,
            node_id = %self.caller.id,
        );
        let place = sent.and_then(|text| text.parse().ok()).and_then(|sent| span::begin(&span, Some(sent)));
        Ok(pull_response::Response::Lease(LeaseMessage {
            task_id: lease.task_id.to_string(),
            epoch: lease.epoch.0,
            lease_seconds: status::seconds(self.state.config.lease_duration),
            envelope: Some(seal.seal(&self.state, lease.task, lease.epoch)?),
            traceparent: place.map(|place| place.to_string()).unwrap_or_default(),
            org_id: org_id.unwrap_or_default(),
        }))
    }

    async fn send_cancels(&mut self) -> Result<(), Option<Status>> {
        let requested = self.state.store.cancel_requests(self.caller.id).await;
        for task_id in requested.map_err(|error| Some(status::store(error)))? {
            if self.canceled.insert(task_id) {
                self.send(cancel(task_id)).await?;
            }
        }
        Ok(())
    }

    /// Fails when the host is gone, or when it reads nothing until the session ends.
    async fn send(&self, response: pull_response::Response) -> Result<(), Option<Status>> {
        let answer = Ok(PullResponse { response: Some(response) });
        let sent = tokio::select! {
            () = self.token.cancelled() => Err(Over),
            sent = self.answers.send(answer) => sent.map_err(|_| Over),
        };
        sent.map_err(|Over| None)
    }
}

fn cancel(task_id: TaskId) -> pull_response::Response {
    pull_response::Response::Cancel(Cancel { task_id: task_id.to_string() })
}

/// What a host is told whose stream another one replaces, or whose plane stops.
fn gone() -> Status {
    Status::unavailable(
        "this stream is over: the plane stops, the node opened a newer one, or it was revoked; connect again",
    )
}

/// What a host is told that goes on with a connection whose certificate is over.
fn expired() -> Status {
    let status =
        Status::unauthenticated("the certificate that this stream began with has expired; connect with a newer one");
    refusals::with_code(status, "node.certificate_expired")
}

async fn first(requests: &mut Streaming<PullRequest>) -> Result<PullHello, Status> {
    match requests.message().await? {
        Some(PullRequest { request: Some(pull_request::Request::Hello(hello)) }) => Ok(hello),
        Some(_) | None => Err(Status::invalid_argument("the first message of a pull stream is `hello`")),
    }
}
