//! Operations that are not over when they must be.

use fettle_store::{StoreError, change::Change, context::Context};
use fettle_store_rows::ending::deadline_exceeded;

use super::{
    cancel::{lock_tasks, stop_tasks},
    ending::{self, TaskEnding},
};
use crate::{
    audit,
    task::subject,
    unit::{Asking, Unit},
};

/// Ends what no node has taken; what runs is asked to stop, and fails when it has. Any plane may do it, and
/// several at once: tasks are locked before their operation, and whoever comes second finds nothing to do.
pub(crate) async fn expire(unit: &mut Unit, context: &Context) -> Result<u64, StoreError> {
    let at = context.at.as_millisecond();
    let sql = "SELECT operation_id FROM operations
               WHERE deadline <= $1 AND deadline IS NOT NULL AND finished_at IS NULL AND NOT deadline_passed
               ORDER BY operation_id";
    let due = unit.look(sql, |query: Asking<(String,)>| query.bind(at)).await?;
    let mut ended = 0;
    for (operation_id,) in due {
        let tasks = lock_tasks(unit, &operation_id).await?;
        let passed = unit
            .execute(
                "UPDATE operations SET deadline_passed = TRUE
                 WHERE operation_id = $1 AND deadline <= $2 AND finished_at IS NULL AND NOT deadline_passed",
                |query| query.bind(operation_id.clone()).bind(at),
            )
            .await?;
        if passed == 0 {
            continue;
        }
        let subject = subject(unit, &operation_id).await?;
        let failure = deadline_exceeded();
        ending::keep_failure(unit, &subject, &failure).await?;
        audit::record_of(unit, context, &subject, "operation.expire", &subject.resource_name());
        stop_tasks(unit, &subject, &tasks, &TaskEnding::Failed { failure, step_id: None }, context).await?;
        unit.announce(subject.change()?);
        ended += 1;
    }
    unit.announce(Change::Deadline);
    Ok(ended)
}
