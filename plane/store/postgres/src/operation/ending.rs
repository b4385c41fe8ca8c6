//! The end of a task, and with its last task, of an operation.

use std::collections::BTreeMap;

use fettle_model::{failure::Failure, operation::StepOutcome};
use fettle_store::{StoreError, change::Change, context::Context, fact::Fact};
use fettle_store_rows::ending::Tally;
use fettle_store_rows::subject::Subject;
pub(crate) use fettle_store_rows::task::TaskEnding;

use crate::{
    row,
    unit::{Asking, Unit},
};

/// A task that is over from now on.
pub(crate) struct Ended<'e> {
    pub(crate) subject: Subject,
    pub(crate) task_id: String,
    pub(crate) ending: TaskEnding,
    pub(crate) context: &'e Context,
}

/// Ends tasks that are not over, settles the steps that have no result, and ends the operations of which they were the
/// last tasks. The tasks are locked.
pub(crate) async fn end_tasks(unit: &mut Unit, ended: &[Ended<'_>]) -> Result<(), StoreError> {
    if ended.is_empty() {
        return Ok(());
    }
    // Two tasks of one operation may end at two planes: each waits here for the other.
    let operations: Vec<String> = ended.iter().map(|task| task.subject.operation_id.clone()).collect();
    let lock = "SELECT 1 FROM operations WHERE operation_id = ANY($1) ORDER BY operation_id FOR NO KEY UPDATE";
    unit.execute(lock, |query| query.bind(operations)).await?;
    let (tasks, statuses): (Vec<String>, Vec<&'static str>) =
        ended.iter().map(|task| (task.task_id.clone(), task.ending.status())).unzip();
    unit.execute(
        "UPDATE tasks SET status = ended.status, deadline = NULL
         FROM unnest($1::text[], $2::text[]) AS ended (task_id, status) WHERE tasks.task_id = ended.task_id",
        |query| query.bind(tasks).bind(statuses),
    )
    .await?;
    for task in ended {
        settle_steps(unit, std::slice::from_ref(&task.task_id), &task.ending, task.context).await?;
        if let TaskEnding::Failed { failure, .. } = &task.ending {
            keep_failure(unit, &task.subject, failure).await?;
        }
        unit.announce(task.subject.change()?);
    }
    unit.announce(Change::Lease);
    // The last of an operation says how it ended.
    let last: BTreeMap<&str, &Ended<'_>> =
        ended.iter().map(|task| (task.subject.operation_id.as_str(), task)).collect();
    let mut over = Vec::new();
    for tally in tallies(unit, last.keys().map(ToString::to_string).collect()).await? {
        if let Some(&task) = last.get(tally.operation_id.as_str())
            && go_on(unit, task, &tally).await?
        {
            over.push((task, tally));
        }
    }
    end_operations(unit, &over).await
}

/// The same for one task.
pub(crate) async fn end_task(
    unit: &mut Unit,
    subject: &Subject,
    task_id: &str,
    ending: &TaskEnding,
    context: &Context,
) -> Result<(), StoreError> {
    let (subject, task_id, ending) = (subject.clone(), task_id.to_owned(), ending.clone());
    end_tasks(unit, &[Ended { subject, task_id, ending, context }]).await
}

/// Takes the consequences for the other tasks of an operation. Answers whether nothing of it is left to do.
async fn go_on(unit: &mut Unit, task: &Ended<'_>, tally: &Tally) -> Result<bool, StoreError> {
    if tally.is_budget_exhausted() {
        skip_the_rest(unit, &task.subject, task.context).await?;
    } else if tally.ready > 0 {
        let next = unit.look(NEXT, |query: Asking<(String,)>| query.bind(task.subject.operation_id.clone())).await?;
        wake(unit, next)?;
    }
    Ok(tally.is_over())
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

/// How all tasks of the newest run stand, counted for each operation on its own: joined first, every task there is may be
/// read.
const TALLIES: &str = "
SELECT operation_id, tally.*, failure, failure_budget
FROM operations CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE status = 'ready') AS ready, count(*) FILTER (WHERE status = 'leased') AS leased,
        count(*) FILTER (WHERE status = 'failed') AS failed, count(*) FILTER (WHERE status = 'canceled') AS canceled
    FROM tasks WHERE tasks.operation_id = operations.operation_id AND superseded = 0) AS tally
WHERE operation_id = ANY($1)";

async fn tallies(unit: &mut Unit, operations: Vec<String>) -> Result<Vec<Tally>, StoreError> {
    unit.look(TALLIES, |query: Asking<Tally>| query.bind(operations)).await
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
/// go at once. In the order in which they are to be woken.
const NEXT: &str = "
SELECT node_id FROM tasks JOIN operations USING (operation_id)
WHERE operation_id = $1 AND tasks.status = 'ready' AND max_parallel_nodes IS NOT NULL ORDER BY task_id";

/// Ends operations. Answers nodes with one that may have waited for them: of the same type, and limited in number.
const OVER: &str = "
WITH over AS (
    UPDATE operations SET status = ended.status, finished_at = ended.at
    FROM unnest($1::text[], $2::text[], $3::bigint[]) AS ended (operation_id, status, at)
    WHERE operations.operation_id = ended.operation_id
)
SELECT DISTINCT node_id FROM operations JOIN tasks USING (operation_id)
WHERE operation_type = ANY($4) AND tasks.status = 'ready' AND operations.status = 'queued' AND dispatched_at IS NULL
    AND coalesce(max_concurrency_global, max_concurrency_tenant, max_concurrency_project) IS NOT NULL";

fn wake(unit: &mut Unit, nodes: Vec<(String,)>) -> Result<(), StoreError> {
    for (node_id,) in nodes {
        unit.announce(Change::TaskReady(row::parse("node", &node_id)?));
    }
    Ok(())
}

async fn end_operations(unit: &mut Unit, over: &[(&Ended<'_>, Tally)]) -> Result<(), StoreError> {
    if over.is_empty() {
        return Ok(());
    }
    let column =
        |of: fn(&Subject) -> &String| over.iter().map(|(task, _)| of(&task.subject).clone()).collect::<Vec<_>>();
    let mut types = column(|subject| &subject.operation_type);
    types.sort_unstable();
    types.dedup();
    let behind = unit
        .change(OVER, |query: Asking<(String,)>| {
            query
                .bind(column(|subject| &subject.operation_id))
                .bind(over.iter().map(|(_, tally)| tally.ending().0.name()).collect::<Vec<_>>())
                .bind(over.iter().map(|(task, _)| task.context.at.as_millisecond()).collect::<Vec<_>>())
                .bind(types)
        })
        .await?;
    wake(unit, behind)?;
    for (Ended { subject, ending, context, .. }, tally) in over {
        let (status, kind) = tally.ending();
        unit.witness(Fact::OperationEnded { about: subject.about(), status, error_code: tally.error_code()? });
        unit.journal.event(&subject.operation_id, kind, context.at, &tally.payload(subject, ending)?)?;
    }
    Ok(())
}
