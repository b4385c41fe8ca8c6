//! The nodes of an operation, and what each still waits for.

use fettle_store::{StoreError, id::OperationId, operation::NodeTask};
use fettle_store_rows::waiting::NodeTaskRow;
use jiff::Timestamp;

use crate::{
    reader::Reader,
    task::{
        admission::{self, node_columns},
        queue::candidate_columns,
    },
    unit::Asking,
};

pub(crate) async fn node_tasks(
    reader: &Reader,
    id: OperationId,
    heard_since: Timestamp,
) -> Result<Vec<NodeTask>, StoreError> {
    let sql = concat!(
        "SELECT tasks.status AS status, tasks.run AS task_run, ",
        node_columns!(),
        ", ",
        candidate_columns!(),
        " FROM tasks JOIN operations USING (operation_id) JOIN nodes USING (node_id)
         WHERE operation_id = $1 AND superseded = 0 ORDER BY name"
    );
    let rows = reader.all("node_tasks", sql, |query: Asking<NodeTaskRow>| query.bind(id.to_string())).await?;
    let mut tasks = Vec::with_capacity(rows.len());
    for found in rows {
        let mut waits = Vec::new();
        if found.is_ready() {
            waits = found.node.waits(heard_since)?;
            let mut connection = reader.connection("node_tasks").await?;
            waits.extend(admission::refusals(&mut connection, &found.node, &found.candidate).await?);
        }
        tasks.push(found.task(waits)?);
    }
    Ok(tasks)
}
