//! What readers follow by number: events, log lines, and the chain of the audit trail.
//!
//! A number that is taken early and committed late would be missed by whoever has read beyond it. So these rows
//! are collected while verbs run, and written last, under a lock on the one row that has the numbers and the end
//! of the chain. It is held for one statement and the commit, whatever the verbs did before.

use std::collections::HashSet;

use fettle_model::task::LogLevel;
use fettle_store::{StoreError, audit::AuditRecord, event::EventKind};
pub(crate) use fettle_store_rows::step::clean;
use fettle_store_rows::{audit as audit_rows, report::Lines};
use jiff::Timestamp;
use serde_json::Value;
use sqlx::PgConnection;
use sqlx_macros::FromRow;

use crate::row;

/// Rows that wait for the commit.
#[derive(Default)]
pub(crate) struct Journal {
    audit: Vec<Audited>,
    events: Vec<Event>,
    logs: Vec<Line>,
}

/// How many rows waited.
#[derive(Clone, Copy)]
pub(crate) struct Mark(usize, usize, usize);

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

struct Line {
    operation_id: String,
    node_id: String,
    step_id: String,
    attempt: i64,
    at: i64,
    level: String,
    text: String,
}

/// Where numbers and chain end.
#[derive(FromRow)]
struct Head {
    audit_sequence: i64,
    event_sequence: i64,
    log_sequence: i64,
    link: Option<String>,
}

impl Journal {
    pub(crate) fn mark(&self) -> Mark {
        Mark(self.audit.len(), self.events.len(), self.logs.len())
    }

    pub(crate) fn back_to(&mut self, mark: Mark) {
        self.audit.truncate(mark.0);
        self.events.truncate(mark.1);
        self.logs.truncate(mark.2);
    }

    /// A row of the audit trail.
    pub(crate) fn audit(&mut self, row: AuditRecord) {
        self.audit.push(Audited { row: cleaned(row), once: None });
    }

    /// A row of the audit trail that is written once for its key. One that cannot be linked is refused here: what a
    /// node says may stand in nobody else's way.
    pub(crate) fn audit_once(&mut self, row: AuditRecord, operation_id: String, key: String) -> Result<(), StoreError> {
        let row = cleaned(row);
        audit_rows::link(None, &row)?;
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

    /// Log lines of a step.
    pub(crate) fn logs(&mut self, lines: Lines<'_>) {
        let Lines { operation_id, node_id, step_id, attempt, lines } = lines;
        self.logs.extend(lines.into_iter().map(|line| Line {
            operation_id: operation_id.clone(),
            node_id: node_id.clone(),
            step_id: step_id.to_string(),
            attempt: i64::from(attempt),
            at: line.at,
            level: level(line.level),
            text: clean(line.text),
        }));
    }

    fn is_empty(&self) -> bool {
        self.audit.is_empty() && self.events.is_empty() && self.logs.is_empty()
    }

    /// Writes what was collected, and tells the other planes with the commit.
    pub(crate) async fn write(self, connection: &mut PgConnection, told: Vec<String>) -> Result<(), Unwritten> {
        if self.is_empty() {
            if !told.is_empty() {
                sqlx::query("SELECT pg_notify($1, told) FROM unnest($2::text[]) AS told")
                    .bind(crate::announcement::CHANNEL)
                    .bind(told)
                    .execute(connection)
                    .await?;
            }
            return Ok(());
        }
        let head: Head =
            sqlx::query_as("SELECT audit_sequence, event_sequence, log_sequence, link FROM journal FOR NO KEY UPDATE")
                .fetch_one(&mut *connection)
                .await?;
        let Self { audit, events, logs } = self;
        let audit = unknown(connection, audit).await?;
        insert(connection, head, audit, events, logs, told).await
    }
}

/// Why the journal was not written.
pub(crate) enum Unwritten {
    Database(sqlx::Error),
    Store(StoreError),
}

impl From<sqlx::Error> for Unwritten {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

impl From<StoreError> for Unwritten {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

fn cleaned(row: AuditRecord) -> AuditRecord {
    AuditRecord {
        actor: clean(&row.actor),
        scope: clean(&row.scope),
        action: clean(&row.action),
        resource_name: clean(&row.resource_name),
        result: clean(&row.result),
        correlation_id: clean(&row.correlation_id),
        ..row
    }
}

fn level(level: LogLevel) -> String {
    let name = serde_json::to_value(level).ok();
    name.as_ref().and_then(Value::as_str).unwrap_or("info").to_owned()
}

/// Leaves out what was written before under the same key, and what is beyond the limit of its operation.
async fn unknown(connection: &mut PgConnection, rows: Vec<Audited>) -> Result<Vec<Audited>, sqlx::Error> {
    let once: Vec<&(String, String)> = rows.iter().filter_map(|row| row.once.as_ref()).collect();
    if once.is_empty() {
        return Ok(rows);
    }
    let keys: Vec<String> = once.iter().map(|(_, key)| key.clone()).collect();
    let operations: Vec<String> = once.iter().map(|(operation, _)| operation.clone()).collect();
    let known: Vec<(Option<String>, Option<String>)> = sqlx::query_as(
        "SELECT report_key, NULL FROM audit_logs WHERE report_key = ANY($1)
         UNION ALL
         SELECT NULL, operation_id FROM audit_logs WHERE operation_id = ANY($2) AND report_key IS NOT NULL
         GROUP BY operation_id HAVING count(*) >= $3",
    )
    .bind(keys)
    .bind(operations)
    .bind(audit_rows::DENIED_CALLS)
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

/// One statement for all of it.
const INSERT: &str = "
WITH audit AS (
    INSERT INTO audit_logs (sequence, at, actor, scope, action, resource_name, result, correlation_id, operation_id,
        details, report_key, link)
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
        $8::text[], $9::text[], $10::text[], $11::text[], $12::text[])
), events AS (
    INSERT INTO outbox_events (sequence, operation_id, kind, at, payload)
    SELECT * FROM unnest($13::bigint[], $14::text[], $15::text[], $16::bigint[], $17::text[])
), logs AS (
    INSERT INTO operation_logs (sequence, operation_id, step_id, attempt, at, level, text, node_id)
    SELECT * FROM unnest($18::bigint[], $19::text[], $20::text[], $21::bigint[], $22::bigint[], $23::text[], $24::text[],
        $31::text[])
), head AS (
    UPDATE journal SET audit_sequence = $25, event_sequence = $26, log_sequence = $27, link = $28
)
SELECT pg_notify($29, told) FROM unnest($30::text[]) AS told";

async fn insert(
    connection: &mut PgConnection,
    head: Head,
    audit: Vec<Audited>,
    events: Vec<Event>,
    logs: Vec<Line>,
    told: Vec<String>,
) -> Result<(), Unwritten> {
    let (audit, link) = chained(&head, audit)?;
    let ends = (last(head.audit_sequence, &audit), last(head.event_sequence, &events), last(head.log_sequence, &logs));
    let column = |of: fn(&Linked) -> String| audit.iter().map(of).collect::<Vec<_>>();
    let optional = |of: fn(&Linked) -> Option<String>| audit.iter().map(of).collect::<Vec<_>>();
    let (event, line) = (&events, &logs);
    sqlx::query(INSERT)
        .bind(numbers(head.audit_sequence, &audit))
        .bind(audit.iter().map(|row| row.row.at.as_millisecond()).collect::<Vec<_>>())
        .bind(column(|row| row.row.actor.clone()))
        .bind(column(|row| row.row.scope.clone()))
        .bind(column(|row| row.row.action.clone()))
        .bind(column(|row| row.row.resource_name.clone()))
        .bind(column(|row| row.row.result.clone()))
        .bind(column(|row| row.row.correlation_id.clone()))
        .bind(optional(|row| row.once.as_ref().map(|(operation, _)| operation.clone())))
        .bind(optional(|row| row.details.clone()))
        .bind(optional(|row| row.once.as_ref().map(|(_, key)| key.clone())))
        .bind(column(|row| row.link.clone()))
        .bind(numbers(head.event_sequence, event))
        .bind(event.iter().map(|row| row.operation_id.clone()).collect::<Vec<_>>())
        .bind(event.iter().map(|row| row.kind.name()).collect::<Vec<_>>())
        .bind(event.iter().map(|row| row.at).collect::<Vec<_>>())
        .bind(event.iter().map(|row| row.payload.clone()).collect::<Vec<_>>())
        .bind(numbers(head.log_sequence, line))
        .bind(line.iter().map(|row| row.operation_id.clone()).collect::<Vec<_>>())
        .bind(line.iter().map(|row| row.step_id.clone()).collect::<Vec<_>>())
        .bind(line.iter().map(|row| row.attempt).collect::<Vec<_>>())
        .bind(line.iter().map(|row| row.at).collect::<Vec<_>>())
        .bind(line.iter().map(|row| row.level.clone()).collect::<Vec<_>>())
        .bind(line.iter().map(|row| row.text.clone()).collect::<Vec<_>>())
        .bind(ends.0)
        .bind(ends.1)
        .bind(ends.2)
        .bind(link)
        .bind(crate::announcement::CHANNEL)
        .bind(told)
        .bind(line.iter().map(|row| row.node_id.clone()).collect::<Vec<_>>())
        .execute(connection)
        .await?;
    Ok(())
}

/// A row of the audit trail with its place in the chain.
struct Linked {
    row: AuditRecord,
    once: Option<(String, String)>,
    details: Option<String>,
    link: String,
}

/// Links the rows, and answers the new end of the chain.
fn chained(head: &Head, rows: Vec<Audited>) -> Result<(Vec<Linked>, Option<String>), StoreError> {
    let mut previous = head.link.as_deref().map(|text| row::parse("audit link", text)).transpose()?;
    let mut linked = Vec::with_capacity(rows.len());
    for Audited { row, once } in rows {
        let link = audit_rows::link(previous, &row)?;
        previous = Some(link);
        let details = row.details.as_ref().map(|details| row::text("audit row", details)).transpose()?;
        linked.push(Linked { row, once, details, link: link.to_string() });
    }
    Ok((linked, previous.map(|link| link.to_string())))
}

fn last<T>(end: i64, rows: &[T]) -> i64 {
    end.saturating_add(i64::try_from(rows.len()).unwrap_or(i64::MAX))
}

fn numbers<T>(end: i64, rows: &[T]) -> Vec<i64> {
    (end.saturating_add(1)..=last(end, rows)).collect()
}
