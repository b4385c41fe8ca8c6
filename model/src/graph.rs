//! Order in a graph of named nodes.

use std::collections::{BTreeMap, BTreeSet};

/// A cycle, as the names along it; the first name is repeated at the end.
#[derive(Debug, PartialEq, Eq)]
pub struct Cycle<N>(pub Vec<N>);

/// Sorts nodes so that each comes after all that it needs; nodes that could swap are in the order of
/// their names, so that the result depends on the graph alone. Needs that are no nodes are ignored.
///
/// # Errors
/// One cycle, when there is any.
pub fn topological_order<N: Ord + Clone>(needs: &BTreeMap<N, BTreeSet<N>>) -> Result<Vec<N>, Cycle<N>> {
    let mut waiting: BTreeMap<&N, BTreeSet<&N>> = needs
        .iter()
        .map(|(node, needed)| (node, needed.iter().filter(|name| needs.contains_key(*name)).collect()))
        .collect();
    let mut order = Vec::with_capacity(waiting.len());
    while !waiting.is_empty() {
        let ready: Vec<&N> = waiting.iter().filter(|(_, needed)| needed.is_empty()).map(|(node, _)| *node).collect();
        if ready.is_empty() {
            return Err(find_cycle(&waiting));
        }
        for node in &ready {
            waiting.remove(node);
            order.push((*node).clone());
        }
        for needed in waiting.values_mut() {
            for node in &ready {
                needed.remove(node);
            }
        }
    }
    Ok(order)
}

/// Every node of `waiting` needs another one of it, so walking along needs must come back somewhere.
fn find_cycle<N: Ord + Clone>(waiting: &BTreeMap<&N, BTreeSet<&N>>) -> Cycle<N> {
    let mut path: Vec<&N> = waiting.keys().next().copied().into_iter().collect();
    while let Some(next) = path.last().and_then(|node| waiting.get(node)).and_then(|needed| needed.first()) {
        if let Some(start) = path.iter().position(|node| node == next) {
            let mut cycle: Vec<N> = path.iter().skip(start).map(|node| (*node).clone()).collect();
            cycle.push((*next).clone());
            return Cycle(cycle);
        }
        path.push(next);
    }
    Cycle(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(&'static str, &[&'static str])]) -> BTreeMap<&'static str, BTreeSet<&'static str>> {
        edges.iter().map(|(node, needed)| (*node, needed.iter().copied().collect())).collect()
    }

    #[test]
    fn each_node_comes_after_what_it_needs() {
        let order =
            topological_order(&graph(&[("run", &["render"]), ("render", &["pull"]), ("pull", &[]), ("health", &[])]));
        assert_eq!(order, Ok(vec!["health", "pull", "render", "run"]));
    }

    #[test]
    fn a_cycle_is_named() {
        let order = topological_order(&graph(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"]), ("d", &[])]));
        assert_eq!(order, Err(Cycle(vec!["b", "c", "b"])));
        assert_eq!(topological_order(&graph(&[("a", &["a"])])), Err(Cycle(vec!["a", "a"])));
    }
}
