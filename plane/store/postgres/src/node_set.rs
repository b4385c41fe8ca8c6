//! Sets of nodes.

use async_trait::async_trait;
use fettle_model::name::Label;
use fettle_store::{
    StoreError,
    context::Context,
    node_set::{NodeSet, NodeSetKind, NodeSetStore},
};
use fettle_store_rows::node_set::{NodeSetRow, resource_name};

use crate::{
    PostgresStore, audit, row,
    unit::{Asking, Unit},
};

macro_rules! sets {
    ($rest:literal) => {
        concat!("SELECT project_id, org_id, kind, name, nodes, updated_at FROM node_sets ", $rest)
    };
}

async fn put(unit: &mut Unit, set: &NodeSet, context: &Context) -> Result<(), StoreError> {
    let nodes = row::text("node set", &set.nodes)?;
    unit.execute(
        "INSERT INTO node_sets (project_id, kind, name, org_id, nodes, updated_at) VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (project_id, kind, name) DO UPDATE SET nodes = excluded.nodes, updated_at = excluded.updated_at",
        |query| {
            query
                .bind(set.project.project_id.to_string())
                .bind(set.kind.name())
                .bind(set.name.to_string())
                .bind(set.project.org_id.to_string())
                .bind(nodes)
                .bind(set.updated_at.as_millisecond())
        },
    )
    .await?;
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
    let sql = "DELETE FROM node_sets WHERE project_id = $1 AND kind = $2 AND name = $3 RETURNING org_id";
    let removed = unit
        .change_one(sql, |query: Asking<(String,)>| {
            query.bind(project.to_string()).bind(kind.name()).bind(name.to_string())
        })
        .await?;
    let (org_id,) = removed.ok_or_else(|| StoreError::not_found(kind.words(), name))?;
    let resource = resource_name(project.as_str(), kind, name.as_str());
    audit::record(unit, context, &format!("{org_id}/{project}"), "node_set.delete", &resource);
    Ok(())
}

#[async_trait]
impl NodeSetStore for PostgresStore {
    async fn put_node_set(&self, set: NodeSet, context: Context) -> Result<(), StoreError> {
        self.writer.run("put_node_set", (set, context), |unit, (set, context)| Box::pin(put(unit, set, context))).await
    }

    async fn node_set(&self, project: &Label, kind: NodeSetKind, name: &Label) -> Result<Option<NodeSet>, StoreError> {
        let sql = sets!("WHERE project_id = $1 AND kind = $2 AND name = $3");
        let bind = |query: Asking<NodeSetRow>| query.bind(project.to_string()).bind(kind.name()).bind(name.to_string());
        self.reader.one("node_set", sql, bind).await?.map(NodeSetRow::set).transpose()
    }

    async fn node_sets(&self, project: &Label, kind: NodeSetKind) -> Result<Vec<NodeSet>, StoreError> {
        let sql = sets!("WHERE project_id = $1 AND kind = $2 ORDER BY name");
        let bind = |query: Asking<NodeSetRow>| query.bind(project.to_string()).bind(kind.name());
        let rows = self.reader.all("node_sets", sql, bind).await?;
        rows.into_iter().map(NodeSetRow::set).collect()
    }

    async fn delete_node_set(
        &self,
        project: &Label,
        kind: NodeSetKind,
        name: &Label,
        context: Context,
    ) -> Result<(), StoreError> {
        self.writer
            .run(
                "delete_node_set",
                (project.clone(), kind, name.clone(), context),
                |unit, (project, kind, name, context)| Box::pin(delete(unit, project, *kind, name, context)),
            )
            .await
    }
}
