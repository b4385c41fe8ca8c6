//! Changes of steps, written together: a handful of statements however many they are.

use std::collections::{BTreeMap, BTreeSet};

use fettle_model::{name::StepId, operation::StepOutcome, task::StepEvent};
use sqlx::{QueryBuilder, Row as _};

use super::{
    JournalError,
    cassettes::{Kept, Retention},
    change::{Connection, State, StepChange},
    to_text,
};

/// Rows of one statement. Few sizes, so that statements are prepared once.
const SIZES: [usize; 4] = [64, 16, 4, 1];

/// A step of a task.
type Key<'a> = (&'a str, &'a StepId);

/// What has gathered.
#[derive(Default)]
pub(super) struct Batch<'a> {
    attempts: Vec<(Key<'a>, u32, State)>,
    outcomes: Vec<(Key<'a>, &'a StepOutcome)>,
    undone: Vec<(Key<'a>, bool)>,
    /// Reports in order; those of an outcome count only if it is the first of its step.
    events: Vec<(&'a str, Option<Key<'a>>, &'a StepEvent)>,
    cassettes: Vec<(&'a str, &'a Kept)>,
}

/// A report with its place in the order of its task.
struct Numbered<'a> {
    task_id: &'a str,
    sequence: i64,
    text: String,
}

impl<'a> Batch<'a> {
    /// Adds a change.
    pub(super) fn add(&mut self, task: &'a str, change: &'a StepChange) {
        match change {
            StepChange::Attempt { step_id, attempt, state, event, cassette } => {
                self.attempts.push(((task, step_id), *attempt, *state));
                self.events.extend(event.iter().map(|event| (task, None, event)));
                self.cassettes.extend(cassette.iter().map(|kept| (task, kept)));
            }
            StepChange::Finish { step_id, attempt, outcome, event, cassette } => {
                let key = (task, step_id);
                self.outcomes.push((key, outcome));
                if *attempt > 0 {
                    self.attempts.push((key, *attempt, State::Finished));
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
        self.events(transaction, &mut sequences, &first).await?;
        retention.write(transaction, &self.cassettes).await
    }

    /// The next number of a report of each task. A task that was forgotten meanwhile is not there: it has
    /// nobody to report to.
    async fn sequences(&self, transaction: Connection<'_>) -> Result<BTreeMap<&'a str, i64>, JournalError> {
        let tasks: BTreeSet<&str> = (self.attempts.iter().map(|(key, ..)| key.0))
            .chain(self.outcomes.iter().map(|(key, _)| key.0))
            .chain(self.undone.iter().map(|(key, _)| key.0))
            .chain(self.events.iter().map(|(task, ..)| *task))
            .collect();
        let tasks: Vec<&'a str> = tasks.into_iter().collect();
        let mut found = BTreeMap::new();
        for chunk in chunks(&tasks) {
            let mut query = QueryBuilder::new("SELECT task_id, next_sequence FROM tasks WHERE task_id IN (");
            let mut list = query.separated(", ");
            for task in chunk {
                list.push_bind(*task);
            }
            query.push(")");
            for row in query.build().fetch_all(&mut **transaction).await? {
                let task_id: &str = row.get("task_id");
                if let Some(task) = chunk.iter().find(|task| **task == task_id) {
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
        for (key, outcome) in self.outcomes.iter().filter(|(key, _)| known.contains_key(key.0)) {
            rows.push((*key, to_text(*outcome)?));
        }
        let mut first = BTreeSet::new();
        for chunk in chunks(&rows) {
            let mut query = QueryBuilder::new("INSERT INTO outcomes (task_id, step_id, outcome) ");
            query.push_values(chunk, |mut row, ((task, step), outcome)| {
                row.push_bind(*task).push_bind(step.as_str()).push_bind(outcome);
            });
            query.push(" ON CONFLICT DO NOTHING RETURNING task_id, step_id");
            for row in query.build().fetch_all(&mut **transaction).await? {
                first.insert((row.get("task_id"), row.get("step_id")));
            }
        }
        Ok(first)
    }

    async fn attempts(&self, transaction: Connection<'_>, known: &BTreeMap<&str, i64>) -> Result<(), JournalError> {
        let rows: Vec<_> = self.attempts.iter().filter(|(key, ..)| known.contains_key(key.0)).collect();
        for chunk in chunks(&rows) {
            let mut query = QueryBuilder::new("INSERT INTO attempts (task_id, step_id, attempt, state, ran) ");
            query.push_values(chunk, |mut row, ((task, step), attempt, state)| {
                row.push_bind(*task).push_bind(step.as_str()).push_bind(*attempt);
                row.push_bind(state.name()).push_bind(*state == State::Ran);
            });
            query.push(
                " ON CONFLICT (task_id, step_id, attempt) DO UPDATE SET state = excluded.state, ran = max(ran, excluded.ran)",
            );
            query.build().execute(&mut **transaction).await?;
        }
        Ok(())
    }

    async fn undone(&self, transaction: Connection<'_>, known: &BTreeMap<&str, i64>) -> Result<(), JournalError> {
        let rows: Vec<_> = self.undone.iter().filter(|(key, _)| known.contains_key(key.0)).collect();
        for chunk in chunks(&rows) {
            let mut query = QueryBuilder::new("INSERT INTO undone (task_id, step_id, state) ");
            query.push_values(chunk, |mut row, ((task, step), finished)| {
                row.push_bind(*task).push_bind(step.as_str());
                row.push_bind(if *finished { "finished" } else { "started" });
            });
            query.push(" ON CONFLICT (task_id, step_id) DO UPDATE SET state = excluded.state");
            query.build().execute(&mut **transaction).await?;
        }
        Ok(())
    }

    async fn events(
        &self,
        transaction: Connection<'_>,
        sequences: &mut BTreeMap<&'a str, i64>,
        first: &BTreeSet<(String, String)>,
    ) -> Result<(), JournalError> {
        let mut left = first.clone();
        let mut rows = Vec::with_capacity(self.events.len());
        let mut moved = BTreeSet::new();
        for (task, outcome, event) in &self.events {
            let counts = outcome.is_none_or(|(task, step)| left.remove(&(task.to_owned(), step.to_string())));
            let Some(next) = sequences.get_mut(task).filter(|_| counts) else { continue };
            rows.push(Numbered { task_id: task, sequence: *next, text: to_text(*event)? });
            *next += 1;
            moved.insert(*task);
        }
        for chunk in chunks(&rows) {
            let mut query = QueryBuilder::new("INSERT INTO events (task_id, sequence, event) ");
            query.push_values(chunk, |mut row, numbered| {
                row.push_bind(numbered.task_id).push_bind(numbered.sequence).push_bind(&numbered.text);
            });
            query.build().execute(&mut **transaction).await?;
        }
        let moved: Vec<(&str, i64)> =
            moved.into_iter().filter_map(|task| Some((task, *sequences.get(task)?))).collect();
        for chunk in chunks(&moved) {
            let mut query = QueryBuilder::new("WITH moved (task_id, next) AS (");
            query.push_values(chunk, |mut row, (task, next)| {
                row.push_bind(*task).push_bind(*next);
            });
            query.push(") UPDATE tasks SET next_sequence = moved.next FROM moved WHERE tasks.task_id = moved.task_id");
            query.build().execute(&mut **transaction).await?;
        }
        Ok(())
    }
}

/// The rows in pieces of few different sizes.
pub(super) fn chunks<T>(rows: &[T]) -> impl Iterator<Item = &[T]> {
    let mut rest = rows;
    std::iter::from_fn(move || {
        let size = SIZES.into_iter().find(|size| *size <= rest.len())?;
        let (chunk, after) = rest.split_at(size);
        rest = after;
        Some(chunk)
    })
}
