//! Ending leases that nobody holds any more.

use fettle_store::{StoreError, change::Change, context::Context};

use crate::{
    audit,
    error::unavailable,
    operation::{
        ending::{self, TaskEnding},
        subject::{self, Subject},
    },
    writer::Unit,
};

const VERB: &str = "expire_leases";

pub(crate) async fn expire(unit: &mut Unit, context: &Context) -> Result<u64, StoreError> {
    let due: Vec<(String, String)> = sqlx::query_as(
        "SELECT task_id, operation_id FROM tasks WHERE status = 'leased' AND deadline <= $1 ORDER BY task_id",
    )
    .bind(context.at.as_millisecond())
    .fetch_all(&mut unit.connection)
    .await
    .map_err(unavailable(VERB))?;
    let mut ended = 0;
    for (task_id, operation_id) in due {
        let subject = subject::read(unit, &operation_id).await?;
        end_lease(unit, &subject, &task_id, "task.lease_expire", context).await?;
        ended += 1;
    }
    Ok(ended)
}

/// Makes the task ready again, or ends it when it should be canceled anyway. The epoch stays: it grows
/// with the next lease, and until then nothing is accepted.
pub(crate) async fn end_lease(
    unit: &mut Unit,
    subject: &Subject,
    task_id: &str,
    action: &'static str,
    context: &Context,
) -> Result<(), StoreError> {
    audit::record_of(unit, context, subject, action, &format!("tasks/{task_id}")).await?;
    let returned =
        sqlx::query("UPDATE tasks SET status = 'ready', deadline = NULL WHERE task_id = $1 AND cancel_requested = 0")
            .bind(task_id)
            .execute(&mut unit.connection)
            .await
            .map_err(unavailable(VERB))?;
    if returned.rows_affected() == 0 {
        return ending::end_task(unit, subject, task_id, &TaskEnding::Canceled, context).await;
    }
    unit.announce(Change::TaskReady(subject.node_id()?));
    unit.announce(Change::Lease);
    Ok(())
}
