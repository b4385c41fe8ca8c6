//! What a verb works on: the writing connection inside a transaction, and what goes with its commit.

use fettle_store::{StoreError, change::Change, fact::Fact};
use sqlx::{
    FromRow, PgConnection, Postgres, SqlSafeStr,
    postgres::{PgArguments, PgRow},
    query::{Query, QueryAs},
};

use crate::{error::unavailable, journal::Journal};

/// A statement that answers rows, to be given its values.
pub(crate) type Asking<R> = QueryAs<'static, Postgres, R, PgArguments>;

/// A statement that answers nothing, to be given its values.
pub(crate) type Telling = Query<'static, Postgres, PgArguments>;

/// The statement whose verb is not known here: the writer names it.
const VERB: &str = "write";

/// The writing connection, and what is written with the commit.
pub(crate) struct Unit {
    pub(crate) connection: PgConnection,
    /// Rows that are numbered in the order of the commits.
    pub(crate) journal: Journal,
    changes: Vec<(Change, Reach)>,
    facts: Vec<Fact>,
    /// Whether a statement since the last mark may have written.
    wrote: bool,
}

/// Who is told of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Here,
    Everywhere,
}

/// How far a transaction had come.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    journal: crate::journal::Mark,
    changes: usize,
    facts: usize,
}

impl Unit {
    pub(crate) fn new(connection: PgConnection) -> Self {
        Self { connection, journal: Journal::default(), changes: Vec::new(), facts: Vec::new(), wrote: false }
    }

    /// Tells those who wait for it, at every plane, once the transaction is durable.
    pub(crate) fn announce(&mut self, change: Change) {
        self.tell(change, Reach::Everywhere);
    }

    /// Tells those who wait for it at this plane: the others lose nothing when they learn it later.
    pub(crate) fn announce_here(&mut self, change: Change) {
        self.tell(change, Reach::Here);
    }

    /// Tells of it once, at this plane, when the transaction is durable.
    pub(crate) fn witness(&mut self, fact: Fact) {
        self.facts.push(fact);
    }

    /// What was witnessed.
    pub(crate) fn take_facts(&mut self) -> Vec<Fact> {
        std::mem::take(&mut self.facts)
    }

    fn tell(&mut self, change: Change, reach: Reach) {
        let told =
            self.changes.iter().any(|(known, far)| *known == change && (*far == reach || *far == Reach::Everywhere));
        if !told {
            self.changes.push((change, reach));
        }
    }

    /// What the other planes are told.
    pub(crate) fn announced(&self) -> Vec<String> {
        let far = self.changes.iter().filter(|(_, reach)| *reach == Reach::Everywhere);
        crate::announcement::write(far.map(|(change, _)| change))
    }

    /// What those at this plane are told.
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes).into_iter().map(|(change, _)| change).collect()
    }

    /// Begins something that may have to be taken back.
    pub(crate) fn mark(&mut self) -> Mark {
        self.wrote = false;
        Mark { journal: self.journal.mark(), changes: self.changes.len(), facts: self.facts.len() }
    }

    /// Forgets what was to be written since the mark. Answers whether the database has to forget something too.
    pub(crate) fn back_to(&mut self, mark: Mark) -> bool {
        self.journal.back_to(mark.journal);
        self.changes.truncate(mark.changes);
        self.facts.truncate(mark.facts);
        self.wrote
    }

    /// Forgets the whole transaction.
    pub(crate) fn clear(&mut self) {
        self.journal = Journal::default();
        self.changes.clear();
        self.facts.clear();
    }

    /// A statement that was sent as a look has written.
    pub(crate) fn has_written(&mut self) {
        self.wrote = true;
    }

    /// Rows of a statement that changes nothing. It may lock rows until the commit.
    pub(crate) async fn look<R>(
        &mut self,
        sql: impl SqlSafeStr + Send,
        bind: impl FnOnce(Asking<R>) -> Asking<R> + Send,
    ) -> Result<Vec<R>, StoreError>
    where
        R: for<'r> FromRow<'r, PgRow> + Send + Unpin,
    {
        let query = bind(sqlx::query_as(sql));
        query.fetch_all(&mut self.connection).await.map_err(unavailable(VERB))
    }

    /// The only row of a statement that changes nothing.
    pub(crate) async fn look_for<R>(
        &mut self,
        sql: impl SqlSafeStr + Send,
        bind: impl FnOnce(Asking<R>) -> Asking<R> + Send,
    ) -> Result<Option<R>, StoreError>
    where
        R: for<'r> FromRow<'r, PgRow> + Send + Unpin,
    {
        Ok(self.look(sql, bind).await?.into_iter().next())
    }

    /// Rows that a statement answers about what it changed.
    pub(crate) async fn change<R>(
        &mut self,
        sql: impl SqlSafeStr + Send,
        bind: impl FnOnce(Asking<R>) -> Asking<R> + Send,
    ) -> Result<Vec<R>, StoreError>
    where
        R: for<'r> FromRow<'r, PgRow> + Send + Unpin,
    {
        let rows = self.look(sql, bind).await?;
        self.wrote = true;
        Ok(rows)
    }

    /// The only row that a statement answers about what it changed; none when it changed nothing.
    pub(crate) async fn change_one<R>(
        &mut self,
        sql: impl SqlSafeStr + Send,
        bind: impl FnOnce(Asking<R>) -> Asking<R> + Send,
    ) -> Result<Option<R>, StoreError>
    where
        R: for<'r> FromRow<'r, PgRow> + Send + Unpin,
    {
        let rows = self.look(sql, bind).await?;
        self.wrote |= !rows.is_empty();
        Ok(rows.into_iter().next())
    }

    /// How many rows a statement changed.
    pub(crate) async fn execute(
        &mut self,
        sql: impl SqlSafeStr + Send,
        bind: impl FnOnce(Telling) -> Telling + Send,
    ) -> Result<u64, StoreError> {
        let query = bind(sqlx::query(sql));
        let done = query.execute(&mut self.connection).await.map_err(unavailable(VERB))?;
        self.wrote |= done.rows_affected() > 0;
        Ok(done.rows_affected())
    }
}
