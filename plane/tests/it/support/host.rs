//! A host that says what it is told to say.

use std::{collections::HashMap, sync::Arc};

use fettle_identity::{
    Roots,
    signing::{Accepted, Signers},
};
use fettle_model::{
    assignment::PAYLOAD_TYPE,
    name::StepId,
    operation::StepOutcome,
    task::{LogLevel, LogLine, StepEvent, Task},
};
use fettle_plane::RunningPlane;
use fettle_wire::{
    convert,
    node::{
        AckRequest, CompleteRequest, ExtendRequest, ExtendResponse, FailRequest, HeartbeatRequest, Lease, PullFree,
        PullHello, PullRequest, PullResponse, RegisterRequest, RegisterResponse, ReportRequest, ReportResponse,
        Verdict, pull_request, pull_response,
    },
};
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::{
    member::{Client, Member},
    within,
};

/// What makes a stream one of a kind.
const CHALLENGE: [u8; 32] = [7; 32];

/// A host.
#[derive(Clone)]
pub(crate) struct FakeHost {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) member: Arc<Member>,
    client: Client,
}

/// What a host says when it registers.
pub(crate) fn registration(name: &str, slots: u32, node_id: &str) -> RegisterRequest {
    RegisterRequest {
        name: name.to_owned(),
        host_version: "0.1.0".to_owned(),
        capabilities: HashMap::from([("gpu.vendor".to_owned(), "nvidia".to_owned())]),
        labels: HashMap::from([("region".to_owned(), "eu".to_owned()), ("role".to_owned(), name.to_owned())]),
        slots,
        node_id: node_id.to_owned(),
    }
}

impl FakeHost {
    /// Joins with a join token.
    pub(crate) async fn join(plane: &RunningPlane, token: &str, name: &str, slots: u32) -> Result<Self, Status> {
        let member = Member::join(plane.node_address(), token, registration(name, slots, "")).await?;
        let (id, client) = (member.node_id.clone(), member.client(plane.node_address()));
        Ok(Self { id, name: name.to_owned(), member: Arc::new(member), client })
    }

    /// The same host with the certificate of another.
    pub(crate) fn with_certificate_of(&self, other: &Self) -> Self {
        Self { client: other.client.clone(), ..self.clone() }
    }

    /// The same host without a certificate.
    pub(crate) fn as_a_stranger(&self, plane: &RunningPlane) -> Self {
        Self { client: self.member.stranger(plane.node_address()), ..self.clone() }
    }

    /// The same host connected again, perhaps to another plane.
    pub(crate) fn reconnect(&self, plane: &RunningPlane) -> Self {
        Self { client: self.member.client(plane.node_address()), ..self.clone() }
    }

    /// Registers again.
    pub(crate) async fn register_again(&mut self, slots: u32) -> Result<RegisterResponse, Status> {
        let message = registration(&self.name, slots, &self.id);
        Ok(self.client.register(message).await?.into_inner())
    }

    /// Says that it is alive.
    pub(crate) async fn heartbeat(&mut self) -> Result<(), Status> {
        let message = HeartbeatRequest { node_id: self.id.clone(), clock_milliseconds: 0 };
        self.client.heartbeat(message).await.map(drop)
    }

    /// Opens its pull stream.
    pub(crate) async fn pull(&mut self, held: &[&str], free_slots: u32) -> Pull {
        self.pull_holding(held, free_slots, Vec::new()).await
    }

    /// The same for a node that keeps these artifacts.
    pub(crate) async fn pull_holding(&mut self, held: &[&str], free_slots: u32, held_artifacts: Vec<u64>) -> Pull {
        let (sender, receiver) = mpsc::channel(8);
        let hello = PullHello {
            node_id: self.id.clone(),
            held_task_ids: held.iter().map(ToString::to_string).collect(),
            free_slots,
            held_artifacts,
            challenge: CHALLENGE.to_vec(),
        };
        let hello = PullRequest { request: Some(pull_request::Request::Hello(hello)) };
        sender.send(hello).await.unwrap();
        let answers = self.client.pull(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        Pull { sender, answers, roots: self.member.authorities.clone(), signer: None, number: 0 }
    }

    /// Acknowledges a lease.
    pub(crate) async fn ack(&mut self, lease: &Lease) -> Result<(), Status> {
        let message = AckRequest { node_id: self.id.clone(), task_id: lease.task_id.clone(), epoch: lease.epoch };
        self.client.ack(message).await.map(drop)
    }

    /// Opens its report stream.
    pub(crate) async fn reports(&mut self) -> Reports {
        let (sender, receiver) = mpsc::channel(64);
        let answers = self.client.report(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        Reports { node_id: self.id.clone(), sender, answers, reason: String::new() }
    }

    /// Asks for more time.
    pub(crate) async fn extend(&mut self, lease: &Lease) -> Result<ExtendResponse, Status> {
        let message = ExtendRequest { node_id: self.id.clone(), task_id: lease.task_id.clone(), epoch: lease.epoch };
        Ok(self.client.extend(message).await?.into_inner())
    }

    /// Says that a task is over.
    pub(crate) async fn complete(&mut self, lease: &Lease, canceled: bool) -> Result<Verdict, Status> {
        let message =
            CompleteRequest { node_id: self.id.clone(), task_id: lease.task_id.clone(), epoch: lease.epoch, canceled };
        Ok(self.client.complete(message).await?.into_inner().verdict())
    }

    /// Says that a task failed.
    pub(crate) async fn fail(&mut self, lease: &Lease, failure: Value, step_id: &str) -> Result<Verdict, Status> {
        let message = FailRequest {
            node_id: self.id.clone(),
            task_id: lease.task_id.clone(),
            epoch: lease.epoch,
            failure: failure.to_string(),
            step_id: step_id.to_owned(),
        };
        Ok(self.client.fail(message).await?.into_inner().verdict())
    }

    /// Does a leased task of `test.noop@v1` from its acknowledgement to its end.
    pub(crate) async fn execute(&mut self, lease: &Lease) {
        self.ack(lease).await.unwrap();
        let mut reports = self.reports().await;
        let mut sequence = 0;
        for step in ["first", "second"] {
            for event in [started(step, 1), succeeded(step, serde_json::json!({ "of": step }))] {
                sequence += 1;
                assert_eq!(reports.say(lease, sequence, &event).await, Verdict::Accepted);
            }
        }
        assert_eq!(self.complete(lease, false).await.unwrap(), Verdict::Accepted);
    }
}

/// An open pull stream.
pub(crate) struct Pull {
    sender: mpsc::Sender<PullRequest>,
    answers: Streaming<PullResponse>,
    roots: Roots,
    signer: Option<Accepted>,
    number: u64,
}

impl Pull {
    /// The next answer. Each lease is signed for its place in this stream, by whom the plane named before.
    pub(crate) async fn next(&mut self) -> Result<pull_response::Response, Status> {
        loop {
            let answer = within(self.answers.message()).await?;
            match answer.expect("the stream is open").response.expect("an answer says something") {
                pull_response::Response::Signer(signer) => {
                    let accepted = Signers::of(&self.roots).accept(signer.certificate.into(), Timestamp::now());
                    self.signer = Some(accepted.expect("an authority of the node certified it"));
                }
                pull_response::Response::Lease(lease) => {
                    self.check(&lease);
                    return Ok(pull_response::Response::Lease(lease));
                }
                cancel @ pull_response::Response::Cancel(_) => return Ok(cancel),
            }
        }
    }

    fn check(&mut self, lease: &Lease) {
        let envelope = lease.envelope.as_ref().unwrap();
        let signer = self.signer.as_ref().expect("the plane says who signs before the first lease");
        let (signed, signature) = ((PAYLOAD_TYPE, envelope.payload.as_slice()), &envelope.signatures[0].sig);
        signer.verify(signed, signature, Timestamp::now()).unwrap();
        let assignment = convert::assignment(lease).unwrap();
        assert_eq!((assignment.epoch.0, &assignment.task.task_id), (lease.epoch, &lease.task_id));
        assert_eq!(assignment.challenge, "07".repeat(CHALLENGE.len()));
        assert!(assignment.number > self.number, "{} after {}", assignment.number, self.number);
        self.number = assignment.number;
    }

    /// The next answer, which is a lease.
    pub(crate) async fn lease(&mut self) -> Lease {
        match self.next().await.unwrap() {
            pull_response::Response::Lease(lease) => lease,
            other => panic!("{other:?}"),
        }
    }

    /// The next answer, which is a cancel: the task's id.
    pub(crate) async fn cancel(&mut self) -> String {
        match self.next().await.unwrap() {
            pull_response::Response::Cancel(cancel) => cancel.task_id,
            other => panic!("{other:?}"),
        }
    }

    /// Says how many more tasks the host takes.
    pub(crate) async fn free(&self, free_slots: u32) {
        let free = PullRequest { request: Some(pull_request::Request::Free(PullFree { free_slots })) };
        self.sender.send(free).await.unwrap();
    }
}

/// An open report stream.
pub(crate) struct Reports {
    node_id: String,
    sender: mpsc::Sender<ReportRequest>,
    answers: Streaming<ReportResponse>,
    /// Why the last event was refused, if it was.
    pub(crate) reason: String,
}

impl Reports {
    /// Reports one event and waits for the verdict.
    pub(crate) async fn say(&mut self, lease: &Lease, sequence: u64, event: &StepEvent) -> Verdict {
        self.try_say(lease, sequence, event).await.unwrap()
    }

    /// The same, when it may be refused.
    pub(crate) async fn try_say(&mut self, lease: &Lease, sequence: u64, event: &StepEvent) -> Result<Verdict, Status> {
        let report = ReportRequest {
            node_id: self.node_id.clone(),
            task_id: lease.task_id.clone(),
            epoch: lease.epoch,
            sequence,
            event: serde_json::to_string(event).unwrap(),
            ..ReportRequest::default()
        };
        self.sender.send(report).await.unwrap();
        let answer = within(self.answers.message()).await?.expect("the stream is open");
        assert_eq!((answer.task_id.as_str(), answer.sequence), (lease.task_id.as_str(), sequence));
        self.reason.clone_from(&answer.reason);
        Ok(answer.verdict())
    }
}

/// The task of a lease.
pub(crate) fn task(lease: &Lease) -> Task {
    convert::assignment(lease).unwrap().task
}

fn step(name: &str) -> StepId {
    name.parse().unwrap()
}

/// An attempt starts.
pub(crate) fn started(name: &str, attempt: u32) -> StepEvent {
    StepEvent::Started { step_id: step(name), attempt, at: 1_800_000_000_000 }
}

/// A step succeeds.
pub(crate) fn succeeded(name: &str, output: Value) -> StepEvent {
    StepEvent::Finished {
        step_id: step(name),
        attempt: 1,
        result: StepOutcome::Succeeded { output, changed: true },
        duration_ms: 7,
        at: 1_800_000_000_007,
    }
}

/// A step is at some percent.
pub(crate) fn progress(name: &str, percent: u8) -> StepEvent {
    StepEvent::Progress { step_id: step(name), percent, message: Some("on the way".to_owned()) }
}

/// A step writes lines.
pub(crate) fn logged(name: &str, lines: &[&str]) -> StepEvent {
    let line = |text: &&str| LogLine { at: 1_800_000_000_001, level: LogLevel::Info, text: (*text).to_owned() };
    StepEvent::Log { step_id: step(name), attempt: 1, lines: lines.iter().map(line).collect() }
}
