//! Changes of steps, written together: a handful of statements however many they are.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::LazyLock,
};

use fettle_model::{name::StepId, operation::StepOutcome, task::StepEvent};
use sqlx::Row as _;

use super::{
    JournalError,
    cassettes::{Kept, Retention},
    change::{Connection, State, StepChange},
    rows::{Statement, Static},
    to_text,
};

static SEQUENCES: Static =
    LazyLock::new(|| Statement::of_list("SELECT task_id, next_sequence FROM tasks WHERE task_id IN (", ")"));
static OUTCOMES: Static = LazyLock::new(|| {
    let tail = "ON CONFLICT DO NOTHING RETURNING task_id, step_id";
    Statement::of_values("INSERT INTO outcomes (task_id, step_id, outcome) VALUES", 3, tail)
});
static ATTEMPTS: Static = LazyLock::new(|| {
    let tail =
        "ON CONFLICT (task_id, step_id, attempt) DO UPDATE SET state = excluded.state, ran = max(ran, excluded.ran)";
    Statement::of_values("INSERT INTO attempts (task_id, step_id, attempt, state, ran) VALUES", 5, tail)
});
static UNDONE: Static = LazyLock::new(|| {
    let tail = "ON CONFLICT (task_id, step_id) DO UPDATE SET state = excluded.state";
    Statement::of_values("INSERT INTO undone (task_id, step_id, state) VALUES", 3, tail)
});
static EVENTS: Static =
    LazyLock::new(|| Statement::of_values("INSERT INTO events (task_id, sequence, event) VALUES", 3, ""));
static MOVED: Static = LazyLock::new(|| {
    let tail = ") UPDATE tasks SET next_sequence = moved.next FROM moved WHERE tasks.task_id = moved.task_id";
    Statement::of_values("WITH moved (task_id, next) AS (VALUES", 2, tail)
});

/// A step of a task.
type Key<'a> = (&'a str, &'a StepId);

/// What has gathered.
#[derive(Default)]
pub(super) struct Batch<'a> {
    /// How far each attempt is by the end of the batch, and whether it got to `run` on the way.
    attempts: BTreeMap<(Key<'a>, u32), (State, bool)>,
    outcomes: Vec<(Key<'a>, &'a StepOutcome)>,
    undone: Vec<(Key<'a>, bool)>,
    /// Reports in order; those of an outcome count only if it is the first of its step.
    events: Vec<(&'a str, Option<Key<'a>>, &'a StepEvent)>,
    cassettes: Vec<(&'a str, &'a Kept)>,
}

impl<'a> Batch<'a> {
    /// Adds a change.
    pub(super) fn add(&mut self, task: &'a str, change: &'a StepChange) {
        match change {
            StepChange::Attempt { step_id, attempt, state, event, cassette } => {
                self.attempt((task, step_id), *attempt, *state);
                self.events.extend(event.iter().map(|event| (task, None, event)));
                self.cassettes.extend(cassette.iter().map(|kept| (task, kept)));
            }
            StepChange::Finish { step_id, attempt, outcome, event, cassette } => {
                let key = (task, step_id);
                self.outcomes.push((key, outcome));
                if *attempt > 0 {
                    self.attempt(key, *attempt, State::Finished);
                }
                self.events.push((task, Some(key), event));
                self.cassettes.extend(cassette.iter().map(|kept| (task, kept)));
            }
            StepChange::Undo { step_id, finished, cassette } => {
                self.undone.push(((task, step_id), *finished));
                self.cassettes.extend(cassette.iter().map(|kept| (task, kept)));
            }
            StepChange::Append { events } => self.events.extend(events.iter().map(|event| (task, None, event))),
            StepChange::Keep { cassette } => self.cassettes.push((task, cassette)),
        }
    }

    /// What starts and ends between two writes is written once, as it ended.
    fn attempt(&mut self, key: Key<'a>, attempt: u32, state: State) {
        let ran = state == State::Ran;
        match self.attempts.entry((key, attempt)) {
            Entry::Vacant(entry) => {
                entry.insert((state, ran));
            }
            Entry::Occupied(mut entry) => {
                let (_, before) = *entry.get();
                entry.insert((state, before || ran));
            }
        }
    }

    /// Writes all of it into a transaction that somebody else commits.
    pub(super) async fn write(
        self,
        transaction: Connection<'_>,
        retention: &mut Retention,
    ) -> Result<(), JournalError> {
        let mut sequences = self.sequences(transaction).await?;
        let first = self.outcomes(transaction, &sequences).await?;
        self.attempts(transaction, &sequences).await?;
        self.undone(transaction, &sequences).await?;
        self.events(transaction, &mut sequences, first).await?;
        retention.write(transaction, &self.cassettes).await
    }

    /// The next number of a report of each task. A task that was forgotten meanwhile is not there: it has
    /// nobody to report to.
    async fn sequences(&self, transaction: Connection<'_>) -> Result<BTreeMap<&'a str, i64>, JournalError> {
        let tasks: BTreeSet<&'a str> = (self.attempts.keys().map(|(key, _)| key.0))
            .chain(self.outcomes.iter().map(|(key, _)| key.0))
            .chain(self.undone.iter().map(|(key, _)| key.0))
            .chain(self.events.iter().map(|(task, ..)| *task))
            .collect();
        let mut found = BTreeMap::new();
        for query in SEQUENCES.filled(tasks.iter().copied().collect(), |query, task| query.bind(task)) {
            for row in query.fetch_all(&mut **transaction).await? {
                if let Some(task) = tasks.get(row.get::<&str, _>("task_id")) {
                    found.insert(*task, row.get("next_sequence"));
                }
            }
        }
        Ok(found)
    }

    /// Writes outcomes; the first of a step stays. Answers which were.
    async fn outcomes(
        &self,
        transaction: Connection<'_>,
        known: &BTreeMap<&str, i64>,
    ) -> Result<BTreeSet<(String, String)>, JournalError> {
        let mut rows = Vec::with_capacity(self.outcomes.len());
        for ((task, step), outcome) in self.outcomes.iter().filter(|(key, _)| known.contains_key(key.0)) {
            rows.push((*task, step.as_str(), to_text(*outcome)?));
        }
        let mut first = BTreeSet::new();
        for query in OUTCOMES.filled(rows, |query, (task, step, text)| query.bind(task).bind(step).bind(text)) {
            for row in query.fetch_all(&mut **transaction).await? {
                first.insert((row.get("task_id"), row.get("step_id")));
            }
        }
        Ok(first)
    }

    async fn attempts(&self, transaction: Connection<'_>, known: &BTreeMap<&str, i64>) -> Result<(), JournalError> {
        let rows = self.attempts.iter().filter(|((key, _), _)| known.contains_key(key.0)).collect();
        for query in ATTEMPTS.filled(rows, |query, (((task, step), attempt), (state, ran))| {
            query.bind(*task).bind(step.as_str()).bind(*attempt).bind(state.name()).bind(*ran)
        }) {
            query.execute(&mut **transaction).await?;
        }
        Ok(())
    }

    async fn undone(&self, transaction: Connection<'_>, known: &BTreeMap<&str, i64>) -> Result<(), JournalError> {
        let rows = self.undone.iter().filter(|(key, ..)| known.contains_key(key.0)).collect();
        for query in UNDONE.filled(rows, |query, ((task, step), finished)| {
            query.bind(*task).bind(step.as_str()).bind(if *finished { "finished" } else { "started" })
        }) {
            query.execute(&mut **transaction).await?;
        }
        Ok(())
    }

    async fn events(
        &self,
        transaction: Connection<'_>,
        sequences: &mut BTreeMap<&'a str, i64>,
        mut first: BTreeSet<(String, String)>,
    ) -> Result<(), JournalError> {
        let mut rows = Vec::with_capacity(self.events.len());
        let mut moved = BTreeSet::new();
        for (task, outcome, event) in &self.events {
            let counts = outcome.is_none_or(|(task, step)| first.remove(&(task.to_owned(), step.to_string())));
            let Some(next) = sequences.get_mut(task).filter(|_| counts) else { continue };
            rows.push((*task, *next, to_text(*event)?));
            *next += 1;
            moved.insert(*task);
        }
        for query in EVENTS.filled(rows, |query, (task, sequence, text)| query.bind(task).bind(sequence).bind(text)) {
            query.execute(&mut **transaction).await?;
        }
        let moved = moved.into_iter().filter_map(|task| Some((task, *sequences.get(task)?))).collect();
        for query in MOVED.filled(moved, |query, (task, next)| query.bind(task).bind(next)) {
            query.execute(&mut **transaction).await?;
        }
        Ok(())
    }
}
