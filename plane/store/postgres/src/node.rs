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

use crate::{
    PostgresStore, audit,
    journal::clean,
    row,
    unit::{Asking, Unit},
};

macro_rules! nodes {
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

async fn join(unit: &mut Unit, new: &NewNode, hash: SecretHash, context: &Context) -> Result<Node, StoreError> {
    // Locked, so that two planes do not use the same use.
    let token = unit
        .look_for(
            "SELECT join_token_id, uses_left, org_id, project_id, labels FROM join_tokens
             WHERE secret_hash = $1 AND expires_at > $2 FOR NO KEY UPDATE",
            |query: Asking<Joining>| query.bind(hash.hex()).bind(context.at.as_millisecond()),
        )
        .await?;
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

/// The node of this name, when this very token joined it and nothing was heard of it since.
async fn unheard(unit: &mut Unit, name: &str, join_token_id: &str) -> Result<Option<String>, StoreError> {
    let found = unit
        .look_for(
            "SELECT node_id FROM nodes
             WHERE name = $1 AND join_token_id = $2 AND last_heartbeat_at IS NULL AND revoked_at IS NULL
             FOR NO KEY UPDATE",
            |query: Asking<(String,)>| query.bind(clean(name)).bind(join_token_id.to_owned()),
        )
        .await?;
    Ok(found.map(|(id,)| id))
}

/// The column has the name that it had when nodes had secrets; it keeps the hash of the public key.
async fn set_keys(unit: &mut Unit, id: NodeId, keys: NodeKeys) -> Result<(), StoreError> {
    let updated = unit
        .execute(
            "UPDATE nodes SET secret_hash = $2, asked_by_hash = $3 WHERE node_id = $1
                 AND NOT EXISTS (SELECT 1 FROM nodes AS other WHERE other.secret_hash = $2 AND other.node_id <> $1)",
            |query| query.bind(id.to_string()).bind(keys.key.hex()).bind(keys.asked_by.map(|key| key.hex())),
        )
        .await?;
    if updated == 0 { Err(key_taken()) } else { Ok(()) }
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
    unit.execute(
        "UPDATE nodes SET certificate_serial = $2, certificate_authority = $3, certificate_expires_at = $4
         WHERE node_id = $1",
        |query| {
            query
                .bind(id.to_string())
                .bind(certificate.serial.clone())
                .bind(certificate.authority.clone())
                .bind(certificate.expires_at.as_millisecond())
        },
    )
    .await?;
    let what = format!("nodes/{id}/certificates/{}", certificate.serial);
    audit::record(unit, context, &audit::scope(node.owner.as_ref()), "node.certify", &what);
    Ok(())
}

async fn revoke(unit: &mut Unit, id: NodeId, context: &Context) -> Result<Node, StoreError> {
    unit.execute("UPDATE nodes SET revoked_at = coalesce(revoked_at, $2) WHERE node_id = $1", |query| {
        query.bind(id.to_string()).bind(context.at.as_millisecond())
    })
    .await?;
    let node = read(unit, id).await?;
    audit::record(unit, context, &audit::scope(node.owner.as_ref()), "node.revoke", &format!("nodes/{id}"));
    unit.announce(Change::NodeRevoked(id));
    Ok(node)
}

async fn insert(unit: &mut Unit, new: &NewNode, token: &Joining, context: &Context) -> Result<(), StoreError> {
    let inserted = unit
        .execute(
            "WITH node AS (
                 INSERT INTO nodes (node_id, name, secret_hash, join_token_id, org_id, project_id, host_version,
                     capabilities, slots, registered_at, assigned_labels)
                 VALUES ($1, $2, $3, $4, $5, $6, '', '{}', 0, $7, $8) ON CONFLICT DO NOTHING
                 RETURNING join_token_id
             )
             UPDATE join_tokens SET uses_left = uses_left - 1 FROM node
             WHERE join_tokens.join_token_id = node.join_token_id",
            |query| {
                query
                    .bind(new.id.to_string())
                    .bind(clean(&new.facts.name))
                    .bind(new.hash.hex())
                    .bind(token.join_token_id.clone())
                    .bind(token.org_id.clone())
                    .bind(token.project_id.clone())
                    .bind(context.at.as_millisecond())
                    .bind(token.labels.clone())
            },
        )
        .await?;
    if inserted > 0 {
        return Ok(());
    }
    let name = clean(&new.facts.name);
    let named = unit.look_for(nodes!("WHERE name = $1"), |query: Asking<NodeRow>| query.bind(name)).await?;
    Err(named.map_or_else(key_taken, |_| name_taken(&new.facts.name)))
}

async fn update(unit: &mut Unit, id: NodeId, facts: &NodeFacts) -> Result<(), StoreError> {
    let (capabilities, labels) = (row::text(WHAT, &facts.capabilities)?, row::text(WHAT, &facts.labels)?);
    let updated = unit
        .execute(
            "UPDATE nodes SET name = $2, host_version = $3, capabilities = $4, slots = $5,
                 labels = ($6::jsonb || assigned_labels::jsonb)::text WHERE node_id = $1
                 AND NOT EXISTS (SELECT 1 FROM nodes AS other WHERE other.name = $2 AND other.node_id <> $1)",
            |query| {
                query
                    .bind(id.to_string())
                    .bind(clean(&facts.name))
                    .bind(clean(&facts.host_version))
                    .bind(capabilities)
                    .bind(i64::from(facts.slots))
                    .bind(labels)
            },
        )
        .await?;
    if updated == 0 {
        read(unit, id).await?;
        return Err(name_taken(&facts.name));
    }
    Ok(())
}

async fn read(unit: &mut Unit, id: NodeId) -> Result<Node, StoreError> {
    let found =
        unit.look_for(nodes!("WHERE node_id = $1"), |query: Asking<NodeRow>| query.bind(id.to_string())).await?;
    found.ok_or_else(|| StoreError::not_found("node", id))?.node()
}

async fn change(unit: &mut Unit, id: NodeId, facts: &NodeFacts, context: &Context) -> Result<Node, StoreError> {
    update(unit, id, facts).await?;
    let node = read(unit, id).await?;
    let scope = audit::scope(node.owner.as_ref());
    audit::record(unit, context, &scope, "node.update", &format!("nodes/{id}"));
    // It may have now what a task waited for.
    unit.announce(Change::TaskReady(id));
    Ok(node)
}

async fn heard(unit: &mut Unit, id: NodeId, context: &Context) -> Result<(), StoreError> {
    let at = context.at.as_millisecond();
    let updated = unit
        .execute("UPDATE nodes SET last_heartbeat_at = $2 WHERE node_id = $1", |query| {
            query.bind(id.to_string()).bind(at)
        })
        .await?;
    if updated == 0 { Err(StoreError::not_found("node", id)) } else { Ok(()) }
}

#[async_trait]
impl NodeStore for PostgresStore {
    async fn join_node(&self, node: NewNode, join_token: SecretHash, context: Context) -> Result<Node, StoreError> {
        self.writer
            .run("join_node", (node, join_token, context), |unit, (node, join_token, context)| {
                Box::pin(join(unit, node, *join_token, context))
            })
            .await
    }

    async fn update_node(&self, id: NodeId, facts: NodeFacts, context: Context) -> Result<Node, StoreError> {
        self.writer
            .run("update_node", (id, facts, context), |unit, (id, facts, context)| {
                Box::pin(change(unit, *id, facts, context))
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
            .run("record_certificate", (id, keys, certificate, context), |unit, (id, keys, certificate, context)| {
                Box::pin(certified(unit, *id, *keys, certificate, context))
            })
            .await
    }

    async fn revoke_node(&self, id: NodeId, context: Context) -> Result<Node, StoreError> {
        self.writer.run("revoke_node", (id, context), |unit, (id, context)| Box::pin(revoke(unit, *id, context))).await
    }

    async fn record_heartbeat(&self, id: NodeId, context: Context) -> Result<(), StoreError> {
        self.writer
            .run("record_heartbeat", (id, context), |unit, (id, context)| Box::pin(heard(unit, *id, context)))
            .await
    }

    async fn node(&self, id: NodeId) -> Result<Option<Node>, StoreError> {
        let bind = |query: Asking<NodeRow>| query.bind(id.to_string());
        let found = self.reader.one("node", nodes!("WHERE node_id = $1"), bind).await?;
        found.map(NodeRow::node).transpose()
    }

    async fn node_by_name(&self, name: &str) -> Result<Option<Node>, StoreError> {
        let bind = |query: Asking<NodeRow>| query.bind(clean(name));
        let found = self.reader.one("node_by_name", nodes!("WHERE name = $1"), bind).await?;
        found.map(NodeRow::node).transpose()
    }

    async fn node_standing(&self, id: NodeId) -> Result<Option<NodeStanding>, StoreError> {
        let bind = |query: Asking<StandingRow>| query.bind(id.to_string());
        let sql =
            "SELECT revoked_at IS NOT NULL AS is_revoked, secret_hash, asked_by_hash FROM nodes WHERE node_id = $1";
        let found = self.reader.one("node_standing", sql, bind).await?;
        found.map(StandingRow::standing).transpose()
    }

    async fn nodes(&self) -> Result<Vec<Node>, StoreError> {
        let rows: Vec<NodeRow> = self.reader.all("nodes", nodes!("ORDER BY name"), |query| query).await?;
        rows.into_iter().map(NodeRow::node).collect()
    }
}
