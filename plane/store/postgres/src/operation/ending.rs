//! The end of a task, and with its last task, of an operation.

use fettle_model::{failure::Failure, operation::StepOutcome};
use fettle_store::{StoreError, change::Change, context::Context, fact::Fact};
use fettle_store_rows::ending::Tally;
use fettle_store_rows::subject::Subject;
pub(crate) use fettle_store_rows::task::TaskEnding;

use crate::{
    row,
    unit::{Asking, Unit},
};

/// Ends a task that is not over, settles the steps that have no result, and ends the operation when this was its
/// last task. The task is locked.
pub(crate) async fn end_task(
    unit: &mut Unit,
    subject: &Subject,
    task_id: &str,
    ending: &TaskEnding,
    context: &Context,
) -> Result<(), StoreError> {
    // Two tasks of one operation may end at two planes: each waits here for the other.
    unit.execute("SELECT 1 FROM operations WHERE operation_id = $1 FOR NO KEY UPDATE", |query| {
        query.bind(subject.operation_id.clone())
    })
    .await?;
    settle_steps(unit, &[task_id.to_owned()], ending, context).await?;
    let tally = end_and_count(unit, subject, task_id, ending).await?;
    if tally.is_budget_exhausted() {
        skip_the_rest(unit, subject, context).await?;
    } else if tally.ready > 0 {
        let next = unit.look(NEXT, |query: Asking<(String,)>| query.bind(subject.operation_id.clone())).await?;
        wake(unit, next)?;
    }
    if tally.is_over() {
        end_operation(unit, subject, ending, &tally, context).await?;
    }
    unit.announce(Change::Lease);
    unit.announce(subject.change()?);
    Ok(())
}

/// Steps without a result get the one that follows from the task's end. A step that runs was started: it is
/// canceled, never skipped.
const SETTLE: &str = "
UPDATE operation_steps SET
    status = CASE WHEN step_id = $2 THEN 'failed' WHEN status = 'running' THEN 'canceled' ELSE $4 END,
    outcome = CASE WHEN step_id = $2 THEN $3 WHEN status = 'running' THEN $6 ELSE $5 END,
    finished_at = $7
WHERE task_id = ANY($1) AND status IN ('pending', 'running')";

async fn settle_steps(
    unit: &mut Unit,
    task_ids: &[String],
    ending: &TaskEnding,
    context: &Context,
) -> Result<(), StoreError> {
    let (failed, step, rest) = match ending {
        TaskEnding::Succeeded => return Ok(()),
        TaskEnding::Canceled => (None, None, StepOutcome::Canceled),
        TaskEnding::Skipped => (None, None, StepOutcome::Skipped { because_of: String::new() }),
        TaskEnding::Failed { failure, step_id } => (
            step_id.is_some().then(|| StepOutcome::Failed { failure: failure.clone() }),
            step_id.clone(),
            StepOutcome::Skipped { because_of: step_id.clone().unwrap_or_default() },
        ),
    };
    let failed = failed.map(|outcome| row::text("outcome", &outcome)).transpose()?;
    let canceled = row::text("outcome", &StepOutcome::Canceled)?;
    let (status, outcome) = (rest.status().name(), row::text("outcome", &rest)?);
    unit.execute(SETTLE, |query| {
        query
            .bind(task_ids.to_vec())
            .bind(step)
            .bind(failed)
            .bind(status)
            .bind(outcome)
            .bind(canceled)
            .bind(context.at.as_millisecond())
    })
    .await?;
    Ok(())
}

/// The first failure is the operation's.
pub(crate) async fn keep_failure(unit: &mut Unit, subject: &Subject, failure: &Failure) -> Result<(), StoreError> {
    let failure = row::text("failure", failure)?;
    unit.execute("UPDATE operations SET failure = coalesce(failure, $2) WHERE operation_id = $1", |query| {
        query.bind(subject.operation_id.clone()).bind(failure)
    })
    .await?;
    Ok(())
}

/// Ends the task, keeps the first failure, and counts how all tasks of the newest run stand then.
const END: &str = "
WITH task AS (
    UPDATE tasks SET status = $3, deadline = NULL WHERE task_id = $2
), operation AS (
    UPDATE operations SET failure = coalesce(failure, $4) WHERE operation_id = $1 RETURNING failure, failure_budget
), all_tasks AS (
    SELECT status FROM tasks WHERE operation_id = $1 AND task_id <> $2 AND superseded = 0
    UNION ALL
    SELECT $3
)
SELECT (SELECT count(*) FROM all_tasks WHERE status = 'ready') AS ready,
    (SELECT count(*) FROM all_tasks WHERE status = 'leased') AS leased,
    (SELECT count(*) FROM all_tasks WHERE status = 'failed') AS failed,
    (SELECT count(*) FROM all_tasks WHERE status = 'canceled') AS canceled,
    failure, failure_budget
FROM operation";

async fn end_and_count(
    unit: &mut Unit,
    subject: &Subject,
    task_id: &str,
    ending: &TaskEnding,
) -> Result<Tally, StoreError> {
    let failure: Option<&Failure> = if let TaskEnding::Failed { failure, .. } = ending { Some(failure) } else { None };
    let failure = failure.map(|failure| row::text("failure", failure)).transpose()?;
    let tally = unit
        .change_one(END, |query: Asking<Tally>| {
            query.bind(subject.operation_id.clone()).bind(task_id.to_owned()).bind(ending.status()).bind(failure)
        })
        .await?;
    tally.ok_or_else(|| StoreError::not_found("operation", &subject.operation_id))
}

/// Ends the tasks that no node has taken.
async fn skip_the_rest(unit: &mut Unit, subject: &Subject, context: &Context) -> Result<(), StoreError> {
    let sql = "UPDATE tasks SET status = 'skipped', deadline = NULL WHERE operation_id = $1 AND status = 'ready'
               RETURNING task_id";
    let skipped = unit.change(sql, |query: Asking<(String,)>| query.bind(subject.operation_id.clone())).await?;
    let task_ids: Vec<String> = skipped.into_iter().map(|(task_id,)| task_id).collect();
    settle_steps(unit, &task_ids, &TaskEnding::Skipped, context).await
}

/// Nodes whose task of the operation may have waited for the one that ended; none where nothing limits how many
/// go at once.
const NEXT: &str = "
SELECT node_id FROM tasks JOIN operations USING (operation_id)
WHERE operation_id = $1 AND tasks.status = 'ready' AND max_parallel_nodes IS NOT NULL";

/// Ends the operation. Answers nodes with one that may have waited for it: of the same type, and limited in number.
const OVER: &str = "
WITH over AS (
    UPDATE operations SET status = $2, finished_at = $3 WHERE operation_id = $1
)
SELECT DISTINCT node_id FROM operations JOIN tasks USING (operation_id)
WHERE operation_type = $4 AND tasks.status = 'ready' AND operations.status = 'queued' AND dispatched_at IS NULL
    AND coalesce(max_concurrency_global, max_concurrency_tenant, max_concurrency_project) IS NOT NULL";

fn wake(unit: &mut Unit, nodes: Vec<(String,)>) -> Result<(), StoreError> {
    for (node_id,) in nodes {
        unit.announce(Change::TaskReady(row::parse("node", &node_id)?));
    }
    Ok(())
}

async fn end_operation(
    unit: &mut Unit,
    subject: &Subject,
    ending: &TaskEnding,
    tally: &Tally,
    context: &Context,
) -> Result<(), StoreError> {
    let (status, kind) = tally.ending();
    let behind = unit
        .change(OVER, |query: Asking<(String,)>| {
            query
                .bind(subject.operation_id.clone())
                .bind(status.name())
                .bind(context.at.as_millisecond())
                .bind(subject.operation_type.clone())
        })
        .await?;
    wake(unit, behind)?;
    unit.witness(Fact::OperationEnded { about: subject.about(), status, error_code: tally.error_code()? });
    unit.journal.event(&subject.operation_id, kind, context.at, &tally.payload(subject, ending)?)
}
