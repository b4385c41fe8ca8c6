//! What waits for a node, in the order in which it goes.

use fettle_store::{StoreError, context::Context, id::NodeId, task::ReadyTask};
use fettle_store_rows::waiting::{Candidate, LOOKED_AT, Organisation, Queue, ReadyRow};
use sqlx_macros::FromRow;

use crate::{
    reader::Reader,
    unit::{Asking, Unit},
};

/// The columns of a candidate, from `tasks JOIN operations`.
macro_rules! candidate_columns {
    () => {
        "task_id, operation_id, operation_type, operations.org_id AS org_id,
         operations.project_id AS project_id, dispatched_at, requires,
         max_parallel_nodes, max_concurrency_global, max_concurrency_tenant, max_concurrency_project"
    };
}
pub(crate) use candidate_columns;

/// The organisations that wait, each turn of the recursion one step in the index; and the first tasks of each, found in
/// the order of the index before anything is read of their operations.
/// Those behind the sixty-fourth wait until some of these have gone.
const WAITING: &str = concat!(
    "WITH RECURSIVE waiting (org_id) AS (
         SELECT min(org_id) FROM tasks WHERE node_id = $1 AND status = 'ready'
         UNION ALL
         SELECT (SELECT min(tasks.org_id) FROM tasks
                 WHERE node_id = $1 AND status = 'ready' AND tasks.org_id > waiting.org_id)
         FROM waiting WHERE waiting.org_id IS NOT NULL),
     line AS MATERIALIZED (
         SELECT org_id,
             (SELECT count(*) FROM tasks
              WHERE node_id = $1 AND status = 'leased' AND tasks.org_id = waiting.org_id) AS held,
             (SELECT last_turn_at FROM node_turns
              WHERE node_id = $1 AND node_turns.org_id = waiting.org_id) AS last_turn_at
         FROM waiting WHERE org_id IS NOT NULL)
     SELECT ",
    candidate_columns!(),
    ", held, last_turn_at
     FROM line CROSS JOIN LATERAL (
         SELECT task_id, operation_id, priority FROM tasks
         WHERE tasks.node_id = $1 AND tasks.org_id = line.org_id AND tasks.status = 'ready'
         ORDER BY tasks.priority DESC, task_id LIMIT $2) AS task JOIN operations USING (operation_id)
     ORDER BY line.org_id, task.priority DESC, task_id"
);

#[derive(FromRow)]
struct Row {
    #[sqlx(flatten)]
    organisation: Organisation,
    #[sqlx(flatten)]
    candidate: Candidate,
}

/// Reads what waits for a node: of each organisation the first `depth` tasks.
pub(crate) async fn read(unit: &mut Unit, node_id: NodeId, depth: u32) -> Result<Queue, StoreError> {
    let bind = |query: Asking<Row>| query.bind(node_id.to_string()).bind(i64::from(depth));
    queue(unit.look(WAITING, bind).await?, depth)
}

fn queue(rows: Vec<Row>, depth: u32) -> Result<Queue, StoreError> {
    let mut found: Vec<(Organisation, Vec<Candidate>)> = Vec::new();
    for Row { organisation, candidate } in rows {
        match found.last_mut().filter(|(known, _)| known.org_id == organisation.org_id) {
            Some((_, candidates)) => candidates.push(candidate),
            None => found.push((organisation, vec![candidate])),
        }
    }
    let lines = found.into_iter().map(|(organisation, candidates)| organisation.line(candidates));
    Ok(Queue::new(lines.collect::<Result<_, _>>()?, depth))
}

/// The tasks in the order in which they go, for who decides about them.
pub(crate) async fn ready_tasks(reader: &Reader, node_id: NodeId) -> Result<Vec<ReadyTask>, StoreError> {
    const VERB: &str = "ready_tasks";
    let bind = |query: Asking<Row>| query.bind(node_id.to_string()).bind(i64::from(LOOKED_AT));
    let queue = queue(reader.all(VERB, WAITING, bind).await?, LOOKED_AT)?;
    let ids: Vec<String> = queue.candidates.into_iter().map(|candidate| candidate.task_id).collect();
    let sql = "SELECT task_id, operation_id, operation_type, version, operations.org_id AS org_id, project_id, inputs,
                   requested_by_user_id, created_at
               FROM tasks JOIN operations USING (operation_id) WHERE task_id = ANY($1)
               ORDER BY array_position($1, task_id)";
    let rows = reader.all(VERB, sql, |query: Asking<ReadyRow>| query.bind(ids.clone())).await?;
    rows.into_iter().map(ReadyRow::task).collect()
}

/// Remembers that the organisation went while others waited.
pub(crate) async fn take_turn(
    unit: &mut Unit,
    node_id: NodeId,
    candidate: &Candidate,
    context: &Context,
) -> Result<(), StoreError> {
    let org_id = candidate.org_id.clone();
    let at = context.at.as_millisecond();
    unit.execute(
        "INSERT INTO node_turns (node_id, org_id, last_turn_at) VALUES ($1, $2, $3)
         ON CONFLICT (node_id, org_id) DO UPDATE SET last_turn_at = excluded.last_turn_at",
        |query| query.bind(node_id.to_string()).bind(org_id).bind(at),
    )
    .await?;
    Ok(())
}
