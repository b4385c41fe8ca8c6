//! One trace, one set of log fields and one set of metrics for an operation, from its request to its last call.

use fettle_tests::{
    Fleet, Supply,
    collector::{Collected, Collector},
    eventually,
    fleet::{PATIENCE, step},
};
use serde_json::{Value, json};

use crate::{POLICY, PROGRAMS, RENDER, SLEEP};

/// The client's own span.
const SENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// What section 13 of seed 001 asks of every operation and step.
const FIELDS: [&str; 8] = [
    "correlation_id",
    "operation_id",
    "operation_type",
    "org_id",
    "project_id",
    "resource_name",
    "error_code",
    "trace_id",
];

/// A fleet that sends its spans to the collector without delay.
async fn traced(supply: &Supply, collector: &Collector) -> Fleet {
    let mut fleet = Fleet::prepare(PROGRAMS, &supply.trust).await;
    let soon = [("OTEL_BSP_SCHEDULE_DELAY".to_owned(), "50".to_owned())];
    fleet.planes.environment.extend(soon.clone());
    fleet.host_environment.extend(soon);
    fleet.planes.arguments.extend(collector.arguments());
    fleet.host_arguments.extend(collector.arguments());
    fleet.planes.start().await;
    fleet.start_host();
    fleet.node_online().await;
    fleet
}

/// The only span of this name for which `is` holds.
fn only<'a>(spans: &'a [Collected], name: &str, is: impl Fn(&Collected) -> bool) -> &'a Collected {
    let found: Vec<_> = spans.iter().filter(|one| one.span.name == name && is(one)).collect();
    assert_eq!(found.len(), 1, "{name}: {found:#?}");
    found[0]
}

fn lines(log: &str) -> Vec<Value> {
    log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_trace_goes_from_the_request_through_lease_and_step_to_every_call_and_holds_no_secret() {
    let supply = Supply::with(&["file-render", "noop"]).await;
    let collector = Collector::start().await;
    let fleet = traced(&supply, &collector).await;
    fleet.register(&supply.publish(RENDER, POLICY).await).await;
    let (id, answered) = fleet.submit_in_trace("test.render", &json!({"text": "hello"}), SENT).await;
    assert!(answered.contains(TRACE) && answered.ends_with("-01") && answered != SENT, "{answered}");
    assert_eq!(fleet.ended(&id).await["status"], "succeeded", "{}", fleet.logs());

    // A task's span is sent when the plane has accepted its end.
    let spans = eventually("the spans of the operation", PATIENCE, async || {
        let spans: Vec<_> = collector.spans().into_iter().filter(|span| span.trace_id() == TRACE).collect();
        let has = |name: &str| spans.iter().any(|one| one.span.name == name);
        (has("task") && has("complete") && has("report")).then_some(spans)
    })
    .await;
    let request = only(&spans, "POST /api/v1/projects/{project}/operations", |_| true);
    let lease = only(&spans, "lease", |_| true);
    let task = only(&spans, "task", |_| true);
    let step = only(&spans, "step", |one| one.attribute("step_id").as_deref() == Some("render"));
    let write = only(&spans, "files.write", |_| true);
    let parents = [request, lease, task, step].map(|one| one.span.span_id.clone());
    let children = [lease, task, step, write].map(|one| one.span.parent_span_id.clone());
    assert_eq!(parents, children, "{spans:#?}");
    let parent: String = request.span.parent_span_id.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(parent, "00f067aa0ba902b7", "the client's own span");
    for (span, service) in
        [(request, "fettle-plane"), (lease, "fettle-plane"), (task, "fettle-host"), (write, "fettle-host")]
    {
        assert_eq!(span.service, service);
    }
    // What the plane does with what the host tells is part of it too.
    for (name, parent) in [("ack", lease), ("report", task), ("complete", task)] {
        let call = only(&spans, name, |_| true);
        assert!(call.service == "fettle-plane" && call.span.parent_span_id == parent.span.span_id, "{call:#?}");
    }
    let expected =
        [("step_kind", "file.render@v1"), ("attempt_number", "1"), ("status", "succeeded"), ("error_code", "none")];
    for (key, value) in expected {
        assert_eq!(step.attribute(key).as_deref(), Some(value), "{key} of {step:#?}");
    }
    assert!(step.attribute("duration_ms").is_some());
    assert_eq!(task.attribute("operation_id").as_deref(), Some(id.as_str()));
    assert_eq!(task.attribute("operation_type").as_deref(), Some("test.render"));

    let (sent, logs) = (collector.text(), fleet.logs());
    let secrets = fleet.secrets();
    assert_eq!(secrets.len(), 4, "two tokens, a join token and the node's own secret");
    for secret in secrets {
        assert!(secret.len() > 20 && !sent.contains(&secret) && !logs.contains(&secret), "a secret was told");
    }
    assert!(!sent.contains("hello"), "an input was sent to the collector");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_line_of_an_operation_says_which_one_it_is_with_and_without_a_collector() {
    let supply = Supply::with(&["command-exec-allowlisted", "noop"]).await;
    let fleet = Fleet::start(PROGRAMS, &supply.trust).await;
    fleet.register(&supply.publish(SLEEP, POLICY).await).await;
    let (id, _) = fleet.submit_in_trace("test.sleep", &json!({"seconds": 0}), SENT).await;
    let operation = fleet.ended(&id).await;
    assert_eq!(operation["status"], "succeeded", "{}", fleet.logs());
    let logs = fleet.logs();
    let of = |message: &str| {
        let found: Vec<_> = lines(&logs).into_iter().filter(|line| line["message"] == message).collect();
        assert!(!found.is_empty(), "`{message}` is not in\n{logs}");
        found
    };
    for message in [
        "an operation was accepted",
        "a task was leased",
        "an attempt of a step ended",
        "a step ended",
        "the task ended",
        "an operation ended",
    ] {
        for line in of(message) {
            for field in FIELDS {
                assert!(line[field].as_str().is_some_and(|text| !text.is_empty()), "{field} of {line:#}");
            }
            assert_eq!((&line["operation_id"], &line["trace_id"]), (&json!(id), &json!(TRACE)), "{line:#}");
            assert_eq!(line["correlation_id"], operation["correlation_id"], "{line:#}");
        }
    }
    let attempts = of("an attempt of a step ended");
    let slept = attempts.iter().find(|line| line["step_id"] == "sleep").unwrap();
    assert_eq!((&slept["resolved_profile"], &slept["attempt_number"]), (&json!("sleep"), &json!(1)), "{slept:#}");
    assert_eq!((&slept["status"], &slept["step_kind"]), (&json!("succeeded"), &json!("command.exec_allowlisted@v1")));
    assert!(slept["duration_ms"].is_u64(), "{slept:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_costs_nothing_but_its_spans_and_metrics_are_served() {
    let supply = Supply::with(&["file-render", "noop"]).await;
    let mut fleet = Fleet::prepare(PROGRAMS, &supply.trust).await;
    // Port 9 of this machine: nobody is there.
    let away = ["--otlp-endpoint", "http://127.0.0.1:9", "--metrics-listen", "127.0.0.1:0"].map(str::to_owned);
    fleet.planes.arguments.extend(away.clone());
    fleet.host_arguments.extend(away);
    fleet.planes.start().await;
    fleet.start_host();
    fleet.node_online().await;
    fleet.register(&supply.publish(RENDER, POLICY).await).await;
    for number in 0..5 {
        let operation = fleet.run("test.render", &json!({"text": number.to_string()})).await;
        assert_eq!(operation["status"], "succeeded", "{}", fleet.logs());
    }
    let host = fleet.metrics(&fleet.host_metrics()).await;
    for (name, expected) in [
        ("leases_received_total", 5.0),
        ("leases_acknowledged_total", 5.0),
        ("leases_completed_total", 5.0),
        ("leases_failed_total", 0.0),
        ("agent_executions_total", 10.0),
        ("lease_stream_errors_total", 0.0),
        ("lease_processing_duration_ms_count", 5.0),
        ("agent_execution_duration_ms_count", 10.0),
        ("available_slots", 4.0),
    ] {
        assert_eq!(host.get(name), Some(&expected), "{name} in {host:#?}");
    }
    let plane = fleet.metrics(&fleet.plane_metrics()).await;
    let ended = r#"fettle_operations_ended_total{operation_type="test.render",org="default",status="succeeded"}"#;
    assert_eq!(plane.get(ended), Some(&5.0), "{plane:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_resumes_after_a_crash_is_in_the_same_trace() {
    let supply = Supply::with(&["command-exec-allowlisted", "noop"]).await;
    let collector = Collector::start().await;
    let mut fleet = traced(&supply, &collector).await;
    fleet.register(&supply.publish(SLEEP, POLICY).await).await;
    let (id, _) = fleet.submit_in_trace("test.sleep", &json!({"seconds": 900}), SENT).await;
    fleet.until(&id, |operation| step(operation, "sleep")["status"] == "running").await;
    fleet.host.take().unwrap().kill();
    fleet.start_host();
    // A command may not be repeated, so the step fails, and says so.
    let operation = fleet.ended(&id).await;
    assert_eq!(operation["failure"]["code"], "step.interrupted", "{operation:#}");
    // A host that took long to come back may have lost the lease first, and have taken the task again.
    let tasks = || collector.spans().into_iter().filter(|one| one.span.name == "task").collect::<Vec<_>>();
    let task = eventually("the span of the resumed task", PATIENCE, async || {
        tasks().into_iter().find(|task| task.attribute("error_code").as_deref() == Some("step.interrupted"))
    })
    .await;
    assert!(task.is_error(), "{task:#?}");
    for task in tasks() {
        assert_eq!((task.trace_id().as_str(), task.attribute("operation_id")), (TRACE, Some(id.clone())));
    }
}
