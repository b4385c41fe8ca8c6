//! What the one who writes knows by heart, so that nothing is read before it is written; and what readers are spared.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use sqlx::{Row as _, SqliteConnection};

use super::JournalError;

/// Reports of a task that are kept in memory. Those before them are read from the file.
const KEPT: usize = 256;

/// The tasks of the file, as the next write finds them.
#[derive(Default)]
pub(super) struct Book(HashMap<String, Page>);

/// A task.
#[derive(Default)]
pub(super) struct Page {
    /// The number of its next report.
    pub(super) next: i64,
    /// Steps that have their outcome.
    pub(super) finished: HashSet<String>,
}

impl Book {
    /// Reads it.
    pub(super) async fn load(connection: &mut SqliteConnection) -> Result<Self, JournalError> {
        let mut pages = HashMap::new();
        for row in sqlx::query("SELECT task_id, next_sequence FROM tasks").fetch_all(&mut *connection).await? {
            let page = Page { next: row.get("next_sequence"), finished: HashSet::new() };
            pages.insert(row.get("task_id"), page);
        }
        for row in sqlx::query("SELECT task_id, step_id FROM outcomes").fetch_all(connection).await? {
            let page: Option<&mut Page> = pages.get_mut(row.get::<&str, _>("task_id"));
            page.map(|page| page.finished.insert(row.get("step_id")));
        }
        Ok(Self(pages))
    }

    /// Adds a task; false when it was there.
    pub(super) fn add(&mut self, task_id: &str) -> bool {
        if self.0.contains_key(task_id) {
            return false;
        }
        self.0.insert(task_id.to_owned(), Page { next: 1, finished: HashSet::new() });
        true
    }

    pub(super) fn page(&mut self, task_id: &str) -> Option<&mut Page> {
        self.0.get_mut(task_id)
    }

    pub(super) fn remove(&mut self, task_id: &str) {
        self.0.remove(task_id);
    }
}

/// What is durable of the tasks that this process has taken: most of them are over before anybody would have to read of
/// them.
#[derive(Default)]
pub(super) struct Recent(Mutex<HashMap<String, Taken>>);

/// A task that was new when it was taken.
#[derive(Default)]
pub(super) struct Taken {
    /// Whether anything of it was started, or it was canceled.
    pub(super) has_progress: bool,
    /// The newest reports that the plane has not stored, in order.
    events: VecDeque<(u64, String)>,
    /// The number of the last report that is not among them.
    before: u64,
}

impl Taken {
    /// Adds a report.
    pub(super) fn push(&mut self, sequence: u64, event: String) {
        self.events.push_back((sequence, event));
        if self.events.len() > KEPT {
            self.drop_first();
        }
    }

    /// Forgets reports that are stored elsewhere.
    pub(super) fn acknowledge(&mut self, sequence: u64) {
        while self.events.front().is_some_and(|(first, _)| *first <= sequence) {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        if let Some((sequence, _)) = self.events.pop_front() {
            self.before = sequence;
        }
    }
}

impl Recent {
    pub(super) fn tasks(&self) -> MutexGuard<'_, HashMap<String, Taken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is certain that nothing has happened to a task.
    pub(super) fn is_untouched(&self, task_id: &str) -> bool {
        self.tasks().get(task_id).is_some_and(|taken| !taken.has_progress)
    }

    /// Reports after a number; none when they have to be read.
    pub(super) fn after(&self, task_id: &str, sequence: u64, limit: usize) -> Option<Vec<(u64, String)>> {
        let tasks = self.tasks();
        let taken = tasks.get(task_id).filter(|taken| taken.before <= sequence)?;
        Some(taken.events.iter().filter(|(number, _)| *number > sequence).take(limit).cloned().collect())
    }
}
