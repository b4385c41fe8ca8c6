//! Ending a task at its node's word.

use fettle_model::task::TaskOutcome;
use fettle_store::{
    StoreError,
    context::Context,
    id::TaskId,
    task::{LeaseKey, Verdict},
};
use fettle_store_rows::task::{not_canceled, step_not_succeeded};

use super::held::{self, Fence, start_operation};
use crate::{
    audit,
    operation::ending::{self, TaskEnding},
    unit::{Asking, Unit},
};

pub(crate) async fn finish(
    unit: &mut Unit,
    lease: LeaseKey,
    outcome: TaskOutcome,
    context: &Context,
) -> Result<Verdict, StoreError> {
    let Some(held) = held::read(unit, lease.task_id).await? else { return Ok(Verdict::Stale) };
    let (ending, action) = TaskEnding::reported(outcome);
    match held.fence(&lease) {
        Fence::Stale => return Ok(Verdict::Stale),
        // The answer to the first time was lost.
        Fence::Ended if held.status == ending.status() => return Ok(Verdict::Accepted),
        Fence::Ended => return Ok(Verdict::Stale),
        Fence::Current => {}
    }
    match ending {
        TaskEnding::Succeeded => refuse_unfinished(unit, lease.task_id).await?,
        TaskEnding::Canceled if held.cancel_requested == 0 => return Err(not_canceled(lease.task_id)),
        TaskEnding::Canceled | TaskEnding::Failed { .. } | TaskEnding::Skipped => {}
    }
    let subject = held.subject;
    if held.acknowledged == 0 {
        start_operation(unit, &subject.operation_id, context).await?;
    }
    audit::record_of(unit, context, &subject, action, &format!("tasks/{}", lease.task_id));
    ending::end_task(unit, &subject, &lease.task_id.to_string(), &ending, context).await?;
    Ok(Verdict::Accepted)
}

async fn refuse_unfinished(unit: &mut Unit, task_id: TaskId) -> Result<(), StoreError> {
    let sql = "SELECT step_id, status FROM operation_steps WHERE task_id = $1 AND status <> 'succeeded'
               ORDER BY step_index LIMIT 1";
    let found = unit.look_for(sql, |query: Asking<(String, String)>| query.bind(task_id.to_string())).await?;
    match found {
        None => Ok(()),
        Some((step_id, status)) => Err(step_not_succeeded(task_id, &step_id, &status)),
    }
}
