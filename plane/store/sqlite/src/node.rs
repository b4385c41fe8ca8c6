//! Nodes.

use async_trait::async_trait;
use fettle_store::{
    StoreError,
    change::Change,
    context::Context,
    id::NodeId,
    node::{NewNode, Node, NodeCertificate, NodeFacts, NodeKeys, NodeStanding, NodeStore},
    secret::SecretHash,
};
use fettle_store_rows::node::{Joining, NodeRow, StandingRow, WHAT, key_taken, name_taken, revoked, used_up};

use crate::{SqliteStore, audit, error::unavailable, row, writer::Unit};

macro_rules! columns {
    ($rest:literal) => {
        concat!(
            "SELECT node_id, name, org_id, project_id, host_version, capabilities, labels, slots,
                 registered_at, last_heartbeat_at, certificate_serial, certificate_authority, certificate_expires_at,
                 revoked_at,
                 (SELECT count(*) FROM tasks WHERE tasks.node_id = nodes.node_id AND tasks.status = 'leased')
                     AS running_tasks
             FROM nodes ",
            $rest
        )
    };
}

/// The node of this name, when this very token joined it and nothing was heard of it since.
async fn unheard(unit: &mut Unit, name: &str, join_token_id: &str) -> Result<Option<String>, StoreError> {
    let found: Option<(String,)> = sqlx::query_as(
        "SELECT node_id FROM nodes
         WHERE name = $1 AND join_token_id = $2 AND last_heartbeat_at IS NULL AND revoked_at IS NULL",
    )
    .bind(name)
    .bind(join_token_id)
    .fetch_optional(&mut unit.connection)
    .await
    .map_err(unavailable("join_node"))?;
    Ok(found.map(|(id,)| id))
}

async fn join(unit: &mut Unit, new: &NewNode, hash: SecretHash, context: &Context) -> Result<Node, StoreError> {
    let token: Option<Joining> = sqlx::query_as(
        "SELECT join_token_id, uses_left, org_id, project_id, labels FROM join_tokens
         WHERE secret_hash = $1 AND expires_at > $2",
    )
    .bind(hash.hex())
    .bind(context.at.as_millisecond())
    .fetch_optional(&mut unit.connection)
    .await
    .map_err(unavailable("join_node"))?;
    let token = token.ok_or_else(used_up)?;
    let id = match unheard(unit, &new.facts.name, &token.join_token_id).await? {
        Some(id) => {
            let id = row::parse(WHAT, &id)?;
            set_keys(unit, id, NodeKeys { key: new.hash, asked_by: None }).await?;
            id
        }
        None if token.uses_left == 0 => return Err(used_up()),
        None => {
            insert(unit, new, &token, context).await?;
            new.id
        }
    };
    update(unit, id, &new.facts).await?;
    let node = read(unit, id).await?;
    audit::record(unit, context, &audit::scope(node.owner.as_ref()), "node.join", &format!("nodes/{id}"));
    Ok(node)
}

/// The column has the name that it had when nodes had secrets; it keeps the hash of the public key.
async fn set_keys(unit: &mut Unit, id: NodeId, keys: NodeKeys) -> Result<(), StoreError> {
    let updated = sqlx::query(
        "UPDATE nodes SET secret_hash = $2, asked_by_hash = $3 WHERE node_id = $1
             AND NOT EXISTS (SELECT 1 FROM nodes AS other WHERE other.secret_hash = $2 AND other.node_id <> $1)",
    )
    .bind(id.to_string())
    .bind(keys.key.hex())
    .bind(keys.asked_by.map(|key| key.hex()))
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable("record_certificate"))?;
    if updated.rows_affected() == 0 { Err(key_taken()) } else { Ok(()) }
}

async fn certified(
    unit: &mut Unit,
    id: NodeId,
    keys: NodeKeys,
    certificate: &NodeCertificate,
    context: &Context,
) -> Result<(), StoreError> {
    let node = read(unit, id).await?;
    if node.revoked_at.is_some() {
        return Err(revoked(id));
    }
    set_keys(unit, id, keys).await?;
    sqlx::query(
        "UPDATE nodes SET certificate_serial = $2, certificate_authority = $3, certificate_expires_at = $4
         WHERE node_id = $1",
    )
    .bind(id.to_string())
    .bind(&certificate.serial)
    .bind(&certificate.authority)
    .bind(certificate.expires_at.as_millisecond())
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable("record_certificate"))?;
    let what = format!("nodes/{id}/certificates/{}", certificate.serial);
    audit::record(unit, context, &audit::scope(node.owner.as_ref()), "node.certify", &what);
    Ok(())
}

async fn revoke(unit: &mut Unit, id: NodeId, context: &Context) -> Result<Node, StoreError> {
    sqlx::query("UPDATE nodes SET revoked_at = coalesce(revoked_at, $2) WHERE node_id = $1")
        .bind(id.to_string())
        .bind(context.at.as_millisecond())
        .execute(&mut unit.connection)
        .await
        .map_err(unavailable("revoke_node"))?;
    let node = read(unit, id).await?;
    audit::record(unit, context, &audit::scope(node.owner.as_ref()), "node.revoke", &format!("nodes/{id}"));
    unit.announce(Change::NodeRevoked(id));
    Ok(node)
}

async fn insert(unit: &mut Unit, new: &NewNode, token: &Joining, context: &Context) -> Result<(), StoreError> {
    let inserted = sqlx::query(
        "INSERT INTO nodes (node_id, name, secret_hash, join_token_id, org_id, project_id, host_version, capabilities,
             slots, registered_at, assigned_labels)
         VALUES ($1, $2, $3, $4, $5, $6, '', '{}', 0, $7, $8) ON CONFLICT DO NOTHING",
    )
    .bind(new.id.to_string())
    .bind(&new.facts.name)
    .bind(new.hash.hex())
    .bind(&token.join_token_id)
    .bind(&token.org_id)
    .bind(&token.project_id)
    .bind(context.at.as_millisecond())
    .bind(&token.labels)
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable("join_node"))?;
    if inserted.rows_affected() == 0 {
        let named: Option<NodeRow> = sqlx::query_as(columns!("WHERE name = $1"))
            .bind(&new.facts.name)
            .fetch_optional(&mut unit.connection)
            .await
            .map_err(unavailable("join_node"))?;
        return Err(named.map_or_else(key_taken, |_| name_taken(&new.facts.name)));
    }
    sqlx::query("UPDATE join_tokens SET uses_left = uses_left - 1 WHERE join_token_id = $1")
        .bind(&token.join_token_id)
        .execute(&mut unit.connection)
        .await
        .map_err(unavailable("join_node"))?;
    Ok(())
}

async fn update(unit: &mut Unit, id: NodeId, facts: &NodeFacts) -> Result<(), StoreError> {
    let updated = sqlx::query(
        "UPDATE nodes SET name = $2, host_version = $3, capabilities = $4, slots = $5,
             labels = json_patch($6, assigned_labels) WHERE node_id = $1
             AND NOT EXISTS (SELECT 1 FROM nodes AS other WHERE other.name = $2 AND other.node_id <> $1)",
    )
    .bind(id.to_string())
    .bind(&facts.name)
    .bind(&facts.host_version)
    .bind(row::text(WHAT, &facts.capabilities)?)
    .bind(facts.slots)
    .bind(row::text(WHAT, &facts.labels)?)
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable("update_node"))?;
    if updated.rows_affected() == 0 {
        read(unit, id).await?;
        return Err(name_taken(&facts.name));
    }
    Ok(())
}

async fn read(unit: &mut Unit, id: NodeId) -> Result<Node, StoreError> {
    let found: Option<NodeRow> = sqlx::query_as(columns!("WHERE node_id = $1"))
        .bind(id.to_string())
        .fetch_optional(&mut unit.connection)
        .await
        .map_err(unavailable("node"))?;
    found.ok_or_else(|| StoreError::not_found("node", id))?.node()
}

#[async_trait]
impl NodeStore for SqliteStore {
    async fn join_node(&self, node: NewNode, join_token: SecretHash, context: Context) -> Result<Node, StoreError> {
        self.writer
            .run("join_node", move |unit| Box::pin(async move { join(unit, &node, join_token, &context).await }))
            .await
    }

    async fn update_node(&self, id: NodeId, facts: NodeFacts, context: Context) -> Result<Node, StoreError> {
        self.writer
            .run("update_node", move |unit| {
                Box::pin(async move {
                    update(unit, id, &facts).await?;
                    let node = read(unit, id).await?;
                    let scope = audit::scope(node.owner.as_ref());
                    audit::record(unit, &context, &scope, "node.update", &format!("nodes/{id}"));
                    // It may have now what a task waited for.
                    unit.announce(Change::TaskReady(id));
                    Ok(node)
                })
            })
            .await
    }

    async fn record_certificate(
        &self,
        id: NodeId,
        keys: NodeKeys,
        certificate: NodeCertificate,
        context: Context,
    ) -> Result<(), StoreError> {
        self.writer
            .run("record_certificate", move |unit| {
                Box::pin(async move { certified(unit, id, keys, &certificate, &context).await })
            })
            .await
    }

    async fn revoke_node(&self, id: NodeId, context: Context) -> Result<Node, StoreError> {
        self.writer.run("revoke_node", move |unit| Box::pin(async move { revoke(unit, id, &context).await })).await
    }

    async fn record_heartbeat(&self, id: NodeId, context: Context) -> Result<(), StoreError> {
        self.writer
            .run("record_heartbeat", move |unit| {
                Box::pin(async move {
                    let updated = sqlx::query("UPDATE nodes SET last_heartbeat_at = $2 WHERE node_id = $1")
                        .bind(id.to_string())
                        .bind(context.at.as_millisecond())
                        .execute(&mut unit.connection)
                        .await
                        .map_err(unavailable("record_heartbeat"))?;
                    if updated.rows_affected() == 0 { Err(StoreError::not_found("node", id)) } else { Ok(()) }
                })
            })
            .await
    }

    async fn node(&self, id: NodeId) -> Result<Option<Node>, StoreError> {
        let found: Option<NodeRow> = sqlx::query_as(columns!("WHERE node_id = $1"))
            .bind(id.to_string())
            .fetch_optional(&mut *self.readers.take("node").await?)
            .await
            .map_err(unavailable("node"))?;
        found.map(NodeRow::node).transpose()
    }

    async fn node_by_name(&self, name: &str) -> Result<Option<Node>, StoreError> {
        let found: Option<NodeRow> = sqlx::query_as(columns!("WHERE name = $1"))
            .bind(name)
            .fetch_optional(&mut *self.readers.take("node_by_name").await?)
            .await
            .map_err(unavailable("node_by_name"))?;
        found.map(NodeRow::node).transpose()
    }

    async fn node_standing(&self, id: NodeId) -> Result<Option<NodeStanding>, StoreError> {
        let sql =
            "SELECT revoked_at IS NOT NULL AS is_revoked, secret_hash, asked_by_hash FROM nodes WHERE node_id = $1";
        let found: Option<StandingRow> = sqlx::query_as(sql)
            .bind(id.to_string())
            .fetch_optional(&mut *self.readers.take("node_standing").await?)
            .await
            .map_err(unavailable("node_standing"))?;
        found.map(StandingRow::standing).transpose()
    }

    async fn nodes(&self) -> Result<Vec<Node>, StoreError> {
        let rows: Vec<NodeRow> = sqlx::query_as(columns!("ORDER BY name"))
            .fetch_all(&mut *self.readers.take("nodes").await?)
            .await
            .map_err(unavailable("nodes"))?;
        rows.into_iter().map(NodeRow::node).collect()
    }
}
