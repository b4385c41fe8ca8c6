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

use super::held::{self, start_operations};
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
        let tasks = held::read_all(unit, &tasks(reports())).await?;
        let mut folding = Folding::new(tasks, read_steps(unit, &steps(reports())).await?);
        let mut answers = Vec::with_capacity(asked.len());
        for told in asked {
            answers.push(Ok(folding.apply(&told.reports, &told.context)?));
        }
        write_steps(unit, &folding.changed_steps()).await?;
        write_tasks(unit, &folding.moved_tasks()).await?;
        write_effects(unit, folding.effects).await?;
        Ok(answers)
    }
}

async fn read_steps(unit: &mut Unit, steps: &[(String, String)]) -> Result<Vec<StepRow>, StoreError> {
    sqlx::query_as(
        "SELECT task_id, step_id, kind, step_index, status, attempt_number, attempts_before, started_at, percent,
             message, log_lines
         FROM json_each($1) AS told JOIN operation_steps ON task_id = told.value ->> 0 AND step_id = told.value ->> 1",
    )
    .bind(row::text("step", &steps)?)
    .fetch_all(&mut unit.connection)
    .await
    .map_err(unavailable(Apply::VERB))
}

async fn write_steps(unit: &mut Unit, steps: &[&StepRow]) -> Result<(), StoreError> {
    if steps.is_empty() {
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
         WHERE task_id = step.value ->> 'task_id' AND step_id = step.value ->> 'step_id'",
    )
    .bind(row::text("step", &steps)?)
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable(Apply::VERB))?;
    Ok(())
}

async fn write_tasks(unit: &mut Unit, moved: &[(&str, i64)]) -> Result<(), StoreError> {
    if moved.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "UPDATE tasks SET last_sequence = told.value ->> 1 FROM json_each($1) AS told WHERE task_id = told.value ->> 0",
    )
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
