//! The nodes of an operation, and what each still waits for.

use fettle_store::{StoreError, id::OperationId, operation::NodeTask};
use fettle_store_rows::waiting::NodeTaskRow;
use jiff::Timestamp;
use sqlx::SqliteConnection;

use crate::{
    error::unavailable,
    task::{
        admission::{self, node_columns},
        queue::candidate_columns,
    },
};

pub(crate) async fn node_tasks(
    connection: &mut SqliteConnection,
    id: OperationId,
    heard_since: Timestamp,
) -> Result<Vec<NodeTask>, StoreError> {
    let rows: Vec<NodeTaskRow> = sqlx::query_as(concat!(
        "SELECT tasks.status AS status, tasks.run AS task_run, ",
        node_columns!(),
        ", ",
        candidate_columns!(),
        " FROM tasks JOIN operations USING (operation_id) JOIN nodes USING (node_id)
         WHERE operation_id = $1 AND superseded = 0 ORDER BY name"
    ))
    .bind(id.to_string())
    .fetch_all(&mut *connection)
    .await
    .map_err(unavailable("node_tasks"))?;
    let mut tasks = Vec::with_capacity(rows.len());
    for found in rows {
        let mut waits = Vec::new();
        if found.is_ready() {
            waits = found.node.waits(heard_since)?;
            waits.extend(admission::refusals(connection, &found.node, &found.candidate).await?);
        }
        tasks.push(found.task(waits)?);
    }
    Ok(tasks)
}
