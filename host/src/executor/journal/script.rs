//! Changes of one transaction as a handful of statements, however many they are: each call is a turn of the
//! connection's thread.

use std::collections::{BTreeMap, HashSet};

use fettle_model::{
    name::StepId,
    operation::StepOutcome,
    task::{Epoch, StepEvent, Task},
};
use serde::Serialize;
use sqlx::SqliteConnection;

use super::{
    Accepted, JournalError,
    book::{Book, Recent, Taken},
    cassettes::{Kept, Retention},
    change::{Change, State, StepChange, Written},
    to_integer, to_text,
};

/// Every list is a document of rows. A list without rows does nothing.
const WRITE: &str = "
INSERT INTO tasks (task_id, task, epoch) SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each($1) WHERE TRUE
ON CONFLICT (task_id) DO UPDATE SET epoch = max(epoch, excluded.epoch);
INSERT INTO outcomes (task_id, step_id, outcome) SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each($2);
INSERT INTO attempts (task_id, step_id, attempt, state, ran)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 FROM json_each($3) WHERE TRUE
ON CONFLICT (task_id, step_id, attempt) DO UPDATE SET state = excluded.state, ran = max(ran, excluded.ran);
INSERT INTO undone (task_id, step_id, state) SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each($4) WHERE TRUE
ON CONFLICT (task_id, step_id) DO UPDATE SET state = excluded.state;
INSERT INTO events (task_id, sequence, event) SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each($5);
UPDATE tasks SET next_sequence = moved.value ->> 1 FROM json_each($6) AS moved WHERE task_id = moved.value ->> 0;
UPDATE tasks SET outcome = ended.value ->> 1 FROM json_each($7) AS ended WHERE task_id = ended.value ->> 0;
UPDATE tasks SET canceled = 1 WHERE task_id IN (SELECT value FROM json_each($10));
DELETE FROM events WHERE (task_id, sequence) IN (
    SELECT events.task_id, sequence FROM json_each($8) AS stored
    CROSS JOIN events ON events.task_id = stored.value ->> 0 AND sequence <= stored.value ->> 1);
DELETE FROM tasks WHERE task_id IN (SELECT value FROM json_each($9))";

/// What has gathered. All of it is about tasks that are there.
#[derive(Default)]
pub(super) struct Script<'a> {
    accepted: Vec<(&'a str, String, i64)>,
    new: Vec<&'a str>,
    outcomes: Vec<(&'a str, &'a str, String)>,
    /// How far each attempt is in the end, and whether it got to `run` on the way.
    attempts: BTreeMap<(&'a str, &'a str, u32), (State, bool)>,
    undone: Vec<(&'a str, &'a str, &'static str)>,
    events: Vec<(&'a str, i64, String)>,
    moved: BTreeMap<&'a str, i64>,
    canceled: Vec<&'a str>,
    ended: Vec<(&'a str, String)>,
    acknowledged: Vec<(&'a str, u64)>,
    forgotten: HashSet<&'a str>,
    cassettes: Vec<(&'a str, &'a Kept)>,
}

impl<'a> Script<'a> {
    /// Whether the change has to wait until this is written: its task is taken again after it was forgotten.
    pub(super) fn is_before(&self, change: &Change) -> bool {
        matches!(change, Change::Accept { task, .. } if self.forgotten.contains(task.task_id.as_str()))
    }

    /// Adds a change.
    pub(super) fn add(&mut self, book: &mut Book, change: &'a Change) -> Result<Written, JournalError> {
        match change {
            Change::Accept { task, epoch } => return self.accept(book, task, *epoch),
            Change::Step { task_id, change } => self.step(book, task_id, change)?,
            Change::Cancel { task_id } => self.canceled.push(task_id),
            Change::End { task_id, outcome } => self.ended.push((task_id, to_text(outcome)?)),
            Change::Acknowledge { task_id, sequence } => self.acknowledged.push((task_id, *sequence)),
            Change::Forget { task_id } => {
                book.remove(task_id);
                self.forgotten.insert(task_id);
            }
        }
        Ok(Written::Done)
    }

    /// Takes a task, or a newer lease of a known one.
    fn accept(&mut self, book: &mut Book, task: &'a Task, epoch: Epoch) -> Result<Written, JournalError> {
        self.accepted.push((&task.task_id, to_text(task)?, to_integer(epoch.0)));
        if !book.add(&task.task_id) {
            return Ok(Written::Accepted(Accepted::Known));
        }
        self.new.push(&task.task_id);
        Ok(Written::Accepted(Accepted::New))
    }

    fn step(&mut self, book: &mut Book, task: &'a str, change: &'a StepChange) -> Result<(), JournalError> {
        self.keep(task, change);
        match change {
            StepChange::Attempt { step_id, attempt, state, event, .. } => {
                self.attempt(book, (task, step_id), *attempt, *state);
                event.iter().try_for_each(|event| self.event(book, task, event))
            }
            StepChange::Finish { step_id, attempt, outcome, event, .. } => {
                if *attempt > 0 {
                    self.attempt(book, (task, step_id), *attempt, State::Finished);
                }
                self.finish(book, (task, step_id), outcome, event)
            }
            StepChange::Undo { step_id, finished, .. } => {
                if book.page(task).is_some() {
                    let state = if *finished { "finished" } else { "started" };
                    self.undone.push((task, step_id.as_str(), state));
                }
                Ok(())
            }
            StepChange::Append { events } => events.iter().try_for_each(|event| self.event(book, task, event)),
            StepChange::Keep { .. } => Ok(()),
        }
    }

    /// Cassettes outlive their tasks.
    fn keep(&mut self, task: &'a str, change: &'a StepChange) {
        let kept = match change {
            StepChange::Attempt { cassette, .. }
            | StepChange::Finish { cassette, .. }
            | StepChange::Undo { cassette, .. } => cassette.as_ref(),
            StepChange::Keep { cassette } => Some(cassette),
            StepChange::Append { .. } => None,
        };
        self.cassettes.extend(kept.map(|kept| (task, kept)));
    }

    /// What starts and ends between two writes is written once, as it ended.
    fn attempt(&mut self, book: &mut Book, (task, step): (&'a str, &'a StepId), attempt: u32, state: State) {
        if book.page(task).is_none() {
            return;
        }
        let written = self.attempts.entry((task, step.as_str(), attempt)).or_insert((state, false));
        *written = (state, written.1 || state == State::Ran);
    }

    /// The first outcome of a step stays, and the report of another does not count.
    fn finish(
        &mut self,
        book: &mut Book,
        (task, step): (&'a str, &'a StepId),
        outcome: &StepOutcome,
        event: &StepEvent,
    ) -> Result<(), JournalError> {
        let Some(page) = book.page(task) else { return Ok(()) };
        if !page.finished.insert(step.to_string()) {
            return Ok(());
        }
        self.outcomes.push((task, step.as_str(), to_text(outcome)?));
        self.event(book, task, event)
    }

    /// A task that was forgotten meanwhile has nobody to report to.
    fn event(&mut self, book: &mut Book, task: &'a str, event: &StepEvent) -> Result<(), JournalError> {
        let Some(page) = book.page(task) else { return Ok(()) };
        self.events.push((task, page.next, to_text(event)?));
        page.next += 1;
        self.moved.insert(task, page.next);
        Ok(())
    }

    /// Writes all of it into a transaction that somebody else commits.
    pub(super) async fn write(
        &self,
        connection: &mut SqliteConnection,
        retention: &mut Retention,
    ) -> Result<(), JournalError> {
        let attempts = self.attempts.iter();
        let attempts = attempts.map(|((task, step, attempt), (state, ran))| (task, step, attempt, state.name(), ran));
        let acknowledged = self.acknowledged.iter().map(|(task, sequence)| (task, to_integer(*sequence)));
        sqlx::query(WRITE)
            .bind(to_text(&self.accepted)?)
            .bind(to_text(&self.outcomes)?)
            .bind(list(attempts)?)
            .bind(to_text(&self.undone)?)
            .bind(to_text(&self.events)?)
            .bind(list(self.moved.iter())?)
            .bind(to_text(&self.ended)?)
            .bind(list(acknowledged)?)
            .bind(to_text(&self.forgotten)?)
            .bind(to_text(&self.canceled)?)
            .execute(&mut *connection)
            .await?;
        retention.write(connection, &self.cassettes).await
    }

    /// Tells readers of what is durable now.
    pub(super) fn publish(self, recent: &Recent) {
        let mut tasks = recent.tasks();
        tasks.extend(self.new.iter().map(|task| ((*task).to_owned(), Taken::default())));
        let attempted = self.attempts.keys().map(|(task, ..)| *task);
        let finished = self.outcomes.iter().map(|(task, ..)| *task);
        for task in attempted.chain(finished).chain(self.canceled.iter().copied()) {
            if let Some(taken) = tasks.get_mut(task) {
                taken.has_progress = true;
            }
        }
        for (task, sequence, event) in self.events {
            if let Some(taken) = tasks.get_mut(task) {
                taken.push(sequence.unsigned_abs(), event);
            }
        }
        for (task, sequence) in self.acknowledged {
            if let Some(taken) = tasks.get_mut(task) {
                taken.acknowledge(sequence);
            }
        }
        tasks.retain(|task, _| !self.forgotten.contains(task.as_str()));
    }
}

fn list<T: Serialize>(rows: impl Iterator<Item = T>) -> Result<String, JournalError> {
    to_text(&rows.collect::<Vec<_>>())
}
