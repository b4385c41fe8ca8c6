//! Which of the tasks that wait for a node goes next: fair between organisations, whatever each of them asks for.

use jiff::Timestamp;

use crate::id::TaskId;

/// What one organisation waits for on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line<T> {
    /// How many of its tasks the node holds.
    pub held: u32,
    /// When the node was last given one while others waited too.
    pub last_turn: Option<Timestamp>,
    /// What waits, in the organisation's own order: the higher priority first, then the older.
    pub tasks: Vec<(TaskId, T)>,
}

/// One order for all: each time the organisation goes first of which the node holds the least; among
/// those, whose last turn is the longest ago; among those, who has waited longest.
#[must_use]
pub fn interleave<T>(lines: Vec<Line<T>>) -> Vec<T> {
    let mut lines: Vec<_> =
        lines.into_iter().map(|line| (line.held, line.last_turn, line.tasks.into_iter().peekable())).collect();
    let mut order = Vec::new();
    loop {
        let next = lines
            .iter_mut()
            .filter_map(|(held, turn, tasks)| {
                let task = tasks.peek()?.0;
                Some((*held, *turn, task, held, tasks))
            })
            .min_by_key(|(held, turn, task, ..)| (*held, *turn, *task));
        let Some((.., held, tasks)) = next else { return order };
        *held = held.saturating_add(1);
        order.extend(tasks.next().map(|(_, task)| task));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(held: u32, turn: Option<i64>, tasks: &[(u128, &'static str)]) -> Line<&'static str> {
        Line {
            held,
            last_turn: turn.map(|second| Timestamp::from_second(second).unwrap()),
            tasks: tasks.iter().map(|(number, name)| (TaskId::new(ulid::Ulid(*number)), *name)).collect(),
        }
    }

    #[test]
    fn organisations_take_turns_however_much_one_of_them_asks_for() {
        let greedy = line(0, None, &[(1, "a1"), (2, "a2"), (3, "a3"), (4, "a4")]);
        let late = line(0, None, &[(9, "b1"), (10, "b2")]);
        assert_eq!(interleave(vec![greedy, late]), ["a1", "b1", "a2", "b2", "a3", "a4"]);
    }

    #[test]
    fn what_a_node_holds_already_counts() {
        let holds = line(2, None, &[(1, "a1"), (2, "a2")]);
        let waits = line(0, None, &[(8, "b1"), (9, "b2"), (10, "b3")]);
        assert_eq!(interleave(vec![holds, waits]), ["b1", "b2", "a1", "b3", "a2"]);
    }

    #[test]
    fn with_one_slot_the_turn_goes_to_whoever_waited_for_it() {
        for (first, second, expected) in
            [(Some(5), Some(4), "b"), (Some(4), Some(5), "a"), (Some(4), None, "b"), (None, None, "a")]
        {
            let order = interleave(vec![line(0, first, &[(1, "a")]), line(0, second, &[(2, "b")])]);
            assert_eq!(order.first(), Some(&expected));
        }
    }

    #[test]
    fn an_organisations_own_order_is_kept() {
        assert_eq!(interleave(vec![line(0, None, &[(5, "urgent"), (1, "old")])]), ["urgent", "old"]);
        assert!(interleave(Vec::<Line<&str>>::new()).is_empty());
    }
}
