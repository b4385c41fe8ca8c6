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
use fettle_store_rows::{
    log::{LINES_PER_STEP, kept, prefix},
    report::{ProgressRow, error_code, finished as finished_fields, host_time, unknown_step},
};
use serde_json::{Value, json};

use super::held::{self, Fence, Held, start_operation};
use crate::{
    audit,
    journal::clean,
    row,
    unit::{Asking, Unit},
};

/// Denied calls stored of one report. A host reports fewer of a whole attempt.
const DENIALS: usize = 64;

/// A task while reports of it are stored.
struct Target {
    held: Held,
    task_id: TaskId,
    /// Whether a number higher than all before it was reported.
    moved: bool,
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
    let moved = targets.into_values().flatten().filter(|target| target.moved);
    let (tasks, numbers): (Vec<String>, Vec<i64>) =
        moved.map(|target| (target.task_id.to_string(), target.held.last_sequence)).unzip();
    if !tasks.is_empty() {
        unit.execute(
            "UPDATE tasks SET last_sequence = reported.number
             FROM unnest($1::text[], $2::bigint[]) AS reported (task_id, number)
             WHERE tasks.task_id = reported.task_id",
            |query| query.bind(tasks).bind(numbers),
        )
        .await?;
    }
    Ok(verdicts)
}

async fn read(unit: &mut Unit, task_id: TaskId) -> Result<Option<Target>, StoreError> {
    let held = held::read(unit, task_id).await?;
    Ok(held.map(|held| Target { held, task_id, moved: false }))
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
    if !seen {
        target.held.last_sequence = sequence;
        target.moved = true;
    }
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
    let step =
        |query: Asking<ProgressRow>, step_id: &StepId| query.bind(target.task_id.to_string()).bind(step_id.to_string());
    match event {
        StepEvent::Started { step_id, attempt, at } => {
            if target.held.acknowledged == 0 {
                start_operation(unit, &target.held.subject.operation_id, context).await?;
            }
            let sql = update_open_step!(
                "status = 'running', attempt_number = greatest(attempt_number, attempts_before + $3), started_at = $4, percent = NULL,
                 message = NULL"
            );
            let (attempt, at) = (i64::from(*attempt), host_time(*at, context));
            let found = unit.change_one(sql, |query| step(query, step_id).bind(attempt).bind(at)).await?;
            progress(unit, target, step_id, found, StepStatus::Running, json!({}), context).await
        }
        StepEvent::Progress { step_id, percent, message } => {
            let message = message.as_deref().map(prefix);
            let (stored, percent) = (message.map(clean), i64::from(*percent).min(100));
            let sql = update_open_step!("percent = $3, message = $4");
            let found = unit.change_one(sql, |query| step(query, step_id).bind(percent).bind(stored)).await?;
            let fields = json!({ "step_message": message });
            progress(unit, target, step_id, found, StepStatus::Running, fields, context).await
        }
        StepEvent::Log { step_id, attempt, lines } => append_log(unit, target, step_id, *attempt, lines).await,
        StepEvent::Denied { step_id, attempt, component, denials } => {
            let attempt = attempt.saturating_add(attempts_before(unit, target, step_id).await?);
            for denial in denials.iter().take(DENIALS) {
                let denial = denial.clone().shortened();
                let denied = DeniedCall { step_id: step_id.clone(), attempt, component: *component, denial };
                audit::record_denied(unit, context, &target.held.subject, &target.task_id.to_string(), &denied)?;
            }
            Ok(())
        }
        StepEvent::Retrying { step_id, attempt, failure, wait_ms } => {
            let message = clean(&format!("attempt {attempt} failed, trying again: {}", failure.message));
            let sql = update_open_step!("message = $3, percent = NULL");
            let found = unit.change_one(sql, |query| step(query, step_id).bind(message)).await?;
            let fields = json!({ "failure": failure, "retry_in_ms": wait_ms });
            progress(unit, target, step_id, found, StepStatus::Running, fields, context).await
        }
        StepEvent::Finished { .. } => finished(unit, target, event, context).await,
    }
}

async fn finished(unit: &mut Unit, target: &Target, event: &StepEvent, context: &Context) -> Result<(), StoreError> {
    let StepEvent::Finished { step_id, attempt, result, duration_ms, at } = event else { return Ok(()) };
    let outcome = row::text("outcome", result)?;
    let sql = update_open_step!(
        "status = $3, outcome = $4, duration_ms = $5, finished_at = $6,
         attempt_number = CASE WHEN $7 = 0 THEN attempt_number
             ELSE greatest(attempt_number, attempts_before + $7) END"
    );
    let found = unit
        .change_one(sql, |query: Asking<ProgressRow>| {
            query
                .bind(target.task_id.to_string())
                .bind(step_id.to_string())
                .bind(result.status().name())
                .bind(outcome)
                .bind(i64::try_from(*duration_ms).unwrap_or(i64::MAX))
                .bind(host_time(*at, context))
                .bind(i64::from(*attempt))
        })
        .await?;
    if let Some(row) = &found {
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
    progress(unit, target, step_id, found, result.status(), fields, context).await
}

/// Counts lines of a step, up to the most that are kept. Answers how many it had before.
const COUNT: &str = "
WITH before AS (
    SELECT log_lines, attempts_before FROM operation_steps WHERE task_id = $1 AND step_id = $2
)
UPDATE operation_steps SET log_lines = least(operation_steps.log_lines + $3, $4), last_log = coalesce($5, last_log)
FROM before WHERE task_id = $1 AND step_id = $2
RETURNING before.log_lines, before.attempts_before";

async fn append_log(
    unit: &mut Unit,
    target: &Target,
    step_id: &StepId,
    attempt: u32,
    lines: &[LogLine],
) -> Result<(), StoreError> {
    let last = lines.last().map(|line| clean(prefix(&line.text)));
    // Lines may trail the result of their step.
    let found = unit
        .change_one(COUNT, |query: Asking<(i64, i64)>| {
            query
                .bind(target.task_id.to_string())
                .bind(step_id.to_string())
                .bind(i64::try_from(lines.len()).unwrap_or(i64::MAX))
                .bind(LINES_PER_STEP)
                .bind(last)
        })
        .await?;
    let (stored, before) = found.ok_or_else(|| unknown_step(target.task_id, step_id))?;
    let attempt = attempt.saturating_add(row::number("step", before)?);
    unit.journal.logs(&target.held, step_id, attempt, kept(stored, lines));
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
    let subject = &target.held.subject;
    let payload = step.payload(&target.held, step_id, status, fields)?;
    unit.journal.event(&subject.operation_id, EventKind::Progress, context.at, &payload)
}

/// How many attempts earlier runs made of a step; an error when the task has no such step.
async fn attempts_before(unit: &mut Unit, target: &Target, step_id: &StepId) -> Result<u32, StoreError> {
    let sql = "SELECT attempts_before FROM operation_steps WHERE task_id = $1 AND step_id = $2";
    let bind = |query: Asking<(i64,)>| query.bind(target.task_id.to_string()).bind(step_id.to_string());
    let (before,) = unit.look_for(sql, bind).await?.ok_or_else(|| unknown_step(target.task_id, step_id))?;
    row::number("step", before)
}
