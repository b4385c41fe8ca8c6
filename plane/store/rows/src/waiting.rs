//! What waits for a node, and what keeps it from there. The same answer when tasks are leased and when somebody
//! asks why they wait.

use std::collections::{BTreeMap, BTreeSet};

use fettle_model::definition::Requirements;
use fettle_store::{
    StoreError,
    operation::{NodeTask, TaskStatus, Wait},
    project::Project,
    queue::{Line, interleave},
    task::{ReadyTask, Wanted},
};
use jiff::Timestamp;
use serde::Deserialize;
use sqlx_macros::FromRow;

use crate::row;

const TASK: &str = "task";
const NODE: &str = "node";

/// A task that waits, with what may keep it from its node.
#[derive(Clone, Debug, FromRow, Deserialize)]
pub struct Candidate {
    /// The task.
    pub task_id: String,
    /// Its operation.
    pub operation_id: String,
    /// The type of the operation.
    pub operation_type: String,
    /// The organisation that owns it.
    pub org_id: String,
    /// The project that owns it.
    pub project_id: String,
    /// When a node was first given a task of the operation.
    pub dispatched_at: Option<i64>,
    requires: Option<String>,
    /// How many nodes may work on the operation at once.
    pub max_parallel_nodes: Option<i64>,
    max_concurrency_global: Option<i64>,
    max_concurrency_tenant: Option<i64>,
    max_concurrency_project: Option<i64>,
}

/// A limit of operations of one type that are under way.
#[derive(Clone, Copy, Debug)]
pub struct Limit<'a> {
    /// `global`, `tenant` or `project`.
    pub scope: &'static str,
    /// How many there may be.
    pub limit: i64,
    /// The organisation that is counted; empty for all.
    pub org_id: &'a str,
    /// The project that is counted; empty for all.
    pub project_id: &'a str,
}

impl Candidate {
    /// Whether it counts how many others are under way.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.max_parallel_nodes.is_some() || self.limits().next().is_some()
    }

    /// The limits that it has yet to pass: an operation that is under way stays so.
    pub fn limits(&self) -> impl Iterator<Item = Limit<'_>> {
        let scopes = [
            ("global", self.max_concurrency_global, "", ""),
            ("tenant", self.max_concurrency_tenant, self.org_id.as_str(), ""),
            ("project", self.max_concurrency_project, &self.org_id, &self.project_id),
        ];
        let waits = self.dispatched_at.is_none();
        scopes.into_iter().filter(move |_| waits).filter_map(|(scope, limit, org_id, project_id)| {
            limit.map(|limit| Limit { scope, limit, org_id, project_id })
        })
    }

    /// What it needs and the node does not have.
    ///
    /// # Errors
    /// When a column is malformed.
    pub fn missing_capabilities(&self, node: &NodeState) -> Result<Vec<Wait>, StoreError> {
        let Some(requires) = &self.requires else { return Ok(Vec::new()) };
        let requires: Requirements = row::document("operation", requires)?;
        let has: BTreeMap<String, String> = row::document(NODE, &node.capabilities)?;
        let lacks = |(key, accepted): (String, BTreeSet<String>)| {
            let actual = has.get(&key).cloned();
            let fits = actual.as_ref().is_some_and(|actual| accepted.contains(actual));
            (!fits).then_some(Wait::Capability { key, accepted, actual })
        };
        Ok(requires.capabilities.into_iter().filter_map(lacks).collect())
    }
}

impl Limit<'_> {
    /// The reason to wait, once as many are under way.
    ///
    /// # Errors
    /// When the limit is malformed.
    pub fn reached(&self) -> Result<Wait, StoreError> {
        Ok(Wait::Concurrency { scope: self.scope, limit: row::number("operation", self.limit)? })
    }
}

/// The reason to wait, once as many nodes work on the operation.
///
/// # Errors
/// When the limit is malformed.
pub fn enough_nodes(limit: i64) -> Result<Wait, StoreError> {
    Ok(Wait::ParallelNodes(row::number("operation", limit)?))
}

/// What counts of a node when it is given tasks.
#[derive(Clone, Debug, FromRow)]
pub struct NodeState {
    node_id: String,
    name: String,
    capabilities: String,
    slots: i64,
    held: i64,
    last_heartbeat_at: Option<i64>,
}

impl NodeState {
    /// How many more tasks it executes now.
    #[must_use]
    pub fn free(&self) -> u32 {
        u32::try_from(self.slots.saturating_sub(self.held)).unwrap_or(0)
    }

    /// What keeps every task from it.
    ///
    /// # Errors
    /// When a column is malformed.
    pub fn waits(&self, heard_since: Timestamp) -> Result<Vec<Wait>, StoreError> {
        let last = row::optional_time(NODE, self.last_heartbeat_at)?;
        let mut waits = Vec::new();
        if last.is_none_or(|last| last < heard_since) {
            waits.push(Wait::Silent(last));
        }
        if self.free() == 0 {
            waits.push(Wait::Slots(row::number(NODE, self.slots)?));
        }
        Ok(waits)
    }
}

/// An organisation that waits for a node.
#[derive(Clone, Debug, FromRow)]
pub struct Organisation {
    /// Which.
    pub org_id: String,
    held: i64,
    last_turn_at: Option<i64>,
}

impl Organisation {
    /// It, with what waits.
    ///
    /// # Errors
    /// When a column is malformed.
    pub fn line(&self, candidates: Vec<Candidate>) -> Result<Line<Candidate>, StoreError> {
        let mut tasks = Vec::with_capacity(candidates.len());
        for candidate in candidates {
            tasks.push((row::parse(TASK, &candidate.task_id)?, candidate));
        }
        Ok(Line { held: row::number(TASK, self.held)?, last_turn: row::optional_time(TASK, self.last_turn_at)?, tasks })
    }
}

/// Tasks looked at of one organisation. Those behind them wait until some of these have gone.
pub const LOOKED_AT: u32 = 64;

/// How many tasks of each organisation to look at for this many free slots: as many as fit, for mostly nothing keeps them
/// from the node; then, when something did, all that are ever looked at.
pub fn depths(room: usize) -> impl Iterator<Item = u32> {
    let room = u32::try_from(room).unwrap_or(LOOKED_AT);
    (room < LOOKED_AT).then_some(room).into_iter().chain([LOOKED_AT])
}

/// What waits for a node, in the order in which it goes.
pub struct Queue {
    /// The tasks that were looked at.
    pub candidates: Vec<Candidate>,
    /// Whether several organisations wait.
    pub is_contended: bool,
    /// Whether it was looked at less deep than it may be, and more wait behind. As soon as something is kept from the node,
    /// such a queue no longer says who goes next: it may be a task of the same organisation that is not in it.
    pub is_shallow: bool,
}

impl Queue {
    /// The queue of these, each looked at this deep.
    #[must_use]
    pub fn new(lines: Vec<Line<Candidate>>, depth: u32) -> Self {
        let is_contended = lines.len() > 1;
        let is_shallow = depth < LOOKED_AT && lines.iter().any(|line| line.tasks.len() >= depth as usize);
        Self { candidates: interleave(lines), is_contended, is_shallow }
    }

    /// Leaves only what is wanted.
    pub fn only(&mut self, wanted: Wanted) {
        if let Wanted::This(id) = wanted {
            let id = id.to_string();
            self.candidates.retain(|candidate| candidate.task_id == id);
        }
    }
}

/// A task that waits, as policies are told of it.
#[derive(FromRow)]
pub struct ReadyRow {
    task_id: String,
    operation_id: String,
    operation_type: String,
    version: String,
    org_id: String,
    project_id: String,
    inputs: String,
    requested_by_user_id: String,
    created_at: i64,
}

impl ReadyRow {
    /// The task.
    ///
    /// # Errors
    /// When a column is malformed.
    pub fn task(self) -> Result<ReadyTask, StoreError> {
        Ok(ReadyTask {
            id: row::parse(TASK, &self.task_id)?,
            operation_id: row::parse(TASK, &self.operation_id)?,
            operation_type: row::parse(TASK, &self.operation_type)?,
            version: row::parse(TASK, &self.version)?,
            project: Project {
                project_id: row::parse(TASK, &self.project_id)?,
                org_id: row::parse(TASK, &self.org_id)?,
            },
            inputs: row::document(TASK, &self.inputs)?,
            requested_by: self.requested_by_user_id,
            created_at: row::time(TASK, self.created_at)?,
        })
    }
}

/// A status that this version does not know.
#[derive(Debug, thiserror::Error)]
#[error("status `{0}` is unknown")]
struct UnknownStatus(String);

/// The task of an operation on one node.
#[derive(FromRow)]
pub struct NodeTaskRow {
    status: String,
    task_run: i64,
    /// Its node.
    #[sqlx(flatten)]
    pub node: NodeState,
    /// The task as one that waits.
    #[sqlx(flatten)]
    pub candidate: Candidate,
}

impl NodeTaskRow {
    /// Whether it waits for its node.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.status == TaskStatus::Ready.name()
    }

    /// The task, with the reasons for which it waits.
    ///
    /// # Errors
    /// When a column is malformed.
    pub fn task(self, waits_for: Vec<Wait>) -> Result<NodeTask, StoreError> {
        let status = TaskStatus::from_name(&self.status)
            .ok_or_else(|| StoreError::corrupt(TASK, UnknownStatus(self.status.clone())))?;
        Ok(NodeTask {
            id: row::parse(TASK, &self.candidate.task_id)?,
            node_id: row::parse(TASK, &self.node.node_id)?,
            node_name: self.node.name,
            run: row::number(TASK, self.task_run)?,
            status,
            waits_for,
        })
    }
}
