//! The end of a task, and with its last task, of an operation.

use std::collections::{BTreeMap, BTreeSet};

use fettle_model::{failure::Failure, operation::StepOutcome};
use fettle_store::{StoreError, change::Change, context::Context, fact::Fact};
use fettle_store_rows::ending::Tally;
pub(crate) use fettle_store_rows::task::TaskEnding;

use crate::{error::unavailable, list, operation::subject::Subject, row, writer::Unit};

const VERB: &str = "finish_task";

/// A task that is over from now on.
pub(crate) struct Ended<'e> {
    pub(crate) subject: Subject,
    pub(crate) task_id: String,
    pub(crate) ending: TaskEnding,
    pub(crate) context: &'e Context,
}

/// Ends tasks that are not over, settles the steps that have no result, and ends the operations of which they were the
/// last tasks.
pub(crate) async fn end_tasks(unit: &mut Unit, ended: &[Ended<'_>]) -> Result<(), StoreError> {
    if ended.is_empty() {
        return Ok(());
    }
    for task in ended {
        settle_steps(unit, &task.task_id, &task.ending, task.context).await?;
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
    for tally in close(unit, ended, &last.keys().collect::<Vec<_>>()).await? {
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
        let next = next_nodes(unit, &task.subject).await?;
        wake(unit, next)?;
    }
    Ok(tally.is_over())
}

/// Steps without a result get the one that follows from the task's end.
async fn settle_steps(
    unit: &mut Unit,
    task_id: &str,
    ending: &TaskEnding,
    context: &Context,
) -> Result<(), StoreError> {
    match ending {
        TaskEnding::Succeeded => Ok(()),
        TaskEnding::Canceled => settle(unit, task_id, None, &StepOutcome::Canceled, context).await,
        TaskEnding::Skipped => {
            settle(unit, task_id, None, &StepOutcome::Skipped { because_of: String::new() }, context).await
        }
        TaskEnding::Failed { failure, step_id } => {
            if let Some(step_id) = step_id {
                let failed = StepOutcome::Failed { failure: failure.clone() };
                settle(unit, task_id, Some(step_id), &failed, context).await?;
            }
            let because_of = step_id.clone().unwrap_or_default();
            settle(unit, task_id, None, &StepOutcome::Skipped { because_of }, context).await
        }
    }
}

async fn settle(
    unit: &mut Unit,
    task_id: &str,
    step_id: Option<&str>,
    outcome: &StepOutcome,
    context: &Context,
) -> Result<(), StoreError> {
    // A step that runs was started: it is canceled, never skipped.
    let running = if matches!(outcome, StepOutcome::Skipped { .. }) { &StepOutcome::Canceled } else { outcome };
    for (status, outcome) in [("pending", outcome), ("running", running)] {
        sqlx::query(
            "UPDATE operation_steps SET status = $4, outcome = $5, finished_at = $6
             WHERE task_id = $1 AND ($2 IS NULL OR step_id = $2) AND status = $3",
        )
        .bind(task_id)
        .bind(step_id)
        .bind(status)
        .bind(outcome.status().name())
        .bind(row::text("outcome", outcome)?)
        .bind(context.at.as_millisecond())
        .execute(&mut unit.connection)
        .await
        .map_err(unavailable(VERB))?;
    }
    Ok(())
}

/// The first failure is the operation's.
pub(crate) async fn keep_failure(unit: &mut Unit, subject: &Subject, failure: &Failure) -> Result<(), StoreError> {
    sqlx::query("UPDATE operations SET failure = coalesce(failure, $2) WHERE operation_id = $1")
        .bind(&subject.operation_id)
        .bind(row::text("failure", failure)?)
        .execute(&mut unit.connection)
        .await
        .map_err(unavailable(VERB))?;
    Ok(())
}

/// Writes the end of tasks, and counts how those of their operations stand.
async fn close(unit: &mut Unit, ended: &[Ended<'_>], operations: &[&&str]) -> Result<Vec<Tally>, StoreError> {
    let tasks: Vec<_> = ended.iter().map(|task| (&task.task_id, task.ending.status())).collect();
    let statement = sqlx::query_scalar(
        "UPDATE tasks SET status = ended.value ->> 1, deadline = NULL FROM json_each($1) AS ended
         WHERE task_id = ended.value ->> 0;
         SELECT json_group_array(json_array(operation_id, ready, leased, failed, canceled, failure, failure_budget))
         FROM (SELECT operation_id, count(*) FILTER (WHERE tasks.status = 'ready') AS ready,
                   count(*) FILTER (WHERE tasks.status = 'leased') AS leased,
                   count(*) FILTER (WHERE tasks.status = 'failed') AS failed,
                   count(*) FILTER (WHERE tasks.status = 'canceled') AS canceled,
                   operations.failure AS failure, failure_budget
               FROM json_each($2) AS ended CROSS JOIN tasks ON tasks.operation_id = ended.value
                   JOIN operations USING (operation_id)
               WHERE superseded = 0 GROUP BY operation_id)",
    );
    let statement = statement.bind(row::text("task", &tasks)?).bind(row::text("operation", &operations)?);
    list::read(&mut unit.connection, (VERB, "operation"), statement).await
}

/// Ends the tasks that no node has taken.
async fn skip_the_rest(unit: &mut Unit, subject: &Subject, context: &Context) -> Result<(), StoreError> {
    let skipped: Vec<(String,)> = sqlx::query_as(
        "UPDATE tasks SET status = 'skipped', deadline = NULL WHERE operation_id = $1 AND status = 'ready'
         RETURNING task_id",
    )
    .bind(&subject.operation_id)
    .fetch_all(&mut unit.connection)
    .await
    .map_err(unavailable(VERB))?;
    for (task_id,) in skipped {
        settle_steps(unit, &task_id, &TaskEnding::Skipped, context).await?;
    }
    Ok(())
}

/// Nodes whose task of the operation may have waited for the one that ended; none where nothing limits how many go at once.
/// In the order in which they are to be woken.
async fn next_nodes(unit: &mut Unit, subject: &Subject) -> Result<Vec<(String,)>, StoreError> {
    sqlx::query_as(
        "SELECT node_id FROM tasks JOIN operations USING (operation_id)
         WHERE operation_id = $1 AND tasks.status = 'ready' AND max_parallel_nodes IS NOT NULL ORDER BY task_id",
    )
    .bind(&subject.operation_id)
    .fetch_all(&mut unit.connection)
    .await
    .map_err(unavailable(VERB))
}

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
    let rows = over
        .iter()
        .map(|(task, tally)| (&task.subject.operation_id, tally.ending().0.name(), task.context.at.as_millisecond()));
    // Also the nodes with an operation that may have waited for one of these types, and is limited in number.
    let statement = sqlx::query_as(
        "UPDATE operations SET status = ended.value ->> 1, finished_at = ended.value ->> 2 FROM json_each($1) AS ended
         WHERE operation_id = ended.value ->> 0;
         SELECT DISTINCT node_id FROM json_each($2) AS ended
             CROSS JOIN operations ON operations.operation_type = ended.value JOIN tasks USING (operation_id)
         WHERE tasks.status = 'ready' AND operations.status = 'queued' AND dispatched_at IS NULL
             AND coalesce(max_concurrency_global, max_concurrency_tenant, max_concurrency_project) IS NOT NULL",
    );
    let types: BTreeSet<&str> = over.iter().map(|(task, _)| task.subject.operation_type.as_str()).collect();
    let statement = statement.bind(row::text("operation", &rows.collect::<Vec<_>>())?);
    let statement = statement.bind(row::text("operation", &types)?);
    let behind = statement.fetch_all(&mut unit.connection).await.map_err(unavailable(VERB))?;
    wake(unit, behind)?;
    for (Ended { subject, ending, context, .. }, tally) in over {
        let (status, kind) = tally.ending();
        unit.witness(Fact::OperationEnded { about: subject.about(), status, error_code: tally.error_code()? });
        unit.journal.event(&subject.operation_id, kind, context.at, &tally.payload(subject, ending)?)?;
    }
    Ok(())
}
