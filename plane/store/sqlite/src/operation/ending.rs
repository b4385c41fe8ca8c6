//! The end of a task, and with its last task, of an operation.

use fettle_model::{failure::Failure, operation::StepOutcome};
use fettle_store::{StoreError, change::Change, context::Context, fact::Fact};
use fettle_store_rows::ending::Tally;
pub(crate) use fettle_store_rows::task::TaskEnding;

use crate::{error::unavailable, event, operation::subject::Subject, row, writer::Unit};

const VERB: &str = "finish_task";

/// Ends a task that is not over, settles the steps that have no result, and ends the operation when
/// this was its last task.
pub(crate) async fn end_task(
    unit: &mut Unit,
    subject: &Subject,
    task_id: &str,
    ending: &TaskEnding,
    context: &Context,
) -> Result<(), StoreError> {
    sqlx::query("UPDATE tasks SET status = $2, deadline = NULL WHERE task_id = $1")
        .bind(task_id)
        .bind(ending.status())
        .execute(&mut unit.connection)
        .await
        .map_err(unavailable(VERB))?;
    settle_steps(unit, task_id, ending, context).await?;
    if let TaskEnding::Failed { failure, .. } = ending {
        keep_failure(unit, subject, failure).await?;
    }
    let tally = tally(unit, subject).await?;
    if tally.is_budget_exhausted() {
        skip_the_rest(unit, subject, context).await?;
    } else if tally.ready > 0 {
        let next = next_nodes(unit, subject).await?;
        wake(unit, next)?;
    }
    if tally.is_over() {
        end_operation(unit, subject, ending, &tally, context).await?;
    }
    unit.announce(Change::Lease);
    unit.announce(subject.change()?);
    Ok(())
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

async fn tally(unit: &mut Unit, subject: &Subject) -> Result<Tally, StoreError> {
    sqlx::query_as(
        "SELECT count(*) FILTER (WHERE tasks.status = 'ready') AS ready,
             count(*) FILTER (WHERE tasks.status = 'leased') AS leased,
             count(*) FILTER (WHERE tasks.status = 'failed') AS failed,
             count(*) FILTER (WHERE tasks.status = 'canceled') AS canceled,
             operations.failure AS failure, failure_budget
         FROM tasks JOIN operations USING (operation_id)
         WHERE operation_id = $1 AND superseded = 0 GROUP BY operation_id",
    )
    .bind(&subject.operation_id)
    .fetch_one(&mut unit.connection)
    .await
    .map_err(unavailable(VERB))
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
async fn next_nodes(unit: &mut Unit, subject: &Subject) -> Result<Vec<(String,)>, StoreError> {
    sqlx::query_as(
        "SELECT node_id FROM tasks JOIN operations USING (operation_id)
         WHERE operation_id = $1 AND tasks.status = 'ready' AND max_parallel_nodes IS NOT NULL",
    )
    .bind(&subject.operation_id)
    .fetch_all(&mut unit.connection)
    .await
    .map_err(unavailable(VERB))
}

/// Nodes with an operation that may have waited for this one: of the same type, and limited in number.
async fn nodes_behind(unit: &mut Unit, subject: &Subject) -> Result<Vec<(String,)>, StoreError> {
    sqlx::query_as(
        "SELECT DISTINCT node_id FROM operations JOIN tasks USING (operation_id)
         WHERE operation_type = $1 AND tasks.status = 'ready'
             AND operations.status = 'queued' AND dispatched_at IS NULL
             AND coalesce(max_concurrency_global, max_concurrency_tenant, max_concurrency_project) IS NOT NULL",
    )
    .bind(&subject.operation_type)
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

async fn end_operation(
    unit: &mut Unit,
    subject: &Subject,
    ending: &TaskEnding,
    tally: &Tally,
    context: &Context,
) -> Result<(), StoreError> {
    let (status, kind) = tally.ending();
    sqlx::query("UPDATE operations SET status = $2, finished_at = $3 WHERE operation_id = $1")
        .bind(&subject.operation_id)
        .bind(status.name())
        .bind(context.at.as_millisecond())
        .execute(&mut unit.connection)
        .await
        .map_err(unavailable(VERB))?;
    let behind = nodes_behind(unit, subject).await?;
    wake(unit, behind)?;
    unit.witness(Fact::OperationEnded { about: subject.about(), status, error_code: tally.error_code()? });
    event::append(unit, &subject.operation_id, kind, context.at, &tally.payload(subject, ending)?).await
}
