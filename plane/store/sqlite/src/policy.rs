//! Overlays of operation types, and decisions.

use async_trait::async_trait;
use fettle_model::{
    name::{Label, OperationType},
    overlay::Overlay,
};
use fettle_store::{
    StoreError,
    context::Context,
    id::OperationId,
    page::Page,
    policy::{PolicyDocument, PolicyScope, PolicyStore, Precondition},
    project::Project,
};
use fettle_store_rows::policy::{PolicyRow, WHAT, action, columns, details, insist, next, resource_name, revision};
use serde_json::Value;
use sqlx::SqliteConnection;

use crate::{SqliteStore, audit, error::unavailable, row, writer::Unit};

async fn read(
    connection: &mut SqliteConnection,
    scope: &PolicyScope,
    operation_type: &OperationType,
) -> Result<Option<PolicyDocument>, StoreError> {
    let [name, org_id, project_id] = columns(scope);
    let found: Option<PolicyRow> = sqlx::query_as(
        "SELECT * FROM operation_policy_overrides
         WHERE scope = $1 AND org_id = $2 AND project_id = $3 AND operation_type = $4",
    )
    .bind(name)
    .bind(org_id)
    .bind(project_id)
    .bind(operation_type.as_str())
    .fetch_optional(connection)
    .await
    .map_err(unavailable("policy"))?;
    found.map(PolicyRow::policy).transpose()
}

async fn put(
    unit: &mut Unit,
    scope: PolicyScope,
    operation_type: OperationType,
    overlay: Overlay,
    precondition: &Precondition,
    context: &Context,
) -> Result<PolicyDocument, StoreError> {
    let stored = read(&mut unit.connection, &scope, &operation_type).await?;
    insist(&scope, &operation_type, precondition, stored.as_ref())?;
    let policy = next(&scope, &operation_type, &overlay, stored.as_ref(), context)?;
    let [name, org_id, project_id] = columns(&policy.scope);
    sqlx::query(
        "INSERT OR REPLACE INTO operation_policy_overrides (scope, org_id, project_id, operation_type, revision,
             document, digest, updated_at, updated_by)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
    )
    .bind(name)
    .bind(org_id)
    .bind(project_id)
    .bind(policy.operation_type.as_str())
    .bind(revision(&policy)?)
    .bind(row::text(WHAT, &policy.overlay)?)
    .bind(policy.digest.to_string())
    .bind(policy.updated_at.as_millisecond())
    .bind(&policy.updated_by)
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable("put_policy"))?;
    record(unit, context, stored.as_ref(), &policy, Some(&policy)).await?;
    Ok(policy)
}

async fn delete(
    unit: &mut Unit,
    scope: &PolicyScope,
    operation_type: &OperationType,
    precondition: &Precondition,
    context: &Context,
) -> Result<(), StoreError> {
    let stored = read(&mut unit.connection, scope, operation_type).await?;
    insist(scope, operation_type, precondition, stored.as_ref())?;
    let Some(stored) = stored else { return Ok(()) };
    let [name, org_id, project_id] = columns(scope);
    sqlx::query(
        "DELETE FROM operation_policy_overrides
         WHERE scope = $1 AND org_id = $2 AND project_id = $3 AND operation_type = $4",
    )
    .bind(name)
    .bind(org_id)
    .bind(project_id)
    .bind(operation_type.as_str())
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable("delete_policy"))?;
    record(unit, context, Some(&stored), &stored, None).await
}

/// The audit row of a change says what was said before and after it.
async fn record(
    unit: &mut Unit,
    context: &Context,
    before: Option<&PolicyDocument>,
    named: &PolicyDocument,
    after: Option<&PolicyDocument>,
) -> Result<(), StoreError> {
    let (name, details) = (resource_name(&named.operation_type), details(before, after));
    let action = action(named.scope.level(), after.is_some());
    audit::record_with(unit, context, &named.scope.to_string(), action, &name, details);
    Ok(())
}

#[async_trait]
impl PolicyStore for SqliteStore {
    async fn put_policy(
        &self,
        scope: PolicyScope,
        operation_type: OperationType,
        overlay: Overlay,
        precondition: Precondition,
        context: Context,
    ) -> Result<PolicyDocument, StoreError> {
        self.writer
            .run("put_policy", move |unit| {
                Box::pin(async move { put(unit, scope, operation_type, overlay, &precondition, &context).await })
            })
            .await
    }

    async fn delete_policy(
        &self,
        scope: PolicyScope,
        operation_type: OperationType,
        precondition: Precondition,
        context: Context,
    ) -> Result<(), StoreError> {
        self.writer
            .run("delete_policy", move |unit| {
                Box::pin(async move { delete(unit, &scope, &operation_type, &precondition, &context).await })
            })
            .await
    }

    async fn policy(
        &self,
        scope: &PolicyScope,
        operation_type: &OperationType,
    ) -> Result<Option<PolicyDocument>, StoreError> {
        let mut reader = self.readers.take("policy").await?;
        read(&mut reader, scope, operation_type).await
    }

    async fn policies(
        &self,
        scope: &PolicyScope,
        page: Page<OperationType>,
    ) -> Result<Vec<PolicyDocument>, StoreError> {
        let [name, org_id, project_id] = columns(scope);
        let rows: Vec<PolicyRow> = sqlx::query_as(
            "SELECT * FROM operation_policy_overrides
             WHERE scope = $1 AND org_id = $2 AND project_id = $3 AND operation_type > $4
             ORDER BY operation_type LIMIT $5",
        )
        .bind(name)
        .bind(org_id)
        .bind(project_id)
        .bind(page.after.as_ref().map_or("", OperationType::as_str))
        .bind(page.size)
        .fetch_all(&mut *self.readers.take("policies").await?)
        .await
        .map_err(unavailable("policies"))?;
        rows.into_iter().map(PolicyRow::policy).collect()
    }

    async fn policy_chain(
        &self,
        project: &Project,
        operation_type: &OperationType,
    ) -> Result<Vec<PolicyDocument>, StoreError> {
        let rows: Vec<PolicyRow> = sqlx::query_as(
            "SELECT * FROM operation_policy_overrides
             WHERE operation_type = $3 AND (scope = 'global' OR (scope = 'tenant' AND org_id = $1)
                 OR (scope = 'project' AND org_id = $1 AND project_id = $2))
             ORDER BY CASE scope WHEN 'global' THEN 0 WHEN 'tenant' THEN 1 ELSE 2 END",
        )
        .bind(project.org_id.as_str())
        .bind(project.project_id.as_str())
        .bind(operation_type.as_str())
        .fetch_all(&mut *self.readers.take("policy_chain").await?)
        .await
        .map_err(unavailable("policy_chain"))?;
        rows.into_iter().map(PolicyRow::policy).collect()
    }

    async fn decision(&self, project: &Label, id: OperationId) -> Result<Option<Value>, StoreError> {
        let found: Option<String> = sqlx::query_scalar(
            "SELECT document FROM operation_decisions JOIN operations USING (operation_id)
             WHERE operation_id = $1 AND project_id = $2",
        )
        .bind(id.to_string())
        .bind(project.as_str())
        .fetch_optional(&mut *self.readers.take("decision").await?)
        .await
        .map_err(unavailable("decision"))?;
        row::optional_document("decision", found.as_deref())
    }
}
