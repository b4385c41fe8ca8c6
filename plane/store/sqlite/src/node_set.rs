//! Sets of nodes.

use async_trait::async_trait;
use fettle_model::name::Label;
use fettle_store::{
    StoreError,
    context::Context,
    node_set::{NodeSet, NodeSetKind, NodeSetStore},
};
use fettle_store_rows::node_set::{NodeSetRow, resource_name};

use crate::{SqliteStore, audit, error::unavailable, row, writer::Unit};

async fn put(unit: &mut Unit, set: &NodeSet, context: &Context) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO node_sets (project_id, kind, name, org_id, nodes, updated_at) VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (project_id, kind, name) DO UPDATE SET nodes = excluded.nodes, updated_at = excluded.updated_at",
    )
    .bind(set.project.project_id.as_str())
    .bind(set.kind.name())
    .bind(set.name.as_str())
    .bind(set.project.org_id.as_str())
    .bind(row::text("node set", &set.nodes)?)
    .bind(set.updated_at.as_millisecond())
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable("put_node_set"))?;
    let name = resource_name(set.project.project_id.as_str(), set.kind, set.name.as_str());
    audit::record(unit, context, &audit::scope(Some(&set.project)), "node_set.put", &name);
    Ok(())
}

async fn delete(
    unit: &mut Unit,
    project: &Label,
    kind: NodeSetKind,
    name: &Label,
    context: &Context,
) -> Result<(), StoreError> {
    let removed: Option<(String,)> =
        sqlx::query_as("DELETE FROM node_sets WHERE project_id = $1 AND kind = $2 AND name = $3 RETURNING org_id")
            .bind(project.as_str())
            .bind(kind.name())
            .bind(name.as_str())
            .fetch_optional(&mut unit.connection)
            .await
            .map_err(unavailable("delete_node_set"))?;
    let (org_id,) = removed.ok_or_else(|| StoreError::not_found(kind.words(), name))?;
    let resource = resource_name(project.as_str(), kind, name.as_str());
    audit::record(unit, context, &format!("{org_id}/{project}"), "node_set.delete", &resource);
    Ok(())
}

#[async_trait]
impl NodeSetStore for SqliteStore {
    async fn put_node_set(&self, set: NodeSet, context: Context) -> Result<(), StoreError> {
        self.writer.run("put_node_set", move |unit| Box::pin(async move { put(unit, &set, &context).await })).await
    }

    async fn node_set(&self, project: &Label, kind: NodeSetKind, name: &Label) -> Result<Option<NodeSet>, StoreError> {
        let found: Option<NodeSetRow> =
            sqlx::query_as("SELECT * FROM node_sets WHERE project_id = $1 AND kind = $2 AND name = $3")
                .bind(project.as_str())
                .bind(kind.name())
                .bind(name.as_str())
                .fetch_optional(&mut *self.readers.take("node_set").await?)
                .await
                .map_err(unavailable("node_set"))?;
        found.map(NodeSetRow::set).transpose()
    }

    async fn node_sets(&self, project: &Label, kind: NodeSetKind) -> Result<Vec<NodeSet>, StoreError> {
        let rows: Vec<NodeSetRow> =
            sqlx::query_as("SELECT * FROM node_sets WHERE project_id = $1 AND kind = $2 ORDER BY name")
                .bind(project.as_str())
                .bind(kind.name())
                .fetch_all(&mut *self.readers.take("node_sets").await?)
                .await
                .map_err(unavailable("node_sets"))?;
        rows.into_iter().map(NodeSetRow::set).collect()
    }

    async fn delete_node_set(
        &self,
        project: &Label,
        kind: NodeSetKind,
        name: &Label,
        context: Context,
    ) -> Result<(), StoreError> {
        let (project, name) = (project.clone(), name.clone());
        self.writer
            .run("delete_node_set", move |unit| {
                Box::pin(async move { delete(unit, &project, kind, &name, &context).await })
            })
            .await
    }
}
