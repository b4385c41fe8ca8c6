//! Operations that are not over when they must be.

use fettle_store::{StoreError, change::Change, context::Context};
use fettle_store_rows::ending::deadline_exceeded;

use crate::{
    audit,
    error::unavailable,
    operation::{
        cancel::stop_tasks,
        ending::{self, TaskEnding},
        subject,
    },
    writer::Unit,
};

const VERB: &str = "expire_operations";

/// Ends what no node has taken; what runs is asked to stop, and fails when it has.
pub(crate) async fn expire(unit: &mut Unit, context: &Context) -> Result<u64, StoreError> {
    let due: Vec<(String,)> = sqlx::query_as(
        "UPDATE operations SET deadline_passed = 1
         WHERE deadline <= $1 AND finished_at IS NULL AND deadline_passed = 0 AND deadline IS NOT NULL
         RETURNING operation_id",
    )
    .bind(context.at.as_millisecond())
    .fetch_all(&mut unit.connection)
    .await
    .map_err(unavailable(VERB))?;
    let mut ended = 0;
    for (operation_id,) in due {
        let subject = subject::read(unit, &operation_id).await?;
        let failure = deadline_exceeded();
        ending::keep_failure(unit, &subject, &failure).await?;
        audit::record_of(unit, context, &subject, "operation.expire", &subject.resource_name());
        stop_tasks(unit, &subject, &TaskEnding::Failed { failure, step_id: None }, context).await?;
        unit.announce(subject.change()?);
        ended += 1;
    }
    unit.announce(Change::Deadline);
    Ok(ended)
}
