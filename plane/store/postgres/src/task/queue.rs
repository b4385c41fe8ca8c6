//! What waits for a node, in the order in which it goes.

use fettle_store::{StoreError, context::Context, id::NodeId, queue::interleave};
pub(crate) use fettle_store_rows::waiting::Candidate;
use fettle_store_rows::waiting::Organisation;
use sqlx::FromRow;

use crate::unit::{Asking, Unit};

/// The columns of a candidate, from `tasks JOIN operations`.
macro_rules! candidate_columns {
    () => {
        "task_id, operation_id, operation_type, operations.org_id AS org_id,
         operations.project_id AS project_id, dispatched_at, requires,
         max_parallel_nodes, max_concurrency_global, max_concurrency_tenant, max_concurrency_project"
    };
}
pub(crate) use candidate_columns;

/// The organisations that wait, each turn of the recursion one step in the index; and the first tasks of each.
/// Those behind the sixty-fourth wait until some of these have gone.
const WAITING: &str = concat!(
    "WITH RECURSIVE waiting (org_id) AS (
         SELECT min(org_id) FROM tasks WHERE node_id = $1 AND status = 'ready'
         UNION ALL
         SELECT (SELECT min(tasks.org_id) FROM tasks
                 WHERE node_id = $1 AND status = 'ready' AND tasks.org_id > waiting.org_id)
         FROM waiting WHERE waiting.org_id IS NOT NULL)
     SELECT candidate.*,
         (SELECT count(*) FROM tasks
          WHERE node_id = $1 AND status = 'leased' AND tasks.org_id = waiting.org_id) AS held,
         (SELECT last_turn_at FROM node_turns
          WHERE node_id = $1 AND node_turns.org_id = waiting.org_id) AS last_turn_at
     FROM waiting CROSS JOIN LATERAL (
         SELECT ",
    candidate_columns!(),
    "    FROM tasks JOIN operations USING (operation_id)
         WHERE tasks.node_id = $1 AND tasks.org_id = waiting.org_id AND tasks.status = 'ready'
         ORDER BY tasks.priority DESC, task_id LIMIT 64) AS candidate
     WHERE waiting.org_id IS NOT NULL"
);

/// What waits for a node.
pub(crate) struct Queue {
    pub(crate) candidates: Vec<Candidate>,
    /// Whether several organisations wait.
    pub(crate) is_contended: bool,
}

#[derive(FromRow)]
struct Row {
    #[sqlx(flatten)]
    organisation: Organisation,
    #[sqlx(flatten)]
    candidate: Candidate,
}

impl Queue {
    /// Reads it.
    pub(crate) async fn read(unit: &mut Unit, node_id: NodeId) -> Result<Self, StoreError> {
        let rows: Vec<Row> = unit.look(WAITING, |query: Asking<Row>| query.bind(node_id.to_string())).await?;
        let mut lines: Vec<(Organisation, Vec<Candidate>)> = Vec::new();
        for Row { organisation, candidate } in rows {
            match lines.last_mut().filter(|(known, _)| known.org_id == organisation.org_id) {
                Some((_, candidates)) => candidates.push(candidate),
                None => lines.push((organisation, vec![candidate])),
            }
        }
        let is_contended = lines.len() > 1;
        let lines = lines.into_iter().map(|(organisation, candidates)| organisation.line(candidates));
        Ok(Self { candidates: interleave(lines.collect::<Result<_, _>>()?), is_contended })
    }
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
