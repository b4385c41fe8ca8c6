//! Storing what a node tells of a task.

use std::collections::{HashMap, hash_map::Entry};

use fettle_model::{
    name::StepId,
    operation::StepStatus,
    task::{LogLine, StepEvent},
};
use fettle_store::{
    StoreError,
    audit::DeniedCall,
    context::Context,
    event::EventKind,
    fact::Fact,
    id::TaskId,
    task::{Report, Verdict},
};
use fettle_store_rows::report::{ProgressRow, error_code, finished as finished_fields, host_time, unknown_step};
use serde_json::{Value, json};

use super::held::{self, Fence, Held, start_operation};
use crate::{audit, error::unavailable, event, log, row, writer::Unit};

const VERB: &str = "apply_reports";

/// Denied calls stored of one report. A host reports fewer of a whole attempt.
const DENIALS: usize = 64;

/// A task while reports of it are stored.
pub(crate) struct Target {
    pub(crate) held: Held,
    task_id: TaskId,
}

pub(crate) async fn apply_all(
    unit: &mut Unit,
    reports: &[Report],
    context: &Context,
) -> Result<Vec<Result<Verdict, StoreError>>, StoreError> {
    let mut targets = HashMap::new();
    let mut verdicts = Vec::with_capacity(reports.len());
    for report in reports {
        let target = match targets.entry(report.lease.task_id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(read(unit, report.lease.task_id).await?),
        };
        let verdict = match target {
            Some(target) => apply(unit, target, report, context).await,
            None => Ok(Verdict::Stale),
        };
        match verdict {
            // Only the database's own errors undo the others.
            Err(error @ (StoreError::Unavailable { .. } | StoreError::Corrupt { .. })) => return Err(error),
            other => verdicts.push(other),
        }
    }
    for target in targets.into_values().flatten() {
        sqlx::query("UPDATE tasks SET last_sequence = $2 WHERE task_id = $1")
            .bind(target.task_id.to_string())
            .bind(target.held.last_sequence)
            .execute(&mut unit.connection)
            .await
            .map_err(unavailable(VERB))?;
    }
    Ok(verdicts)
}

async fn read(unit: &mut Unit, task_id: TaskId) -> Result<Option<Target>, StoreError> {
    let held = held::read(unit, task_id).await?;
    Ok(held.map(|held| Target { held, task_id }))
}

async fn apply(
    unit: &mut Unit,
    target: &mut Target,
    report: &Report,
    context: &Context,
) -> Result<Verdict, StoreError> {
    let sequence = i64::try_from(report.sequence).unwrap_or(i64::MAX);
    let seen = sequence <= target.held.last_sequence;
    match target.held.fence(&report.lease) {
        Fence::Stale => return Ok(Verdict::Stale),
        Fence::Ended => return Ok(if seen { Verdict::Accepted } else { Verdict::Stale }),
        // A result is guarded by the state of its step and a denial by its own key, so they need no number:
        // should a host count wrongly after a crash, a line of a log may be lost, but neither of them.
        Fence::Current if seen && !matches!(report.event, StepEvent::Finished { .. } | StepEvent::Denied { .. }) => {
            return Ok(Verdict::Accepted);
        }
        Fence::Current => {}
    }
    store(unit, target, &report.event, context).await?;
    target.held.last_sequence = target.held.last_sequence.max(sequence);
    unit.announce(target.held.subject.change()?);
    Ok(Verdict::Accepted)
}

macro_rules! update_open_step {
    ($set:literal) => {
        concat!(
            "UPDATE operation_steps SET ",
            $set,
            " WHERE task_id = $1 AND step_id = $2 AND status IN ('pending', 'running')
             RETURNING kind, step_index, started_at, percent, attempt_number"
        )
    };
}

async fn store(unit: &mut Unit, target: &Target, event: &StepEvent, context: &Context) -> Result<(), StoreError> {
    match event {
        StepEvent::Started { step_id, attempt, at } => {
            if target.held.acknowledged == 0 {
                start_operation(unit, &target.held.subject.operation_id, context).await?;
            }
            let step = sqlx::query_as(update_open_step!(
                "status = 'running', attempt_number = max(attempt_number, attempts_before + $3), started_at = $4, percent = NULL,
                 message = NULL"
            ))
            .bind(target.task_id.to_string())
            .bind(step_id.as_str())
            .bind(attempt)
            .bind(host_time(*at, context))
            .fetch_optional(&mut unit.connection)
            .await
            .map_err(unavailable(VERB))?;
            progress(unit, target, step_id, step, StepStatus::Running, json!({}), context).await
        }
        StepEvent::Progress { step_id, percent, message } => {
            let message = message.as_deref().map(log::prefix);
            let step = sqlx::query_as(update_open_step!("percent = $3, message = $4"))
                .bind(target.task_id.to_string())
                .bind(step_id.as_str())
                .bind(i64::from(*percent).min(100))
                .bind(message)
                .fetch_optional(&mut unit.connection)
                .await
                .map_err(unavailable(VERB))?;
            let fields = json!({ "step_message": message });
            progress(unit, target, step_id, step, StepStatus::Running, fields, context).await
        }
        StepEvent::Log { step_id, attempt, lines } => append_log(unit, target, step_id, *attempt, lines).await,
        StepEvent::Denied { step_id, attempt, component, denials } => {
            let attempt = attempt.saturating_add(attempts_before(unit, target, step_id).await?);
            for denial in denials.iter().take(DENIALS) {
                let denial = denial.clone().shortened();
                let denied = DeniedCall { step_id: step_id.clone(), attempt, component: *component, denial };
                let task_id = target.task_id.to_string();
                audit::record_denied(unit, context, &target.held.subject, &task_id, &denied).await?;
            }
            Ok(())
        }
        StepEvent::Retrying { step_id, attempt, failure, wait_ms } => {
            let step = sqlx::query_as(update_open_step!("message = $3, percent = NULL"))
                .bind(target.task_id.to_string())
                .bind(step_id.as_str())
                .bind(format!("attempt {attempt} failed, trying again: {}", failure.message))
                .fetch_optional(&mut unit.connection)
                .await
                .map_err(unavailable(VERB))?;
            let fields = json!({ "failure": failure, "retry_in_ms": wait_ms });
            progress(unit, target, step_id, step, StepStatus::Running, fields, context).await
        }
        StepEvent::Finished { .. } => finished(unit, target, event, context).await,
    }
}

async fn finished(unit: &mut Unit, target: &Target, event: &StepEvent, context: &Context) -> Result<(), StoreError> {
    let StepEvent::Finished { step_id, attempt, result, duration_ms, at } = event else { return Ok(()) };
    let step: Option<ProgressRow> = sqlx::query_as(update_open_step!(
        "status = $3, outcome = $4, duration_ms = $5, finished_at = $6,
         attempt_number = CASE WHEN $7 = 0 THEN attempt_number ELSE max(attempt_number, attempts_before + $7) END"
    ))
    .bind(target.task_id.to_string())
    .bind(step_id.as_str())
    .bind(result.status().name())
    .bind(row::text("outcome", result)?)
    .bind(i64::try_from(*duration_ms).unwrap_or(i64::MAX))
    .bind(host_time(*at, context))
    .bind(attempt)
    .fetch_optional(&mut unit.connection)
    .await
    .map_err(unavailable(VERB))?;
    if let Some(row) = &step {
        let status = result.status();
        unit.witness(Fact::StepEnded {
            about: target.held.subject.about(),
            step_id: step_id.to_string(),
            step_kind: row.kind.clone(),
            attempt_number: *attempt,
            status,
            error_code: error_code(result),
            duration_ms: *duration_ms,
        });
    }
    let fields = finished_fields(result, *duration_ms);
    progress(unit, target, step_id, step, result.status(), fields, context).await
}

async fn append_log(
    unit: &mut Unit,
    target: &Target,
    step_id: &StepId,
    attempt: u32,
    lines: &[LogLine],
) -> Result<(), StoreError> {
    // Lines may trail the result of their step.
    let found: Option<(i64, i64)> =
        sqlx::query_as("SELECT log_lines, attempts_before FROM operation_steps WHERE task_id = $1 AND step_id = $2")
            .bind(target.task_id.to_string())
            .bind(step_id.as_str())
            .fetch_optional(&mut unit.connection)
            .await
            .map_err(unavailable(VERB))?;
    let (stored, before) = found.ok_or_else(|| unknown_step(target.task_id, step_id))?;
    let attempt = attempt.saturating_add(row::number("step", before)?);
    let kept = log::append(unit, target, step_id, attempt, stored, lines).await?;
    sqlx::query(
        "UPDATE operation_steps SET log_lines = log_lines + $3, last_log = coalesce($4, last_log)
         WHERE task_id = $1 AND step_id = $2",
    )
    .bind(target.task_id.to_string())
    .bind(step_id.as_str())
    .bind(kept)
    .bind(lines.last().map(|line| log::prefix(&line.text)))
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable(VERB))?;
    Ok(())
}

/// Writes `operation.progress` for a step that was open; nothing when its result had been accepted.
async fn progress(
    unit: &mut Unit,
    target: &Target,
    step_id: &StepId,
    step: Option<ProgressRow>,
    status: StepStatus,
    fields: Value,
    context: &Context,
) -> Result<(), StoreError> {
    let Some(step) = step else { return attempts_before(unit, target, step_id).await.map(drop) };
    let payload = step.payload(&target.held, step_id, status, fields)?;
    event::append(unit, &target.held.subject.operation_id, EventKind::Progress, context.at, &payload).await
}

/// How many attempts earlier runs made of a step; an error when the task has no such step.
async fn attempts_before(unit: &mut Unit, target: &Target, step_id: &StepId) -> Result<u32, StoreError> {
    let found: Option<(i64,)> =
        sqlx::query_as("SELECT attempts_before FROM operation_steps WHERE task_id = $1 AND step_id = $2")
            .bind(target.task_id.to_string())
            .bind(step_id.as_str())
            .fetch_optional(&mut unit.connection)
            .await
            .map_err(unavailable(VERB))?;
    let (before,) = found.ok_or_else(|| unknown_step(target.task_id, step_id))?;
    row::number("step", before)
}
