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
use crate::{
    lane::Together,
    row,
    unit::{Asking, Unit},
};

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
        // Steps are changed by whoever has locked their task.
        let tasks = held::read_all(unit, tasks(reports())).await?;
        let mut folding = Folding::new(tasks, read_steps(unit, steps(reports())).await?);
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

async fn read_steps(unit: &mut Unit, steps: Vec<(String, String)>) -> Result<Vec<StepRow>, StoreError> {
    let (tasks, steps): (Vec<String>, Vec<String>) = steps.into_iter().unzip();
    let sql = "SELECT task_id, step_id, kind, step_index, status, attempt_number, attempts_before, started_at, percent,
                   message, log_lines
               FROM operation_steps JOIN unnest($1::text[], $2::text[]) AS told (task_id, step_id)
                   USING (task_id, step_id)";
    unit.look(sql, |query: Asking<StepRow>| query.bind(tasks).bind(steps)).await
}

/// In the form in which the rows are written as a document.
const WRITE_STEPS: &str = "
UPDATE operation_steps SET status = step.status, attempt_number = step.attempt_number, started_at = step.started_at,
    percent = step.percent, message = step.message, log_lines = step.log_lines,
    last_log = coalesce(step.last_log, operation_steps.last_log),
    outcome = coalesce(step.outcome, operation_steps.outcome),
    duration_ms = coalesce(step.duration_ms, operation_steps.duration_ms),
    finished_at = coalesce(step.finished_at, operation_steps.finished_at),
    settlement = coalesce(step.settlement, operation_steps.settlement)
FROM json_to_recordset($1::json) AS step (task_id text, step_id text, status text, attempt_number bigint,
    started_at bigint, percent bigint, message text, log_lines bigint, last_log text, outcome text, duration_ms bigint,
    finished_at bigint, settlement text)
WHERE operation_steps.task_id = step.task_id AND operation_steps.step_id = step.step_id";

async fn write_steps(unit: &mut Unit, steps: &[&StepRow]) -> Result<(), StoreError> {
    if steps.is_empty() {
        return Ok(());
    }
    let steps = row::text("step", &steps)?;
    unit.execute(WRITE_STEPS, |query| query.bind(steps)).await.map(drop)
}

async fn write_tasks(unit: &mut Unit, moved: &[(&str, i64)]) -> Result<(), StoreError> {
    if moved.is_empty() {
        return Ok(());
    }
    let (tasks, numbers): (Vec<String>, Vec<i64>) =
        moved.iter().map(|(task_id, number)| ((*task_id).to_owned(), *number)).unzip();
    unit.execute(
        "UPDATE tasks SET last_sequence = reported.number
         FROM unnest($1::text[], $2::bigint[]) AS reported (task_id, number)
         WHERE tasks.task_id = reported.task_id",
        |query| query.bind(tasks).bind(numbers),
    )
    .await
    .map(drop)
}

async fn write_effects(unit: &mut Unit, effects: Effects<'_>) -> Result<(), StoreError> {
    for lines in effects.logs {
        unit.journal.logs(lines);
    }
    for (row, operation_id, key) in effects.denied {
        unit.journal.audit_once(row, operation_id, key)?;
    }
    for (operation_id, at, payload) in &effects.events {
        unit.journal.event(operation_id, EventKind::Progress, *at, payload)?;
    }
    effects.facts.into_iter().for_each(|fact| unit.witness(fact));
    effects.changes.into_iter().for_each(|change| unit.announce(change));
    start_operations(unit, effects.started).await
}
