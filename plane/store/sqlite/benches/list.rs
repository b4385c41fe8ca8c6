//! Pages of a list of a million operations.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot measure should stop")]

use std::sync::Arc;

use fettle_store::{Health as _, laws::pages};
use fettle_store_sqlite::SqliteStore;
use sqlx::{ConnectOptions as _, Connection as _, sqlite::SqliteConnectOptions};

#[tokio::main]
async fn main() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("plane.db");
    let store = SqliteStore::open(&file, Arc::new(())).await.unwrap();
    let (_, operation) = pages::template(&store).await;
    store.close().await;
    let mut connection = SqliteConnectOptions::new().filename(&file).connect().await.unwrap();
    let columns: Vec<(String,)> =
        sqlx::query_as("SELECT name FROM pragma_table_info('operations')").fetch_all(&mut connection).await.unwrap();
    let columns = columns.iter().map(|(name,)| match name.as_str() {
        "operation_id" => "format('01%024d', number)",
        "status" => "iif(number % 1000 = 0, 'failed', 'succeeded')",
        "started_at" | "finished_at" => "created_at",
        "failure" => {
            "iif(number % 1000 = 0, '{\"class\":\"permanent\",\"code\":\"bench\",\"message\":\"it failed\"}', NULL)"
        }
        other => other,
    });
    let insert = format!(
        "INSERT INTO operations WITH RECURSIVE numbers (number) AS (
             SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < $2)
         SELECT {} FROM numbers, operations WHERE operation_id = $1",
        columns.collect::<Vec<_>>().join(", ")
    );
    sqlx::query(sqlx::AssertSqlSafe(insert))
        .bind(operation.id.to_string())
        .bind(i64::try_from(pages::OPERATIONS).unwrap())
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
    let store = SqliteStore::open(&file, Arc::new(())).await.unwrap();
    pages::measure(&store, "sqlite").await;
}
