//! The PostgreSQL store keeps the laws of every store.

use std::sync::Arc;

use fettle_postgres_cluster::Cluster;
use fettle_store::Store;
use fettle_store_postgres::PostgresStore;

async fn open() -> Option<(Cluster, Arc<dyn Store>)> {
    let cluster = Cluster::start()?;
    let store = PostgresStore::open(&cluster.url("postgres").parse().unwrap(), Arc::new(())).await.unwrap();
    Some((cluster, Arc::new(store)))
}

fettle_store::laws!(open);
