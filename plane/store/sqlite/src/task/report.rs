//! Storing what nodes tell of their tasks.

use fettle_store::{
    StoreError,
    context::Context,
    event::EventKind,
    task::{Report, Verdict},
};
use fettle_store_rows::{
    report::{Effects, Folding, steps, tasks},
    step::StepRow,
};

use super::held::{Held, held, start_operations};
use crate::{error::unavailable, lane::Together, log, row, writer::Unit};

/// Reports of nodes.
pub(crate) struct Apply;

/// What one node tells at once.
pub(crate) struct Told {
    pub(crate) reports: Vec<Report>,
    pub(crate) context: Context,
}

impl Together for Apply {
    const VERB: &'static str = "apply_reports";
    type Asked = Told;
    type Answer = Vec<Result<Verdict, StoreError>>;

    async fn run(unit: &mut Unit, asked: &[Told]) -> Result<Vec<Result<Self::Answer, StoreError>>, StoreError> {
        let reports = || asked.iter().map(|told| told.reports.as_slice());
        let (tasks, steps) = read(unit, &tasks(reports()), &steps(reports())).await?;
        let mut folding = Folding::new(tasks, steps);
        let mut answers = Vec::with_capacity(asked.len());
        for told in asked {
            answers.push(Ok(folding.apply(&told.reports, &told.context)?));
        }
        write(unit, &folding.changed_steps(), &folding.moved_tasks()).await?;
        write_effects(unit, folding.effects).await?;
        Ok(answers)
    }
}

/// The tasks and steps that reports are about.
const READ: &str = concat!(
    "SELECT (",
    held!("task_id IN (SELECT value FROM json_each($1))"),
    "), (SELECT json_group_array(json_array(task_id, step_id, kind, step_index, status, attempt_number,
             attempts_before, started_at, percent, message, log_lines))
         FROM json_each($2) AS told
             JOIN operation_steps ON task_id = told.value ->> 0 AND step_id = told.value ->> 1)"
);

async fn read(
    unit: &mut Unit,
    tasks: &[String],
    steps: &[(String, String)],
) -> Result<(Vec<(String, Held)>, Vec<StepRow>), StoreError> {
    let (tasks, steps): (String, String) = sqlx::query_as(READ)
        .bind(row::text("task", &tasks)?)
        .bind(row::text("step", &steps)?)
        .fetch_one(&mut unit.connection)
        .await
        .map_err(unavailable(Apply::VERB))?;
    Ok((row::document("task", &tasks)?, row::document("step", &steps)?))
}

async fn write(unit: &mut Unit, steps: &[&StepRow], moved: &[(&str, i64)]) -> Result<(), StoreError> {
    if steps.is_empty() && moved.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "UPDATE operation_steps SET status = step.value ->> 'status',
             attempt_number = step.value ->> 'attempt_number', started_at = step.value ->> 'started_at',
             percent = step.value ->> 'percent', message = step.value ->> 'message',
             log_lines = step.value ->> 'log_lines', last_log = coalesce(step.value ->> 'last_log', last_log),
             outcome = coalesce(step.value ->> 'outcome', outcome),
             duration_ms = coalesce(step.value ->> 'duration_ms', duration_ms),
             settlement = coalesce(step.value ->> 'settlement', settlement),
             finished_at = coalesce(step.value ->> 'finished_at', finished_at)
         FROM json_each($1) AS step
         WHERE task_id = step.value ->> 'task_id' AND step_id = step.value ->> 'step_id';
         UPDATE tasks SET last_sequence = told.value ->> 1 FROM json_each($2) AS told
         WHERE task_id = told.value ->> 0",
    )
    .bind(row::text("step", &steps)?)
    .bind(row::text("task", &moved)?)
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable(Apply::VERB))?;
    Ok(())
}

async fn write_effects(unit: &mut Unit, effects: Effects<'_>) -> Result<(), StoreError> {
    for lines in &effects.logs {
        log::append(unit, lines).await?;
    }
    for (row, operation_id, key) in effects.denied {
        unit.journal.audit_once(row, operation_id, key)?;
    }
    for (operation_id, at, payload) in &effects.events {
        unit.journal.event(operation_id, EventKind::Progress, *at, payload)?;
    }
    effects.facts.into_iter().for_each(|fact| unit.witness(fact));
    effects.changes.into_iter().for_each(|change| unit.announce(change));
    start_operations(unit, &effects.started).await
}
