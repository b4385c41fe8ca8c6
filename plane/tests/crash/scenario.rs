//! The scenario: register, join, submit, lease, report, complete, cancel. Every call is repeated until
//! it is answered, as a real client and a real host do.

use std::time::Duration;

use fettle_model::{name::StepId, operation::StepOutcome, task::StepEvent};
use fettle_plane::administration::{self, Access, Administration, ProjectRole};
use fettle_wire::{
    convert,
    node::{
        AckRequest, CompleteRequest, HeartbeatRequest, Lease, PullHello, PullRequest, ReportRequest, Verdict,
        pull_request, pull_response,
    },
};
use serde_json::{Value, json};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use crate::{
    host::{registration, started, succeeded},
    member::{Client, Member},
    process::{Directory, PlaneProcess},
    shelf::Shelf,
    within,
};

/// The longest that one call is repeated.
const PATIENCE: Duration = Duration::from_secs(20);

const OPERATIONS: &str = "/api/v1/projects/demo/operations";

/// Runs the scenario with a plane that dies at the point; answers how often it died.
pub(crate) async fn run(directory: &Directory, crash_at: Option<&str>) -> u32 {
    let (mut story, join) = Story::begin(directory, crash_at).await;
    story.tell(&join).await;
    story.plane.address();
    story.plane.deaths
}

/// The same for a receiver of webhooks at `url`: three operations are asked for, and `told` waits for what it hears and
/// answers the id of the last. Ends when the plane remembers it too.
pub(crate) async fn run_with_webhook(
    directory: &Directory,
    crash_at: Option<&str>,
    url: &str,
    told: impl Future<Output = String>,
) -> u32 {
    let (mut story, join) = Story::begin(directory, crash_at).await;
    story.call(true, "POST", "/api/v1/admin/operation-definitions", Some(Shelf::default().publish_noop())).await;
    story.join(&join).await;
    let webhooks = "/api/v1/projects/demo/webhooks";
    story.call(false, "POST", webhooks, Some(json!({ "url": url }))).await;
    for key in ["first", "second", "third"] {
        story.submit(key).await;
    }
    let mut told = std::pin::pin!(within(told));
    // Whoever delivers may be the one that dies.
    let last = loop {
        tokio::select! {
            last = &mut told => break last,
            () = tokio::time::sleep(Duration::from_millis(50)) => drop(story.plane.address()),
        }
    };
    let remembered = async {
        while story.call(false, "GET", webhooks, None).await["items"][0]["delivered_to"] != last {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    within(remembered).await;
    story.plane.deaths
}

async fn tokens(directory: &Directory) -> (String, String, String) {
    let administration = Administration::open(&directory.data()).await.unwrap();
    let project = administration::project("demo".parse().unwrap(), None).unwrap();
    let access = Access::Project { project, role: ProjectRole::Admin };
    let (_, admin) = administration.create_token("admin", Access::PlatformAdmin, None).await.unwrap();
    let (_, user) = administration.create_token("user", access, None).await.unwrap();
    let join = administration.create_join_token(1, None, Duration::from_secs(600)).await.unwrap();
    administration.close().await;
    (admin.reveal().to_owned(), user.reveal().to_owned(), join.reveal().to_owned())
}

struct Story<'a> {
    plane: PlaneProcess<'a>,
    http: reqwest::Client,
    admin: String,
    user: String,
    node: Option<Member>,
}

impl<'a> Story<'a> {
    /// Starts a plane with its tokens; answers a join token too.
    async fn begin(directory: &'a Directory, crash_at: Option<&str>) -> (Self, String) {
        let (admin, user, join) = tokens(directory).await;
        let plane = PlaneProcess::start(directory, crash_at);
        let http = reqwest::Client::builder().timeout(Duration::from_secs(5)).pool_max_idle_per_host(0).build();
        (Self { plane, http: http.unwrap(), admin, user, node: None }, join)
    }
}

impl Story<'_> {
    async fn tell(&mut self, join: &str) {
        let body = Shelf::default().publish_noop();
        self.call(true, "POST", "/api/v1/admin/operation-definitions", Some(body)).await;
        self.join(join).await;
        self.heartbeat().await;
        let operation = self.submit("first").await;
        let lease = self.lease(&[]).await;
        self.execute(lease).await;
        self.check_succeeded(&operation).await;

        let canceled = self.submit("second").await;
        let lease = self.lease(&[]).await;
        self.acknowledge(&lease).await;
        self.call(false, "POST", &format!("{OPERATIONS}/{canceled}/cancel"), None).await;
        self.complete(&lease, true).await;
        let shown = self.call(false, "GET", &format!("{OPERATIONS}/{canceled}"), None).await;
        assert_eq!(shown["status"], "canceled", "{shown}");
        let all = self.call(false, "GET", OPERATIONS, None).await;
        assert_eq!(all["items"].as_array().unwrap().len(), 2, "a repeated request made no other operation: {all}");
    }

    /// Calls REST until it answers; a success is a success.
    async fn call(&mut self, admin: bool, method: &str, path: &str, body: Option<Value>) -> Value {
        let begun = std::time::Instant::now();
        while begun.elapsed() < PATIENCE {
            let url = format!("http://{}{path}", self.plane.address().http);
            let token = if admin { &self.admin } else { &self.user };
            let mut request = self.http.request(method.parse().unwrap(), url).bearer_auth(token);
            if let Some(body) = &body {
                request = request.json(body);
            }
            let Ok(response) = request.send().await else { continue };
            let status = response.status();
            let Ok(answer) = response.json::<Value>().await else { continue };
            assert!(status.is_success(), "{method} {path}: {answer}");
            return answer;
        }
        panic!("{method} {path} was never answered");
    }

    async fn submit(&mut self, key: &str) -> String {
        let body = json!({
            "operation_type": "test.noop", "version": "v1", "inputs": { "name": "x", "count": 1 },
            "target_selector": { "node": "node-a" }, "idempotency_key": key,
        });
        let answer = self.call(false, "POST", OPERATIONS, Some(body)).await;
        answer["operation_id"].as_str().unwrap().to_owned()
    }

    /// The node, and a new connection of it.
    fn connect(&mut self) -> (String, Client) {
        let address = self.plane.address().nodes;
        let node = self.node.as_ref().unwrap();
        (node.node_id.clone(), node.client(address))
    }

    async fn join(&mut self, token: &str) {
        let begun = std::time::Instant::now();
        while begun.elapsed() < PATIENCE {
            match Member::join(self.plane.address().nodes, token, registration("node-a", 1, "")).await {
                Ok(member) => {
                    self.node = Some(member);
                    return;
                }
                Err(status) => assert!(is_outage(&status), "{status}"),
            }
        }
        panic!("the node never joined");
    }

    async fn heartbeat(&mut self) {
        loop {
            let (node_id, mut client) = self.connect();
            match client.heartbeat(HeartbeatRequest { node_id, clock_milliseconds: 0 }).await {
                Ok(_) => return,
                Err(status) => assert!(is_outage(&status), "{status}"),
            }
        }
    }

    /// Opens a pull stream, and again, until a lease comes.
    async fn lease(&mut self, held: &[String]) -> Lease {
        let begun = std::time::Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Some(Ok(lease)) = within(self.try_lease(held)).await {
                return lease;
            }
        }
        panic!("no lease came");
    }

    async fn try_lease(&mut self, held: &[String]) -> Option<Result<Lease, Status>> {
        let (node_id, mut client) = self.connect();
        let hello = PullHello {
            node_id,
            held_task_ids: held.to_vec(),
            free_slots: 1,
            challenge: vec![7; 32],
            ..PullHello::default()
        };
        let hello = PullRequest { request: Some(pull_request::Request::Hello(hello)) };
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        sender.send(hello).await.ok()?;
        let answer = client.pull(ReceiverStream::new(receiver)).await;
        let mut answers: Streaming<_> = answer.ok()?.into_inner();
        loop {
            match answers.message().await {
                Ok(Some(message)) => match message.response? {
                    pull_response::Response::Lease(lease) => return Some(Ok(lease)),
                    pull_response::Response::Signer(_) => {}
                    pull_response::Response::Cancel(_) => return None,
                },
                Ok(None) => return None,
                Err(status) => return Some(Err(status)),
            }
        }
    }

    /// Acknowledges; false when the lease is over.
    async fn try_acknowledge(&mut self, lease: &Lease) -> bool {
        loop {
            let (node_id, mut client) = self.connect();
            let message = AckRequest { node_id, task_id: lease.task_id.clone(), epoch: lease.epoch };
            match client.ack(message).await {
                Ok(_) => return true,
                Err(status) if status.code() == Code::FailedPrecondition => return false,
                Err(status) => assert!(is_outage(&status), "{status}"),
            }
        }
    }

    async fn acknowledge(&mut self, lease: &Lease) {
        assert!(self.try_acknowledge(lease).await, "a lease outlives the restart of its plane");
    }

    async fn execute(&mut self, lease: Lease) {
        let task = convert::assignment(&lease).unwrap().task;
        assert!(task.accepted.is_empty());
        self.acknowledge(&lease).await;
        let events = ["first", "second"]
            .into_iter()
            .flat_map(|step| [started(step, 1), succeeded(step, json!({ "of": step })), result_again(step)]);
        for (sequence, event) in (1..).zip(events) {
            self.report(&lease, sequence, &event).await;
        }
        self.complete(&lease, false).await;
    }

    async fn report(&mut self, lease: &Lease, sequence: u64, event: &StepEvent) {
        let begun = std::time::Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Some(verdict) = self.try_report(lease, sequence, event).await {
                assert_eq!(verdict, Verdict::Accepted, "event {sequence}");
                return;
            }
        }
        panic!("event {sequence} was never accepted");
    }

    async fn try_report(&mut self, lease: &Lease, sequence: u64, event: &StepEvent) -> Option<Verdict> {
        let (node_id, mut client) = self.connect();
        let report = ReportRequest {
            node_id,
            task_id: lease.task_id.clone(),
            epoch: lease.epoch,
            sequence,
            event: serde_json::to_string(event).unwrap(),
            ..ReportRequest::default()
        };
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        sender.send(report).await.ok()?;
        let mut answers = client.report(ReceiverStream::new(receiver)).await.ok()?.into_inner();
        let answer = within(answers.message()).await.ok()??;
        Some(answer.verdict())
    }

    async fn complete(&mut self, lease: &Lease, canceled: bool) {
        loop {
            let (node_id, mut client) = self.connect();
            let message = CompleteRequest { node_id, task_id: lease.task_id.clone(), epoch: lease.epoch, canceled };
            match client.complete(message).await {
                Ok(answer) => return assert_eq!(answer.into_inner().verdict(), Verdict::Accepted),
                Err(status) => assert!(is_outage(&status), "{status}"),
            }
        }
    }

    /// Each result was accepted once, the first one; the story was told once and in order.
    async fn check_succeeded(&mut self, operation: &str) {
        let shown = self.call(false, "GET", &format!("{OPERATIONS}/{operation}"), None).await;
        assert_eq!(shown["status"], "succeeded", "{shown}");
        let outputs: Vec<_> = shown["steps"].as_array().unwrap().iter().map(|step| &step["output"]["of"]).collect();
        assert_eq!(outputs, ["first", "second"]);
        let events = self.call(false, "GET", &format!("{OPERATIONS}/{operation}/events"), None).await;
        let told: Vec<_> = events["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| {
                let payload = &item["payload"];
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                (text(&item["event"]), text(&payload["current_step_name"]), text(&payload["step_status"]))
            })
            .collect();
        let progress = |step: &str, status: &str| ("operation.progress".to_owned(), step.to_owned(), status.to_owned());
        let of = |kind: &str, status: &str| (kind.to_owned(), String::new(), status.to_owned());
        assert_eq!(
            told,
            [
                of("operation.requested", ""),
                progress("first", "running"),
                progress("first", "succeeded"),
                progress("second", "running"),
                progress("second", "succeeded"),
                of("operation.completed", ""),
            ]
        );
    }
}

/// A second result of a step, which must change nothing.
fn result_again(step: &str) -> StepEvent {
    let step_id: StepId = step.parse().unwrap();
    let result = StepOutcome::Succeeded { output: json!({ "of": "a second result" }), changed: true };
    StepEvent::Finished { step_id, attempt: 2, result, duration_ms: 1, at: 1_800_000_000_009 }
}

/// The connection broke: try again.
fn is_outage(status: &Status) -> bool {
    matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Cancelled | Code::Internal)
}
