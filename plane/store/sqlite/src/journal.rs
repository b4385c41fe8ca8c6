//! Rows that only ever follow on one another: events, and the chain of the audit trail. They are collected while verbs
//! run and written with the commit, in a statement for each table, however many verbs there were.

use std::collections::HashSet;

use fettle_model::digest::Digest;
use fettle_store::{StoreError, audit::AuditRecord, event::EventKind};
use fettle_store_rows::audit::{DENIED_CALLS, link};
use jiff::Timestamp;
use serde_json::Value;
use sqlx::{QueryBuilder, Sqlite, SqliteConnection};

use crate::row;

/// Rows of one statement: SQLite takes 32,766 values in one.
const ROWS: usize = 1000;

/// Rows that wait for the commit.
#[derive(Default)]
pub(crate) struct Journal {
    audit: Vec<Audited>,
    events: Vec<Event>,
}

/// How many rows waited.
#[derive(Clone, Copy)]
pub(crate) struct Mark(usize, usize);

struct Audited {
    row: AuditRecord,
    /// The operation and the key of a row that is written once, however often it is reported.
    once: Option<(String, String)>,
}

struct Event {
    operation_id: String,
    kind: EventKind,
    at: i64,
    payload: String,
}

/// A row of the audit trail with its place in the chain.
struct Linked {
    row: AuditRecord,
    once: Option<(String, String)>,
    details: Option<String>,
    link: String,
}

/// Why the journal was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unwritten {
    /// The database refused.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
    /// A row cannot be linked with the one before.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Journal {
    pub(crate) fn mark(&self) -> Mark {
        Mark(self.audit.len(), self.events.len())
    }

    pub(crate) fn back_to(&mut self, mark: Mark) {
        self.audit.truncate(mark.0);
        self.events.truncate(mark.1);
    }

    /// A row of the audit trail.
    pub(crate) fn audit(&mut self, row: AuditRecord) {
        self.audit.push(Audited { row, once: None });
    }

    /// A row of the audit trail that is written once for its key. One that cannot be linked is refused here: what a
    /// node says may stand in nobody else's way.
    pub(crate) fn audit_once(&mut self, row: AuditRecord, operation_id: String, key: String) -> Result<(), StoreError> {
        link(None, &row)?;
        self.audit.push(Audited { row, once: Some((operation_id, key)) });
        Ok(())
    }

    /// An event of the outbox.
    pub(crate) fn event(
        &mut self,
        operation_id: &str,
        kind: EventKind,
        at: Timestamp,
        payload: &Value,
    ) -> Result<(), StoreError> {
        let payload = row::text("event", payload)?;
        self.events.push(Event { operation_id: operation_id.to_owned(), kind, at: at.as_millisecond(), payload });
        Ok(())
    }

    /// Writes what was collected.
    pub(crate) async fn write(self, connection: &mut SqliteConnection) -> Result<(), Unwritten> {
        for events in self.events.chunks(ROWS) {
            insert_events(connection, events).await?;
        }
        if self.audit.is_empty() {
            return Ok(());
        }
        let audit = unknown(connection, self.audit).await?;
        let last: Option<Option<String>> =
            sqlx::query_scalar("SELECT link FROM audit_logs ORDER BY sequence DESC LIMIT 1")
                .fetch_optional(&mut *connection)
                .await?;
        // One transaction writes at a time, whichever process it is of, so nothing comes between.
        let previous = last.flatten().map(|text| row::parse("audit link", &text)).transpose()?;
        for rows in chained(previous, audit)?.chunks(ROWS) {
            insert_audit(connection, rows).await?;
        }
        Ok(())
    }
}

/// Leaves out what was written before under the same key, and what is beyond the limit of its operation.
async fn unknown(connection: &mut SqliteConnection, rows: Vec<Audited>) -> Result<Vec<Audited>, Unwritten> {
    let once: Vec<&(String, String)> = rows.iter().filter_map(|row| row.once.as_ref()).collect();
    if once.is_empty() {
        return Ok(rows);
    }
    let known: Vec<(Option<String>, Option<String>)> = sqlx::query_as(
        "SELECT report_key, NULL FROM audit_logs WHERE report_key IN (SELECT value ->> 1 FROM json_each($1))
         UNION ALL
         SELECT NULL, operation_id FROM audit_logs
         WHERE operation_id IN (SELECT value ->> 0 FROM json_each($1)) AND report_key IS NOT NULL
         GROUP BY operation_id HAVING count(*) >= $2",
    )
    .bind(row::text("audit row", &once)?)
    .bind(DENIED_CALLS)
    .fetch_all(connection)
    .await?;
    let mut written: HashSet<String> = known.iter().filter_map(|(key, _)| key.clone()).collect();
    let full: HashSet<String> = known.into_iter().filter_map(|(_, operation)| operation).collect();
    let mut is_new = |row: &Audited| match &row.once {
        None => true,
        Some((operation, key)) => !full.contains(operation) && written.insert(key.clone()),
    };
    Ok(rows.into_iter().filter(|row| is_new(row)).collect())
}

fn chained(mut previous: Option<Digest>, rows: Vec<Audited>) -> Result<Vec<Linked>, StoreError> {
    let mut linked = Vec::with_capacity(rows.len());
    for Audited { row, once } in rows {
        let link = link(previous, &row)?;
        previous = Some(link);
        let details = row.details.as_ref().map(|details| row::text("audit row", details)).transpose()?;
        linked.push(Linked { row, once, details, link: link.to_string() });
    }
    Ok(linked)
}

async fn insert_events(connection: &mut SqliteConnection, events: &[Event]) -> Result<(), sqlx::Error> {
    let mut insert = QueryBuilder::<Sqlite>::new("INSERT INTO outbox_events (operation_id, kind, at, payload) ");
    insert.push_values(events, |mut values, event| {
        values
            .push_bind(&event.operation_id)
            .push_bind(event.kind.name())
            .push_bind(event.at)
            .push_bind(&event.payload);
    });
    insert.build().execute(connection).await.map(drop)
}

async fn insert_audit(connection: &mut SqliteConnection, rows: &[Linked]) -> Result<(), sqlx::Error> {
    let mut insert = QueryBuilder::<Sqlite>::new(
        "INSERT INTO audit_logs (at, actor, scope, action, resource_name, result, correlation_id, operation_id,
             details, report_key, link) ",
    );
    insert.push_values(rows, |mut values, Linked { row, once, details, link }| {
        values
            .push_bind(row.at.as_millisecond())
            .push_bind(&row.actor)
            .push_bind(&row.scope)
            .push_bind(&row.action)
            .push_bind(&row.resource_name)
            .push_bind(&row.result)
            .push_bind(&row.correlation_id)
            .push_bind(once.as_ref().map(|(operation, _)| operation))
            .push_bind(details.as_ref())
            .push_bind(once.as_ref().map(|(_, key)| key))
            .push_bind(link);
    });
    insert.build().execute(connection).await.map(drop)
}
