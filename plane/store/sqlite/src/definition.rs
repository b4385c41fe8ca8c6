//! Registered operation definitions.

use async_trait::async_trait;
use fettle_model::{
    name::{OperationType, Version},
    plan::Sources,
};
use fettle_store::{
    StoreError,
    context::Context,
    definition::{DefinitionStatus, DefinitionStore, DefinitionVersion, NewDefinitionVersion, Registered},
    id::DefinitionVersionId,
};
use sqlx::FromRow;

use crate::{SqliteStore, audit, error::unavailable, row, writer::Unit};

const WHAT: &str = "operation definition";

#[derive(FromRow)]
struct Row {
    definition_version_id: String,
    sources: String,
    definition: String,
    catalog: String,
    status: String,
    created_at: i64,
    created_by: String,
}

/// A status that this version does not know.
#[derive(Debug, thiserror::Error)]
#[error("status `{0}` is unknown")]
struct UnknownStatus(String);

impl Row {
    fn version(self) -> Result<DefinitionVersion, StoreError> {
        if self.status != DefinitionStatus::Active.name() {
            return Err(StoreError::corrupt(WHAT, UnknownStatus(self.status)));
        }
        Ok(DefinitionVersion {
            id: row::parse(WHAT, &self.definition_version_id)?,
            sources: row::document(WHAT, &self.sources)?,
            definition: row::document(WHAT, &self.definition)?,
            catalog: row::document(WHAT, &self.catalog)?,
            status: DefinitionStatus::Active,
            created_at: row::time(WHAT, self.created_at)?,
            created_by: self.created_by,
        })
    }
}

/// What a version is, wherever it is fetched from.
fn content(sources: &Sources) -> [fettle_model::digest::Digest; 3] {
    [sources.definition.digest, sources.catalog.digest, sources.policy.digest]
}

async fn register(unit: &mut Unit, new: &NewDefinitionVersion, context: &Context) -> Result<Registered, StoreError> {
    let (operation_type, version) = (&new.definition.operation_type, &new.definition.version);
    let found: Option<Row> =
        sqlx::query_as("SELECT * FROM operation_definition_versions WHERE operation_type = $1 AND version = $2")
            .bind(operation_type.as_str())
            .bind(version.as_str())
            .fetch_optional(&mut unit.connection)
            .await
            .map_err(unavailable("register_definition"))?;
    match found.map(Row::version).transpose()? {
        None => insert(unit, new, context).await.map(Registered::New),
        Some(known) if content(&known.sources) == content(&new.sources) => {
            move_sources(unit, known, new).await.map(Registered::Same)
        }
        Some(known) => Err(StoreError::conflict(
            "definition.exists",
            format!(
                "{operation_type}@{version} is registered with definition {}, catalog {} and policy {}, and a version \
                 never changes; write a new version",
                known.sources.definition.digest, known.sources.catalog.digest, known.sources.policy.digest
            ),
        )),
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
    .bind(version.as_str().trim_start_matches('v').parse::<i64>().unwrap_or(0))
    .bind(row::text(WHAT, &new.sources)?)
    .bind(row::text(WHAT, &new.definition)?)
    .bind(row::text(WHAT, &new.catalog)?)
    .bind(DefinitionStatus::Active.name())
    .bind(context.at.as_millisecond())
    .bind(context.actor.to_string())
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable("register_definition"))?;
    let name = format!("operation-definitions/{}", new.id);
    audit::record(unit, context, audit::PLATFORM, "definition.register", &name).await?;
    Ok(DefinitionVersion {
        id: new.id,
        sources: new.sources.clone(),
        definition: new.definition.clone(),
        catalog: new.catalog.clone(),
        status: DefinitionStatus::Active,
        created_at: context.at,
        created_by: context.actor.to_string(),
    })
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

    async fn definition(&self, id: DefinitionVersionId) -> Result<Option<DefinitionVersion>, StoreError> {
        let found: Option<Row> =
            sqlx::query_as("SELECT * FROM operation_definition_versions WHERE definition_version_id = $1")
                .bind(id.to_string())
                .fetch_optional(&self.readers)
                .await
                .map_err(unavailable("definition"))?;
        found.map(Row::version).transpose()
    }

    async fn definition_version(
        &self,
        operation_type: &OperationType,
        version: &Version,
    ) -> Result<Option<DefinitionVersion>, StoreError> {
        let found: Option<Row> =
            sqlx::query_as("SELECT * FROM operation_definition_versions WHERE operation_type = $1 AND version = $2")
                .bind(operation_type.as_str())
                .bind(version.as_str())
                .fetch_optional(&self.readers)
                .await
                .map_err(unavailable("definition_version"))?;
        found.map(Row::version).transpose()
    }

    async fn definitions(&self) -> Result<Vec<DefinitionVersion>, StoreError> {
        let rows: Vec<Row> =
            sqlx::query_as("SELECT * FROM operation_definition_versions ORDER BY operation_type, version_number")
                .fetch_all(&self.readers)
                .await
                .map_err(unavailable("definitions"))?;
        rows.into_iter().map(Row::version).collect()
    }
}
