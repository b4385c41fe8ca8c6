//! Steps whose end nobody saw: what their probes prove counts, and where they prove nothing, a person decides. Canceling
//! says what became of the step in flight.

use std::time::Duration;

use fettle_tests::{
    Fleet, Supply, eventually,
    fleet::{PATIENCE, step},
};
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::{PROGRAMS, interruptions::children};

/// As `crate::POLICY`, for files that are read too.
pub(crate) const POLICY: &str = r"
revision: 1
roots: { models: models }
profiles:
  - { id: sleep, command: /usr/bin/sleep, arg_schema: [{ name: seconds, value: { integer: { minimum: 0, maximum: 1000 } } }], timeout_seconds: 1000 }
ceiling:
  exec: { profiles: ['*'] }
  files: { read: [models], write: [models] }
";

/// Draws a ticket, which may happen once, and then does nothing.
pub(crate) fn ticket(name: &str, with: &str, rest: &str) -> String {
    format!(
        r"
operation_type: test.{name}
version: v1
backend_type: node_agent
input_schema: {{ type: object }}
steps:
  - id: draw
    uses: testing.ticket@v1
    with: {{ file: models/tickets, {with} }}
    grants: {{ files: {{ read: [models], write: [models] }}, exec: {{ profiles: [sleep] }} }}
    {rest}
  - {{ id: after, uses: noop@v1, needs: [draw] }}
"
    )
}

const LONG_AFTER: &str = "after: { profile: sleep, seconds: 900 }";

struct Office {
    _supply: Supply,
    fleet: Fleet,
}

impl Office {
    /// A fleet that knows this definition.
    async fn open(definition: &str) -> Self {
        let supply = Supply::with(&["ticket", "noop"]).await;
        let mut fleet = Fleet::prepare(PROGRAMS, &supply.trust).await;
        fleet.host_arguments = ["--cancel-grace", "2s"].map(str::to_owned).to_vec();
        fleet.planes.start().await;
        fleet.start_host();
        fleet.node_online().await;
        fleet.register(&supply.publish(definition, POLICY).await).await;
        Self { _supply: supply, fleet }
    }

    fn tickets(&self) -> usize {
        std::fs::read_to_string(self.fleet.node_file("models/tickets")).unwrap_or_default().lines().count()
    }

    /// From now on the probe can tell nothing.
    fn hide(&self) {
        std::fs::create_dir_all(self.fleet.node_file("models")).unwrap();
        std::fs::write(self.fleet.node_file("models/tickets.hidden"), "").unwrap();
    }

    fn show(&self) {
        std::fs::remove_file(self.fleet.node_file("models/tickets.hidden")).unwrap();
    }

    /// Submits, and waits until the step's command runs with so many tickets drawn.
    async fn in_flight(&self, name: &str, tickets: usize) -> String {
        let id = self.fleet.submit(&format!("test.{name}"), &json!({})).await;
        eventually("the command to run", PATIENCE, || async {
            (children(&self.fleet) > 0 && self.tickets() == tickets).then_some(())
        })
        .await;
        id
    }

    async fn restart_host(&mut self) {
        self.fleet.host.as_mut().unwrap().kill();
        self.fleet.start_host();
    }

    async fn act(&self, id: &str, what: &str, body: Value) -> (StatusCode, Value) {
        self.fleet.act(id, what, &body).await
    }

    /// An operation whose step was killed with its host, and whose probe can tell nothing.
    async fn in_question(name: &str, with: &str, tickets: usize) -> (Self, String) {
        let mut office = Self::open(&ticket(name, with, "")).await;
        office.hide();
        let id = office.in_flight(name, tickets).await;
        office.restart_host().await;
        let operation = office.fleet.ended(&id).await;
        assert_eq!(operation["failure"]["code"], "step.interrupted", "{operation:#}");
        (office, id)
    }
}

/// Cause and finding.
fn settled(operation: &Value) -> (&str, &str) {
    let settlement = &step(operation, "draw")["settlement"];
    let text = |name: &str| settlement[name].as_str().unwrap_or_default();
    (text("cause"), text("finding"))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happened_before_its_host_was_killed_is_promoted() {
    let mut office = Office::open(&ticket("promoted", LONG_AFTER, "")).await;
    let id = office.in_flight("promoted", 1).await;
    office.restart_host().await;
    let operation = office.fleet.ended(&id).await;
    assert_eq!(operation["status"], "succeeded", "{operation:#}");
    assert_eq!(settled(&operation), ("host_stopped", "finished"));
    assert_eq!(office.tickets(), 1);
    let events = office.fleet.get(&format!("/operations/{id}/events?page_size=1000")).await.unwrap();
    let told = events["items"].as_array().unwrap().iter().filter(|event| event["payload"]["settlement"].is_object());
    assert_eq!(told.count(), 1, "{events:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_had_not_happened_when_its_host_was_killed_is_done_once() {
    let before = "before: { profile: sleep, seconds: 3 }";
    let mut office = Office::open(&ticket("again", before, "")).await;
    let id = office.in_flight("again", 0).await;
    office.restart_host().await;
    let operation = office.fleet.ended(&id).await;
    assert_eq!(operation["status"], "succeeded", "{operation:#}");
    assert_eq!(settled(&operation), ("host_stopped", "not_done"));
    assert_eq!(office.tickets(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_that_can_tell_nothing_is_asked_a_bounded_number_of_times_and_again_when_somebody_asks() {
    let (office, id) = Office::in_question("asked", LONG_AFTER, 1).await;
    let operation = office.fleet.operation(&id).await.unwrap();
    assert_eq!(settled(&operation), ("host_stopped", "unknown"));
    let settlement = &step(&operation, "draw")["settlement"];
    assert_eq!((&settlement["probes"], &settlement["needs_person"]), (&json!(4), &json!(true)));
    assert!(settlement["message"].as_str().unwrap().contains("fettle operation recover"), "{settlement:#}");
    let (status, answer) = office.act(&id, "retry", json!({})).await;
    assert_eq!((status, &answer["code"]), (StatusCode::CONFLICT, &json!("operation.outcome_unknown")), "{answer:#}");
    // The probe still proves nothing.
    let (status, answer) = office.act(&id, "force-probe", json!({})).await;
    assert!(status.is_success(), "{answer:#}");
    let operation = office.fleet.ended(&id).await;
    assert_eq!(settled(&operation), ("inquiry", "unknown"));
    office.show();
    let (status, answer) = office.act(&id, "force-probe", json!({"nodes": ["node-1"]})).await;
    assert!(status.is_success(), "{answer:#}");
    let operation = office.fleet.ended(&id).await;
    assert_eq!(settled(&operation), ("inquiry", "finished"));
    assert_eq!(step(&operation, "draw")["status"], "succeeded", "{operation:#}");
    assert_eq!(operation["failure"]["code"], "operation.unfinished", "{operation:#}");
    assert_eq!(step(&operation, "draw")["output"], json!({"tickets": 1}), "{operation:#}");
    let (status, answer) = office.act(&id, "force-probe", json!({})).await;
    assert_eq!(
        (status, &answer["code"]),
        (StatusCode::CONFLICT, &json!("operation.nothing_in_question")),
        "{answer:#}"
    );
    let (status, answer) = office.act(&id, "retry", json!({})).await;
    assert!(status.is_success(), "{answer:#}");
    let operation = office.fleet.ended(&id).await;
    assert_eq!((&operation["status"], office.tickets()), (&json!("succeeded"), 1), "{operation:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_who_says_that_it_happened_lets_the_operation_go_on() {
    let (office, id) = Office::in_question("person", LONG_AFTER, 1).await;
    let wrong = json!({"step_id": "draw", "outcome": "done", "output": {"wrong": 1}});
    let (status, answer) = office.act(&id, "recover", wrong).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{answer:#}");
    let (status, answer) = office.act(&id, "recover", json!({"step_id": "after", "outcome": "not_done"})).await;
    assert_eq!((status, &answer["code"]), (StatusCode::CONFLICT, &json!("step.not_in_question")), "{answer:#}");
    let said = json!({"step_id": "draw", "outcome": "done", "output": {"tickets": 1}});
    let (status, answer) = office.act(&id, "recover", said.clone()).await;
    assert!(status.is_success(), "{answer:#}");
    let operation = office.fleet.ended(&id).await;
    assert_eq!((&operation["status"], office.tickets()), (&json!("succeeded"), 1), "{operation:#}");
    let decided_by = step(&operation, "draw")["settlement"]["decided_by"].as_str().unwrap_or_default().to_owned();
    assert!(!decided_by.is_empty(), "{operation:#}");
    let (status, answer) = office.act(&id, "recover", said).await;
    assert_eq!((status, &answer["code"]), (StatusCode::CONFLICT, &json!("operation.succeeded")), "{answer:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_who_says_that_it_did_not_happen_has_it_done() {
    let before = "before: { profile: sleep, seconds: 3 }";
    let (office, id) = Office::in_question("redone", before, 0).await;
    let said = json!({"step_id": "draw", "node": "node-1", "outcome": "not_done", "then": "stop"});
    let (status, answer) = office.act(&id, "recover", said).await;
    assert!(status.is_success(), "{answer:#}");
    assert_eq!(
        (&answer["status"], &answer["failure"]["code"]),
        (&json!("failed"), &json!("step.not-done")),
        "{answer:#}"
    );
    let (status, answer) = office.act(&id, "retry", json!({})).await;
    assert!(status.is_success(), "{answer:#}");
    let operation = office.fleet.ended(&id).await;
    assert_eq!((&operation["status"], office.tickets()), (&json!("succeeded"), 1), "{operation:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_was_stopped_or_cannot_tell_is_promoted_when_its_probe_proves_that_it_happened() {
    let office = Office::open(&ticket("stopped", LONG_AFTER, "timeout: 3s")).await;
    let operation = office.fleet.run("test.stopped", &json!({})).await;
    assert_eq!(operation["status"], "succeeded", "{operation:#}");
    assert_eq!((settled(&operation), office.tickets()), (("step_stopped", "finished"), 1));
    assert_eq!(children(&office.fleet), 0, "the command still runs");
    let office = Office::open(&ticket("unsure", "unsure: true", "")).await;
    let operation = office.fleet.run("test.unsure", &json!({})).await;
    assert_eq!(operation["status"], "succeeded", "{operation:#}");
    assert_eq!((settled(&operation), office.tickets()), (("step_unsure", "finished"), 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canceled_operation_says_what_became_of_the_step_in_flight() {
    let before = "before: { profile: sleep, seconds: 900 }";
    let cases = [("staying", LONG_AFTER, 1, "finished"), ("leaving", before, 0, "not_done")];
    for (name, with, tickets, finding) in cases {
        let office = Office::open(&ticket(name, with, "")).await;
        let id = office.in_flight(name, tickets).await;
        office.fleet.cancel(&id).await;
        let operation = office.fleet.ended(&id).await;
        assert_eq!(operation["status"], "canceled", "{operation:#}");
        assert_eq!((settled(&operation), office.tickets()), (("canceled", finding), tickets), "{operation:#}");
        assert_eq!(step(&operation, "after")["attempt_number"], 0, "{operation:#}");
        assert_eq!(children(&office.fleet), 0, "the command still runs");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_hears_nothing_is_stopped_after_its_grace() {
    let office = Office::open(&ticket("deaf", "deaf: true", "")).await;
    let id = office.fleet.submit("test.deaf", &json!({})).await;
    eventually("the ticket to be drawn", PATIENCE, || async { (office.tickets() == 1).then_some(()) }).await;
    let begin = std::time::Instant::now();
    office.fleet.cancel(&id).await;
    let operation = office.fleet.ended(&id).await;
    assert!(begin.elapsed() >= Duration::from_secs(2), "it was given no time to end by itself");
    assert_eq!(operation["status"], "canceled", "{operation:#}");
    assert_eq!(settled(&operation), ("canceled", "finished"), "{operation:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canceled_step_that_nobody_can_tell_of_is_not_run_again_unasked() {
    let office = Office::open(&ticket("hidden", LONG_AFTER, "")).await;
    office.hide();
    let id = office.in_flight("hidden", 1).await;
    office.fleet.cancel(&id).await;
    let operation = office.fleet.ended(&id).await;
    assert_eq!(operation["status"], "canceled", "{operation:#}");
    assert_eq!(settled(&operation), ("canceled", "unknown"), "{operation:#}");
    let (status, answer) = office.act(&id, "retry", json!({})).await;
    assert_eq!((status, &answer["code"]), (StatusCode::CONFLICT, &json!("operation.outcome_unknown")), "{answer:#}");
    let (status, answer) = office.act(&id, "force-probe", json!({})).await;
    assert!(status.is_success(), "{answer:#}");
    let operation = office.fleet.ended(&id).await;
    assert_eq!(operation["status"], "canceled", "asking does not make it fail: {operation:#}");
    office.show();
    let (_, answer) = office.act(&id, "force-probe", json!({})).await;
    let operation = office.fleet.ended(&id).await;
    assert_eq!(step(&operation, "draw")["status"], "succeeded", "{answer:#} {operation:#}");
}
