//! Cassettes of attempts: kept beside the journal's records, in the same transactions, up to a bound.

use std::{collections::BTreeMap, path::Path, sync::LazyLock};

use fettle_model::{
    cassette::Outcome,
    digest::Digest,
    name::{StepId, StepKind},
};
use serde::Serialize;
use sqlx::{
    QueryBuilder, Row as _, SqliteConnection, SqlitePool, sqlite::SqliteConnectOptions, sqlite::SqlitePoolOptions,
};

use super::{
    JournalError,
    rows::{Statement, Static},
    to_integer,
};

static INSERT: Static = LazyLock::new(|| {
    let columns = "id, operation_id, task_id, step_id, attempt, kind, outcome, failed, recorded_at, digest, content";
    Statement::of_values(&format!("INSERT INTO cassettes ({columns}) VALUES"), 11, "")
});
static DELETE: Static = LazyLock::new(|| Statement::of_list("DELETE FROM cassettes WHERE id IN (", ")"));

/// How many cassettes a host keeps. When there are more, the oldest of attempts that did not fail go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Cassettes.
    pub count: usize,
    /// Bytes of all of them.
    pub bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { count: 10_000, bytes: 256_000_000 }
    }
}

/// A finished recording on its way into the journal.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The operation.
    pub operation_id: String,
    /// The step.
    pub step_id: StepId,
    /// 1 for the first.
    pub attempt: u32,
    /// What ran.
    pub kind: StepKind,
    /// Milliseconds since the Unix epoch, by the host's clock.
    pub recorded_at: i64,
    /// What the attempt came to; `interrupted` when nobody can say.
    pub outcome: &'static str,
    /// Whether it is worth keeping longer.
    pub failed: bool,
    /// Of the content.
    pub digest: Digest,
    /// The cassette.
    pub content: Vec<u8>,
}

/// A kept cassette, without its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// The operation.
    pub operation_id: String,
    /// The task.
    pub task_id: String,
    /// The step.
    pub step_id: String,
    /// 1 for the first.
    pub attempt: u32,
    /// What ran.
    pub kind: String,
    /// What the attempt came to.
    pub outcome: String,
    /// Milliseconds since the Unix epoch, by the host's clock.
    pub recorded_at: i64,
    /// Bytes.
    pub size: u64,
    /// Of the content.
    pub digest: Digest,
}

/// What is kept, in the order in which it goes, and how much that is.
pub(super) struct Retention {
    bounds: Bounds,
    next: i64,
    bytes: usize,
    /// Sizes by (failed, id): the first one goes first.
    kept: BTreeMap<(bool, i64), usize>,
}

impl Kept {
    /// Whether an outcome is worth keeping longer: somebody may want to know why.
    #[must_use]
    pub const fn is_failure(outcome: &Outcome) -> bool {
        matches!(outcome, Outcome::Failed(_) | Outcome::Interrupted | Outcome::Unknown(_))
    }
}

impl Retention {
    /// Looks at what is there.
    pub(super) async fn load(connection: &mut SqliteConnection, bounds: Bounds) -> Result<Self, JournalError> {
        let rows =
            sqlx::query("SELECT id, failed, length(content) AS size FROM cassettes").fetch_all(connection).await?;
        let mut retention = Self { bounds, next: 1, bytes: 0, kept: BTreeMap::new() };
        for row in rows {
            let id: i64 = row.get("id");
            let size = usize::try_from(row.get::<i64, _>("size")).unwrap_or_default();
            retention.next = retention.next.max(id + 1);
            retention.bytes += size;
            retention.kept.insert((row.get("failed"), id), size);
        }
        Ok(retention)
    }

    /// Adds cassettes, and removes what is over the bound.
    ///
    /// When the transaction is not committed after all, a few are forgotten early; nothing else follows.
    pub(super) async fn write(
        &mut self,
        connection: &mut SqliteConnection,
        cassettes: &[(&str, &Kept)],
    ) -> Result<(), JournalError> {
        let numbered: Vec<(i64, &str, &Kept)> =
            cassettes.iter().zip(self.next..).map(|((task, kept), id)| (id, *task, *kept)).collect();
        self.next += to_integer(numbered.len() as u64);
        for (id, _, kept) in &numbered {
            self.bytes += kept.content.len();
            self.kept.insert((kept.failed, *id), kept.content.len());
        }
        for query in INSERT.filled(numbered, |query, (id, task, kept)| {
            let named = query.bind(id).bind(&kept.operation_id).bind(task).bind(kept.step_id.as_str());
            let ended = named.bind(kept.attempt).bind(kept.kind.as_str()).bind(kept.outcome).bind(kept.failed);
            ended.bind(kept.recorded_at).bind(kept.digest.to_string()).bind(&kept.content)
        }) {
            query.execute(&mut *connection).await?;
        }
        for query in DELETE.filled(self.over(), |query, id| query.bind(id)) {
            query.execute(&mut *connection).await?;
        }
        Ok(())
    }

    fn over(&mut self) -> Vec<i64> {
        let mut over = Vec::new();
        while self.kept.len() > self.bounds.count || self.bytes > self.bounds.bytes {
            let Some(((_, id), size)) = self.kept.pop_first() else { break };
            self.bytes -= size;
            over.push(id);
        }
        over
    }
}

/// The cassettes of a host, to be looked at while it runs or after it has ended.
#[derive(Clone)]
pub struct Archive(SqlitePool);

/// What to look for; what is none matches everything.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// The operation.
    pub operation_id: Option<String>,
    /// The task.
    pub task_id: Option<String>,
    /// The step.
    pub step_id: Option<String>,
    /// The attempt.
    pub attempt: Option<u32>,
    /// The beginning of a digest, with its `sha256:`.
    pub digest: Option<String>,
}

impl Archive {
    /// Opens the archive of a journal without changing anything.
    ///
    /// # Errors
    /// When there is no journal, or it cannot be read.
    pub async fn open(path: &Path) -> Result<Self, JournalError> {
        let options = SqliteConnectOptions::new().filename(path).read_only(true);
        let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options).await;
        pool.map(Self).map_err(|source| JournalError::Open {
            path: path.display().to_string(),
            source: std::sync::Arc::new(source),
        })
    }

    /// The cassettes that match, oldest first.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn list(&self, filter: &Filter) -> Result<Vec<Entry>, JournalError> {
        let rows = self.rows("length(content) AS size", filter).await?;
        Ok(rows.iter().filter_map(entry).collect())
    }

    /// The contents of the cassettes that match, oldest first.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn export(&self, filter: &Filter) -> Result<Vec<(Entry, Vec<u8>)>, JournalError> {
        let rows = self.rows("length(content) AS size, content", filter).await?;
        Ok(rows.iter().filter_map(|row| Some((entry(row)?, row.get("content")))).collect())
    }

    async fn rows(&self, content: &str, filter: &Filter) -> Result<Vec<sqlx::sqlite::SqliteRow>, JournalError> {
        let mut query =
            QueryBuilder::new("SELECT operation_id, task_id, step_id, attempt, kind, outcome, recorded_at, digest, ");
        query.push(content).push(" FROM cassettes WHERE 1 = 1");
        for (column, value) in
            [("operation_id", &filter.operation_id), ("task_id", &filter.task_id), ("step_id", &filter.step_id)]
        {
            if let Some(value) = value {
                query.push(" AND ").push(column).push(" = ").push_bind(value);
            }
        }
        if let Some(attempt) = filter.attempt {
            query.push(" AND attempt = ").push_bind(attempt);
        }
        if let Some(digest) = &filter.digest {
            query.push(" AND substr(digest, 1, ").push_bind(to_integer(digest.len() as u64));
            query.push(") = ").push_bind(digest);
        }
        query.push(" ORDER BY id");
        Ok(query.build().fetch_all(&self.0).await?)
    }
}

fn entry(row: &sqlx::sqlite::SqliteRow) -> Option<Entry> {
    Some(Entry {
        operation_id: row.get("operation_id"),
        task_id: row.get("task_id"),
        step_id: row.get("step_id"),
        attempt: u32::try_from(row.get::<i64, _>("attempt")).ok()?,
        kind: row.get("kind"),
        outcome: row.get("outcome"),
        recorded_at: row.get("recorded_at"),
        size: u64::try_from(row.get::<i64, _>("size")).ok()?,
        digest: row.get::<&str, _>("digest").parse().ok()?,
    })
}
