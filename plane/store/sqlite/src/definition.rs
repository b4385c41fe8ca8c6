//! Registered operation definitions.

use async_trait::async_trait;
use fettle_model::name::{OperationType, Version};
use fettle_store::{
    StoreError,
    context::Context,
    definition::{DefinitionChange, DefinitionStore, DefinitionVersion, NewDefinitionVersion, Registered},
    id::DefinitionVersionId,
};
use fettle_store_rows::definition::{
    DefinitionRow, MOVED, WHAT, changed, check_usable, content, exists, registered, version_number,
};

use jiff::Timestamp;

use crate::{SqliteStore, audit, error::unavailable, row, writer::Unit};

async fn register(unit: &mut Unit, new: &NewDefinitionVersion, context: &Context) -> Result<Registered, StoreError> {
    let (operation_type, version) = (&new.definition.operation_type, &new.definition.version);
    let found: Option<DefinitionRow> =
        sqlx::query_as("SELECT * FROM operation_definition_versions WHERE operation_type = $1 AND version = $2")
            .bind(operation_type.as_str())
            .bind(version.as_str())
            .fetch_optional(&mut unit.connection)
            .await
            .map_err(unavailable("register_definition"))?;
    match found.map(DefinitionRow::version).transpose()? {
        None => insert(unit, new, context).await.map(Registered::New),
        Some(known) if content(&known.sources) == content(&new.sources) => {
            move_sources(unit, known, new).await.map(Registered::Same)
        }
        Some(known) => Err(exists(&known)),
    }
}

async fn move_sources(
    unit: &mut Unit,
    known: DefinitionVersion,
    new: &NewDefinitionVersion,
) -> Result<DefinitionVersion, StoreError> {
    if known.sources == new.sources {
        return Ok(known);
    }
    sqlx::query("UPDATE operation_definition_versions SET sources = $2 WHERE definition_version_id = $1")
        .bind(known.id.to_string())
        .bind(row::text(WHAT, &new.sources)?)
        .execute(&mut unit.connection)
        .await
        .map_err(unavailable("register_definition"))?;
    Ok(DefinitionVersion { sources: new.sources.clone(), ..known })
}

async fn insert(
    unit: &mut Unit,
    new: &NewDefinitionVersion,
    context: &Context,
) -> Result<DefinitionVersion, StoreError> {
    let (operation_type, version) = (&new.definition.operation_type, &new.definition.version);
    sqlx::query(
        "INSERT INTO operation_definitions (operation_type, created_at) VALUES ($1, $2) ON CONFLICT DO NOTHING",
    )
    .bind(operation_type.as_str())
    .bind(context.at.as_millisecond())
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable("register_definition"))?;
    sqlx::query(
        "INSERT INTO operation_definition_versions (definition_version_id, operation_type, version, version_number,
             sources, definition, catalog, status, created_at, created_by)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    )
    .bind(new.id.to_string())
    .bind(operation_type.as_str())
    .bind(version.as_str())
    .bind(version_number(version))
    .bind(row::text(WHAT, &new.sources)?)
    .bind(row::text(WHAT, &new.definition)?)
    .bind(row::text(WHAT, &new.catalog)?)
    .bind(new.status.name())
    .bind(context.at.as_millisecond())
    .bind(context.actor.to_string())
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable("register_definition"))?;
    let name = format!("operation-definitions/{}", new.id);
    audit::record(unit, context, audit::PLATFORM, "definition.register", &name);
    Ok(registered(new, context))
}

async fn change(
    unit: &mut Unit,
    id: DefinitionVersionId,
    change: &DefinitionChange,
    context: &Context,
) -> Result<DefinitionVersion, StoreError> {
    let found: Option<DefinitionRow> =
        sqlx::query_as("SELECT * FROM operation_definition_versions WHERE definition_version_id = $1")
            .bind(id.to_string())
            .fetch_optional(&mut unit.connection)
            .await
            .map_err(unavailable("change_definition"))?;
    let known = found.map(DefinitionRow::version).transpose()?;
    let known = known.ok_or_else(|| StoreError::not_found(WHAT, id))?;
    let changed = changed(known.clone(), change)?;
    if changed == known {
        return Ok(known);
    }
    sqlx::query(
        "UPDATE operation_definition_versions SET status = $2, sources = $3, definition = $4, catalog = $5
         WHERE definition_version_id = $1",
    )
    .bind(id.to_string())
    .bind(changed.status.name())
    .bind(row::text(WHAT, &changed.sources)?)
    .bind(row::text(WHAT, &changed.definition)?)
    .bind(row::text(WHAT, &changed.catalog)?)
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable("change_definition"))?;
    audit::record(unit, context, audit::PLATFORM, change.action(), &format!("operation-definitions/{id}"));
    Ok(changed)
}

/// Refuses an operation of a version that was retired, or is a draft, at the moment at which it is created.
pub(crate) async fn insist_on_usable(
    unit: &mut Unit,
    operation_type: &OperationType,
    version: &Version,
) -> Result<(), StoreError> {
    let status: Option<String> = sqlx::query_scalar(
        "SELECT status FROM operation_definition_versions WHERE operation_type = $1 AND version = $2",
    )
    .bind(operation_type.as_str())
    .bind(version.as_str())
    .fetch_optional(&mut unit.connection)
    .await
    .map_err(unavailable("create_operation"))?;
    check_usable(operation_type, version, status.as_deref())
}

#[async_trait]
impl DefinitionStore for SqliteStore {
    async fn register_definition(
        &self,
        version: NewDefinitionVersion,
        context: Context,
    ) -> Result<Registered, StoreError> {
        self.writer
            .run("register_definition", move |unit| Box::pin(async move { register(unit, &version, &context).await }))
            .await
    }

    async fn change_definition(
        &self,
        id: DefinitionVersionId,
        change: DefinitionChange,
        context: Context,
    ) -> Result<DefinitionVersion, StoreError> {
        self.writer
            .run("change_definition", move |unit| {
                Box::pin(async move { self::change(unit, id, &change, &context).await })
            })
            .await
    }

    async fn definition(&self, id: DefinitionVersionId) -> Result<Option<DefinitionVersion>, StoreError> {
        let found: Option<DefinitionRow> =
            sqlx::query_as("SELECT * FROM operation_definition_versions WHERE definition_version_id = $1")
                .bind(id.to_string())
                .fetch_optional(&mut *self.readers.take("definition").await?)
                .await
                .map_err(unavailable("definition"))?;
        found.map(DefinitionRow::version).transpose()
    }

    async fn definition_version(
        &self,
        operation_type: &OperationType,
        version: &Version,
    ) -> Result<Option<DefinitionVersion>, StoreError> {
        let found: Option<DefinitionRow> =
            sqlx::query_as("SELECT * FROM operation_definition_versions WHERE operation_type = $1 AND version = $2")
                .bind(operation_type.as_str())
                .bind(version.as_str())
                .fetch_optional(&mut *self.readers.take("definition_version").await?)
                .await
                .map_err(unavailable("definition_version"))?;
        found.map(DefinitionRow::version).transpose()
    }

    async fn definition_moved(
        &self,
        id: DefinitionVersionId,
        action: &'static str,
    ) -> Result<Option<Timestamp>, StoreError> {
        let at: Option<i64> = sqlx::query_scalar(MOVED)
            .bind(audit::PLATFORM)
            .bind(action)
            .bind(format!("operation-definitions/{id}"))
            .fetch_one(&mut *self.readers.take("definition_moved").await?)
            .await
            .map_err(unavailable("definition_moved"))?;
        at.map(|at| row::time(WHAT, at)).transpose()
    }

    async fn definitions(&self) -> Result<Vec<DefinitionVersion>, StoreError> {
        let rows: Vec<DefinitionRow> =
            sqlx::query_as("SELECT * FROM operation_definition_versions ORDER BY operation_type, version_number")
                .fetch_all(&mut *self.readers.take("definitions").await?)
                .await
                .map_err(unavailable("definitions"))?;
        rows.into_iter().map(DefinitionRow::version).collect()
    }
}
