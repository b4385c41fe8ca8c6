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

use crate::{
    PostgresStore, audit,
    journal::clean,
    row,
    unit::{Asking, Unit},
};

macro_rules! overlays {
    ($rest:literal) => {
        concat!(
            "SELECT scope, org_id, project_id, operation_type, revision, document, digest, updated_at, updated_by
             FROM operation_policy_overrides ",
            $rest
        )
    };
}

/// The overlay that is there; nobody else changes it before the commit.
async fn find(
    unit: &mut Unit,
    scope: &PolicyScope,
    operation_type: &OperationType,
) -> Result<Option<PolicyDocument>, StoreError> {
    let [name, org_id, project_id] = columns(scope).map(str::to_owned);
    let sql = overlays!("WHERE scope = $1 AND org_id = $2 AND project_id = $3 AND operation_type = $4 FOR UPDATE");
    let bind =
        |query: Asking<PolicyRow>| query.bind(name).bind(org_id).bind(project_id).bind(operation_type.to_string());
    unit.look_for(sql, bind).await?.map(PolicyRow::policy).transpose()
}

async fn put(
    unit: &mut Unit,
    (scope, operation_type, overlay, precondition, context): &(
        PolicyScope,
        OperationType,
        Overlay,
        Precondition,
        Context,
    ),
) -> Result<PolicyDocument, StoreError> {
    let stored = find(unit, scope, operation_type).await?;
    insist(scope, operation_type, precondition, stored.as_ref())?;
    let policy = next(scope, operation_type, overlay, stored.as_ref(), context)?;
    while !write(unit, &policy, stored.is_some()).await? {
        // Another plane was faster.
        let faster = find(unit, scope, operation_type).await?;
        insist(scope, operation_type, precondition, faster.as_ref())?;
    }
    record(unit, context, stored.as_ref(), &policy, Some(&policy));
    Ok(policy)
}

/// Answers false when there is one already and none was expected.
async fn write(unit: &mut Unit, policy: &PolicyDocument, replaces: bool) -> Result<bool, StoreError> {
    let [name, org_id, project_id] = columns(&policy.scope).map(str::to_owned);
    let (revision, document) = (revision(policy)?, row::text(WHAT, &policy.overlay)?);
    let sql = if replaces {
        "UPDATE operation_policy_overrides SET revision = $5, document = $6, digest = $7, updated_at = $8,
             updated_by = $9
         WHERE scope = $1 AND org_id = $2 AND project_id = $3 AND operation_type = $4"
    } else {
        "INSERT INTO operation_policy_overrides (scope, org_id, project_id, operation_type, revision, document,
             digest, updated_at, updated_by)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING"
    };
    let written = unit
        .execute(sql, |query| {
            query
                .bind(name)
                .bind(org_id)
                .bind(project_id)
                .bind(policy.operation_type.to_string())
                .bind(revision)
                .bind(document)
                .bind(policy.digest.to_string())
                .bind(policy.updated_at.as_millisecond())
                .bind(clean(&policy.updated_by))
        })
        .await?;
    Ok(written > 0)
}

async fn delete(
    unit: &mut Unit,
    (scope, operation_type, precondition, context): &(PolicyScope, OperationType, Precondition, Context),
) -> Result<(), StoreError> {
    let stored = find(unit, scope, operation_type).await?;
    insist(scope, operation_type, precondition, stored.as_ref())?;
    let Some(stored) = stored else { return Ok(()) };
    let [name, org_id, project_id] = columns(scope).map(str::to_owned);
    let sql = "DELETE FROM operation_policy_overrides
               WHERE scope = $1 AND org_id = $2 AND project_id = $3 AND operation_type = $4";
    unit.execute(sql, |query| query.bind(name).bind(org_id).bind(project_id).bind(operation_type.to_string())).await?;
    record(unit, context, Some(&stored), &stored, None);
    Ok(())
}

/// The audit row of a change says what was said before and after it.
fn record(
    unit: &mut Unit,
    context: &Context,
    before: Option<&PolicyDocument>,
    named: &PolicyDocument,
    after: Option<&PolicyDocument>,
) {
    let (name, details) = (resource_name(&named.operation_type), details(before, after));
    let action = action(named.scope.level(), after.is_some());
    audit::record_with(unit, context, &named.scope.to_string(), action, &name, details);
}

#[async_trait]
impl PolicyStore for PostgresStore {
    async fn put_policy(
        &self,
        scope: PolicyScope,
        operation_type: OperationType,
        overlay: Overlay,
        precondition: Precondition,
        context: Context,
    ) -> Result<PolicyDocument, StoreError> {
        let asked = (scope, operation_type, overlay, precondition, context);
        self.writer.run("put_policy", asked, |unit, asked| Box::pin(put(unit, asked))).await
    }

    async fn delete_policy(
        &self,
        scope: PolicyScope,
        operation_type: OperationType,
        precondition: Precondition,
        context: Context,
    ) -> Result<(), StoreError> {
        let asked = (scope, operation_type, precondition, context);
        self.writer.run("delete_policy", asked, |unit, asked| Box::pin(delete(unit, asked))).await
    }

    async fn policy(
        &self,
        scope: &PolicyScope,
        operation_type: &OperationType,
    ) -> Result<Option<PolicyDocument>, StoreError> {
        let columns = columns(scope).map(str::to_owned);
        let sql = overlays!("WHERE scope = $1 AND org_id = $2 AND project_id = $3 AND operation_type = $4");
        let bind = |query: Asking<PolicyRow>| {
            let [name, org_id, project_id] = columns.clone();
            query.bind(name).bind(org_id).bind(project_id).bind(operation_type.to_string())
        };
        self.reader.one("policy", sql, bind).await?.map(PolicyRow::policy).transpose()
    }

    async fn policies(
        &self,
        scope: &PolicyScope,
        page: Page<OperationType>,
    ) -> Result<Vec<PolicyDocument>, StoreError> {
        let columns = columns(scope).map(str::to_owned);
        let after = page.after.as_ref().map(ToString::to_string).unwrap_or_default();
        let sql = overlays!(
            "WHERE scope = $1 AND org_id = $2 AND project_id = $3 AND operation_type > $4
             ORDER BY operation_type LIMIT $5"
        );
        let bind = |query: Asking<PolicyRow>| {
            let [name, org_id, project_id] = columns.clone();
            query.bind(name).bind(org_id).bind(project_id).bind(after.clone()).bind(i64::from(page.size))
        };
        let rows = self.reader.all("policies", sql, bind).await?;
        rows.into_iter().map(PolicyRow::policy).collect()
    }

    async fn policy_chain(
        &self,
        project: &Project,
        operation_type: &OperationType,
    ) -> Result<Vec<PolicyDocument>, StoreError> {
        let sql = overlays!(
            "WHERE operation_type = $3 AND (scope = 'global' OR (scope = 'tenant' AND org_id = $1)
                 OR (scope = 'project' AND org_id = $1 AND project_id = $2))
             ORDER BY CASE scope WHEN 'global' THEN 0 WHEN 'tenant' THEN 1 ELSE 2 END"
        );
        let bind = |query: Asking<PolicyRow>| {
            let (org_id, project_id) = (project.org_id.to_string(), project.project_id.to_string());
            query.bind(org_id).bind(project_id).bind(operation_type.to_string())
        };
        let rows = self.reader.all("policy_chain", sql, bind).await?;
        rows.into_iter().map(PolicyRow::policy).collect()
    }

    async fn decision(&self, project: &Label, id: OperationId) -> Result<Option<Value>, StoreError> {
        let sql = "SELECT document FROM operation_decisions JOIN operations USING (operation_id)
                   WHERE operation_id = $1 AND project_id = $2";
        let bind = |query: Asking<(String,)>| query.bind(id.to_string()).bind(project.to_string());
        let found = self.reader.one("decision", sql, bind).await?;
        row::optional_document("decision", found.as_ref().map(|(document,)| document.as_str()))
    }
}
