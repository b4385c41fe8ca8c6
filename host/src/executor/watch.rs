//! What is told of tasks and attempts while they run: spans, lines of the log, metrics (seed 001, 13).

use std::time::Duration;

use fettle_model::{
    failure::{Failure, FailureClass},
    plan::PlannedStep,
    task::{Task, TaskOutcome},
};
use fettle_telemetry::SPANS;
use tracing::{Span, field::Empty};

use super::Executor;

/// What stands for an error code where there was no error.
const NO_ERROR: &str = "none";

/// The span of a task on this host. Lines of the log inside it say which operation they are about.
pub(crate) fn task_span(task: &Task) -> Span {
    tracing::info_span!(
        target: SPANS,
        "task",
        correlation_id = task.correlation_id,
        operation_id = task.operation_id,
        operation_type = Empty,
        org_id = task.org_id.as_deref().unwrap_or_default(),
        project_id = task.project_id,
        resource_name = format!("projects/{}/operations/{}", task.project_id, task.operation_id),
        task_id = task.task_id,
        node_id = task.node_id,
        status = Empty,
        error_code = Empty,
        otel.status_code = Empty,
    )
}

/// A task has ended; to be called inside its span.
pub(crate) fn task_ended(executor: &Executor, outcome: &TaskOutcome, took: Duration) {
    let (status, failure, step_id) = match outcome {
        TaskOutcome::Succeeded => ("succeeded", None, None),
        TaskOutcome::Failed { failure, step_id } => ("failed", Some(failure), step_id.as_ref()),
        TaskOutcome::Canceled => ("canceled", None, None),
    };
    match outcome {
        TaskOutcome::Succeeded => drop(executor.metrics.leases_completed.inc()),
        TaskOutcome::Failed { .. } => drop(executor.metrics.leases_failed.inc()),
        TaskOutcome::Canceled => {}
    }
    executor.metrics.lease_duration.observe(took.as_secs_f64() * 1e3);
    let error_code = failure.map_or(NO_ERROR, |failure| failure.code.as_str());
    let span = Span::current();
    span.record("status", status).record("error_code", error_code);
    mark(&span, failure);
    let duration_ms = milliseconds(took);
    tracing::info!(
        status,
        error_code,
        duration_ms,
        step_id = step_id.map(tracing::field::display),
        reason = failure.map(|failure| failure.message.as_str()),
        "the task ended"
    );
}

/// The span of one attempt. Nothing when nobody collects spans.
pub(super) fn attempt_span(planned: &PlannedStep, attempt: u32) -> Span {
    tracing::debug_span!(
        target: SPANS,
        "step",
        step_id = %planned.id,
        step_kind = %planned.kind,
        attempt_number = attempt,
        resolved_profile = resolved_profile(planned),
        status = Empty,
        error_code = Empty,
        otel.status_code = Empty,
        duration_ms = Empty,
    )
}

/// An attempt has ended.
pub(super) fn attempt_ended(
    executor: &Executor,
    (planned, attempt, span): (&PlannedStep, u32, &Span),
    status: &'static str,
    failure: Option<&Failure>,
    took: Duration,
) {
    executor.metrics.executions.inc();
    executor.metrics.execution_duration.observe(took.as_secs_f64() * 1e3);
    if let Some(failure) = failure {
        executor.metrics.execution_errors.with([class(failure.class)]).inc();
    }
    let error_code = failure.map_or(NO_ERROR, |failure| failure.code.as_str());
    let duration_ms = milliseconds(took);
    span.record("status", status).record("error_code", error_code).record("duration_ms", duration_ms);
    mark(span, failure);
    tracing::info!(
        step_id = %planned.id,
        step_kind = %planned.kind,
        resolved_profile = resolved_profile(planned),
        attempt_number = attempt,
        status,
        error_code,
        duration_ms,
        "an attempt of a step ended"
    );
}

/// Failures stand out where traces are drawn.
fn mark(span: &Span, failure: Option<&Failure>) {
    if failure.is_some() {
        span.record("otel.status_code", "ERROR");
    }
}

/// The command profiles that the step may use: usually one, or none at all. Which of several it used, the span of
/// the call says.
fn resolved_profile(planned: &PlannedStep) -> String {
    let profiles = planned.grants.exec.iter().flat_map(|grant| &grant.profiles);
    profiles.map(String::as_str).collect::<Vec<_>>().join(",")
}

const fn class(class: FailureClass) -> &'static str {
    match class {
        FailureClass::InvalidInput => "invalid_input",
        FailureClass::Denied => "denied",
        FailureClass::Transient => "transient",
        FailureClass::Permanent => "permanent",
        FailureClass::Unknown => "unknown",
        FailureClass::Canceled => "canceled",
    }
}

fn milliseconds(took: Duration) -> u64 {
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
}
