//! Statements over many rows. Their texts are written once, for a few numbers of rows, so that the database
//! prepares each of them once and nothing is put together while a batch is written.

use std::sync::LazyLock;

use sqlx::{Arguments as _, Sqlite, query::Query, sqlite::SqliteArguments};

/// Rows of one statement: whatever their number, a handful of statements covers them.
const SIZES: [usize; 5] = [256, 64, 16, 4, 1];

/// A statement that is executed for many rows.
pub(super) struct Statement {
    columns: usize,
    texts: [String; SIZES.len()],
}

/// One, made when it is first needed.
pub(super) type Static = LazyLock<Statement>;

/// It, with a few rows.
pub(super) type Filled = Query<'static, Sqlite, SqliteArguments>;

impl Statement {
    /// `head`, then for each row as many values as there are columns in parentheses, then `tail`.
    pub(super) fn of_values(head: &str, columns: usize, tail: &str) -> Self {
        let row = format!("({})", vec!["?"; columns].join(", "));
        Self::new(head, &row, columns, tail)
    }

    /// `head`, then a list of one value for each row, then `tail`.
    pub(super) fn of_list(head: &str, tail: &str) -> Self {
        Self::new(head, "?", 1, tail)
    }

    fn new(head: &str, row: &str, columns: usize, tail: &str) -> Self {
        let text = |rows: usize| format!("{head} {} {tail}", vec![row; rows].join(", "));
        Self { columns, texts: SIZES.map(text) }
    }

    /// The statements that are needed for these rows, in their order.
    pub(super) fn filled<T>(
        &'static self,
        rows: Vec<T>,
        bind: impl Fn(Filled, T) -> Filled,
    ) -> impl Iterator<Item = Filled> {
        let mut rows = rows.into_iter();
        std::iter::from_fn(move || {
            let (size, text) = SIZES.iter().zip(&self.texts).find(|(size, _)| **size <= rows.len())?;
            let mut arguments = SqliteArguments::default();
            arguments.reserve(size * self.columns, 0);
            let query = sqlx::query_with(text.as_str(), arguments);
            Some(rows.by_ref().take(*size).fold(query, &bind))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use sqlx::{Connection as _, SqliteConnection};

    use super::{Statement, Static};

    #[tokio::test]
    async fn every_number_of_rows_is_covered_once_and_in_order() {
        static INSERT: Static = LazyLock::new(|| Statement::of_values("INSERT INTO rows (a, b) VALUES", 2, ""));
        let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        sqlx::query("CREATE TABLE rows (a, b)").execute(&mut connection).await.unwrap();
        for count in [0, 1, 3, 5, 37, 64, 700] {
            sqlx::query("DELETE FROM rows").execute(&mut connection).await.unwrap();
            let rows: Vec<i64> = (0..count).collect();
            for query in INSERT.filled(rows.clone(), |query, row| query.bind(row).bind(format!("row {row}"))) {
                query.execute(&mut connection).await.unwrap();
            }
            let written: Vec<(i64, String)> =
                sqlx::query_as("SELECT a, b FROM rows ORDER BY rowid").fetch_all(&mut connection).await.unwrap();
            let expected: Vec<_> = rows.into_iter().map(|row| (row, format!("row {row}"))).collect();
            assert_eq!(written, expected, "{count} rows");
        }
    }
}
