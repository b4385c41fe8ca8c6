//! Which artifacts nodes keep: as they said when they connected, and what they were meant to fetch since. Nothing but an
//! order depends on it, so it is kept here and nowhere else, and a node that says something wrong harms nobody.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use fettle_model::{digest::Digest, plan::Plan};
use fettle_store::{id::NodeId, node::Node};

/// Artifacts remembered of a node at most, the newest of them.
const MOST: usize = 128;

/// Of each node the [short forms](Digest::short), the newest last.
#[derive(Default)]
pub(crate) struct Holdings(Mutex<HashMap<NodeId, Vec<u64>>>);

impl Holdings {
    /// A node says what it keeps, the newest first.
    pub(crate) fn said(&self, node: NodeId, artifacts: &[u64]) {
        let known = artifacts.iter().take(MOST).rev().copied().collect();
        self.known().insert(node, known);
    }

    /// Nodes are about to begin what is made of these components. Of those that say nothing here nothing is remembered:
    /// they are connected to another plane.
    pub(crate) fn meant_for(&self, nodes: &[Node], plan: &Plan) {
        let components = components(plan);
        let mut known = self.known();
        for node in nodes {
            let Some(kept) = known.get_mut(&node.id) else { continue };
            if components.iter().all(|one| kept.contains(one)) {
                continue;
            }
            kept.retain(|one| !components.contains(one));
            kept.extend(&components);
            let over = kept.len().saturating_sub(MOST);
            kept.drain(..over);
        }
    }

    /// Puts the nodes first that lack the least of what the plan is made of, and leaves the others in their order.
    pub(crate) fn prefer(&self, nodes: &mut [Node], plan: &Plan) {
        let components = components(plan);
        let known = self.known();
        let lacks = |node: &Node| {
            let kept = known.get(&node.id).map(Vec::as_slice).unwrap_or_default();
            components.iter().filter(|one| !kept.contains(one)).count()
        };
        nodes.sort_by_cached_key(lacks);
    }

    fn known(&self) -> MutexGuard<'_, HashMap<NodeId, Vec<u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn components(plan: &Plan) -> Vec<u64> {
    let mut components: Vec<u64> =
        plan.graph.steps.iter().map(|step| step.component.digest).map(|digest: Digest| digest.short()).collect();
    components.sort_unstable();
    components.dedup();
    components
}
