//! Ending leases that nobody holds any more.

use fettle_store::{StoreError, change::Change, context::Context, fact::Fact, id::NodeId};

use crate::{
    audit,
    error::unavailable,
    operation::{
        ending::{self, TaskEnding},
        subject::{self, Subject},
    },
    row,
    writer::Unit,
};

const VERB: &str = "expire_leases";

pub(crate) async fn expire(unit: &mut Unit, context: &Context) -> Result<u64, StoreError> {
    let due: Vec<(String, String, String)> = sqlx::query_as(
        "SELECT task_id, operation_id, node_id FROM tasks WHERE status = 'leased' AND deadline <= $1 ORDER BY task_id",
    )
    .bind(context.at.as_millisecond())
    .fetch_all(&mut unit.connection)
    .await
    .map_err(unavailable(VERB))?;
    let mut ended = 0;
    for (task_id, operation_id, node_id) in due {
        let subject = subject::read(unit, &operation_id).await?;
        let node_id = row::parse("task", &node_id)?;
        end_lease(unit, &subject, &task_id, node_id, "task.lease_expire", context).await?;
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
    node_id: NodeId,
    action: &'static str,
    context: &Context,
) -> Result<(), StoreError> {
    audit::record_of(unit, context, subject, action, &format!("tasks/{task_id}")).await?;
    unit.witness(Fact::LeaseEnded { about: subject.about(), task_id: task_id.to_owned(), action });
    let returned =
        sqlx::query("UPDATE tasks SET status = 'ready', deadline = NULL WHERE task_id = $1 AND cancel_requested = 0")
            .bind(task_id)
            .execute(&mut unit.connection)
            .await
            .map_err(unavailable(VERB))?;
    if returned.rows_affected() == 0 {
        ending::end_task(unit, subject, task_id, &TaskEnding::Canceled, context).await?;
        // Its slot is free for another task.
        unit.announce(Change::TaskReady(node_id));
        return Ok(());
    }
    unit.announce(Change::TaskReady(node_id));
    unit.announce(Change::Lease);
    Ok(())
}
