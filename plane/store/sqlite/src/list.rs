//! Answers of many rows as one document. A row at a time, the connection's thread wakes whoever reads for each of them,
//! and copies every value on its own (docs/decisions/verbs-together.md).

use fettle_store::StoreError;
use serde::de::DeserializeOwned;
use sqlx::{Executor, Sqlite, query::QueryScalar, sqlite::SqliteArguments};

use crate::{error::unavailable, row};

/// A statement that answers one text.
pub(crate) type Text<'q> = QueryScalar<'q, Sqlite, String, SqliteArguments>;

/// Reads the rows that a statement answers as `json_group_array(json_array(..))`: each column in the order of the fields.
pub(crate) async fn read<'c, T: DeserializeOwned>(
    connection: impl Executor<'c, Database = Sqlite>,
    (verb, what): (&'static str, &'static str),
    statement: Text<'_>,
) -> Result<Vec<T>, StoreError> {
    // All: what is read one row of is not run to its end, and there may be more statements.
    let rows = statement.fetch_all(connection).await.map_err(unavailable(verb))?;
    rows.first().map_or_else(|| Ok(Vec::new()), |rows| row::document(what, rows))
}
