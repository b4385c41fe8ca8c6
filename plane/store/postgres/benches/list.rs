//! Pages of a list of a million operations.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot measure should stop")]

use std::sync::Arc;

use fettle_postgres_cluster::Cluster;
use fettle_store::laws::pages;
use fettle_store_postgres::PostgresStore;
use sqlx::{Connection as _, PgConnection};

#[tokio::main]
async fn main() {
    let Some(cluster) = Cluster::start() else {
        eprintln!("PostgreSQL is not installed: its figures are left out");
        return;
    };
    let url = cluster.url("postgres");
    let store = PostgresStore::open(&url.parse().unwrap(), Arc::new(())).await.unwrap();
    let (_, operation) = pages::template(&store).await;
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let columns: Vec<(String,)> = sqlx::query_as(
        "SELECT column_name::text FROM information_schema.columns WHERE table_name = 'operations' ORDER BY ordinal_position",
    )
    .fetch_all(&mut connection)
    .await
    .unwrap();
    let columns = columns.iter().map(|(name,)| match name.as_str() {
        "operation_id" => "'01' || lpad(number::text, 24, '0')",
        "status" => "CASE WHEN number % 1000 = 0 THEN 'failed' ELSE 'succeeded' END",
        "started_at" | "finished_at" => "created_at",
        "failure" => {
            "CASE WHEN number % 1000 = 0 THEN '{\"class\":\"permanent\",\"code\":\"bench\",\"message\":\"it failed\"}' END"
        }
        other => other,
    });
    let insert = format!(
        "INSERT INTO operations SELECT {} FROM operations, generate_series(1, $2::bigint) AS number WHERE operation_id = $1",
        columns.collect::<Vec<_>>().join(", ")
    );
    sqlx::query(sqlx::AssertSqlSafe(insert))
        .bind(operation.id.to_string())
        .bind(i64::try_from(pages::OPERATIONS).unwrap())
        .execute(&mut connection)
        .await
        .unwrap();
    sqlx::raw_sql("ANALYZE operations").execute(&mut connection).await.unwrap();
    pages::measure(&store, "postgres").await;
}
