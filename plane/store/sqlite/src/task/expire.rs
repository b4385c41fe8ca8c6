//! Ending leases that nobody holds any more.

use fettle_store::{StoreError, change::Change, context::Context, fact::Fact, id::NodeId};
use fettle_store_rows::settlement::leased_too_often;

use super::settlement;
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

pub(crate) async fn expire(unit: &mut Unit, most: u32, context: &Context) -> Result<u64, StoreError> {
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
        end_lease(unit, &subject, (&task_id, node_id, most), "task.lease_expire", context).await?;
        ended += 1;
    }
    Ok(ended)
}

/// Makes the task ready again, or ends it when it should be canceled anyway, or was leased too often. The epoch stays: it grows
/// with the next lease, and until then nothing is accepted.
pub(crate) async fn end_lease(
    unit: &mut Unit,
    subject: &Subject,
    (task_id, node_id, most): (&str, NodeId, u32),
    action: &'static str,
    context: &Context,
) -> Result<(), StoreError> {
    audit::record_of(unit, context, subject, action, &format!("tasks/{task_id}"));
    unit.witness(Fact::LeaseEnded { about: subject.about(), task_id: task_id.to_owned(), action });
    let returned: Option<(i64,)> = sqlx::query_as(
        "UPDATE tasks SET status = 'ready', deadline = NULL, lost_leases = lost_leases + 1
         WHERE task_id = $1 AND cancel_requested = 0 RETURNING lost_leases",
    )
    .bind(task_id)
    .fetch_optional(&mut unit.connection)
    .await
    .map_err(unavailable(VERB))?;
    let ending = match returned {
        None => Some(TaskEnding::Canceled),
        Some((lost,)) if lost >= i64::from(most) => {
            Some(TaskEnding::Failed { failure: leased_too_often(lost), step_id: None })
        }
        Some(_) => None,
    };
    if let Some(ending) = ending {
        settlement::leave_in_question(unit, task_id).await?;
        ending::end_task(unit, subject, task_id, &ending, context).await?;
        // Its slot is free for another task.
        unit.announce(Change::TaskReady(node_id));
        return Ok(());
    }
    unit.announce(Change::TaskReady(node_id));
    unit.announce(Change::Lease);
    Ok(())
}
