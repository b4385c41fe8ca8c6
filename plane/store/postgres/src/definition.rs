//! Registered operation definitions.

use async_trait::async_trait;
use fettle_model::name::{OperationType, Version};
use fettle_store::{
    StoreError,
    context::Context,
    definition::{DefinitionChange, DefinitionStore, DefinitionVersion, NewDefinitionVersion, Registered},
    id::DefinitionVersionId,
};
use fettle_store_rows::definition::{DefinitionRow, MOVED, WHAT, changed, content, exists, registered, version_number};

use jiff::Timestamp;

use crate::{
    PostgresStore, audit, row,
    unit::{Asking, Unit},
};

macro_rules! versions {
    ($rest:literal) => {
        concat!(
            "SELECT definition_version_id, sources, definition, catalog, status, created_at, created_by
             FROM operation_definition_versions ",
            $rest
        )
    };
}

async fn register(unit: &mut Unit, new: &NewDefinitionVersion, context: &Context) -> Result<Registered, StoreError> {
    let (operation_type, version) = (&new.definition.operation_type, &new.definition.version);
    let name = |query: Asking<DefinitionRow>| query.bind(operation_type.to_string()).bind(version.to_string());
    let find = versions!("WHERE operation_type = $1 AND version = $2 FOR NO KEY UPDATE");
    let mut found = unit.look_for(find, name).await?;
    if found.is_none() {
        if insert(unit, new, context).await? {
            return Ok(Registered::New(registered(new, context)));
        }
        // Another plane was faster.
        found = unit.look_for(find, name).await?;
    }
    let known = found.ok_or_else(|| StoreError::not_found(WHAT, operation_type))?.version()?;
    if content(&known.sources) == content(&new.sources) {
        move_sources(unit, known, new).await.map(Registered::Same)
    } else {
        Err(exists(&known))
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
    let sources = row::text(WHAT, &new.sources)?;
    unit.execute("UPDATE operation_definition_versions SET sources = $2 WHERE definition_version_id = $1", |query| {
        query.bind(known.id.to_string()).bind(sources)
    })
    .await?;
    Ok(DefinitionVersion { sources: new.sources.clone(), ..known })
}

/// Answers false when the version is there already.
async fn insert(unit: &mut Unit, new: &NewDefinitionVersion, context: &Context) -> Result<bool, StoreError> {
    let (operation_type, version) = (&new.definition.operation_type, &new.definition.version);
    let at = context.at.as_millisecond();
    unit.execute(
        "INSERT INTO operation_definitions (operation_type, created_at) VALUES ($1, $2) ON CONFLICT DO NOTHING",
        |query| query.bind(operation_type.to_string()).bind(at),
    )
    .await?;
    let documents = (row::text(WHAT, &new.sources)?, row::text(WHAT, &new.definition)?, row::text(WHAT, &new.catalog)?);
    let inserted = unit
        .execute(
            "INSERT INTO operation_definition_versions (definition_version_id, operation_type, version,
                 version_number, sources, definition, catalog, status, created_at, created_by)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (operation_type, version) DO NOTHING",
            |query| {
                query
                    .bind(new.id.to_string())
                    .bind(operation_type.to_string())
                    .bind(version.to_string())
                    .bind(version_number(version))
                    .bind(documents.0)
                    .bind(documents.1)
                    .bind(documents.2)
                    .bind(new.status.name())
                    .bind(at)
                    .bind(context.actor.to_string())
            },
        )
        .await?;
    if inserted > 0 {
        let name = format!("operation-definitions/{}", new.id);
        audit::record(unit, context, audit::PLATFORM, "definition.register", &name);
    }
    Ok(inserted > 0)
}

async fn change(
    unit: &mut Unit,
    id: DefinitionVersionId,
    change: &DefinitionChange,
    context: &Context,
) -> Result<DefinitionVersion, StoreError> {
    let find = versions!("WHERE definition_version_id = $1 FOR NO KEY UPDATE");
    let found = unit.look_for(find, |query: Asking<DefinitionRow>| query.bind(id.to_string())).await?;
    let known = found.ok_or_else(|| StoreError::not_found(WHAT, id))?.version()?;
    let changed = changed(known.clone(), change)?;
    if changed == known {
        return Ok(known);
    }
    let documents =
        (row::text(WHAT, &changed.sources)?, row::text(WHAT, &changed.definition)?, row::text(WHAT, &changed.catalog)?);
    unit.execute(
        "UPDATE operation_definition_versions SET status = $2, sources = $3, definition = $4, catalog = $5
         WHERE definition_version_id = $1",
        |query| {
            let query = query.bind(id.to_string()).bind(changed.status.name());
            query.bind(documents.0).bind(documents.1).bind(documents.2)
        },
    )
    .await?;
    audit::record(unit, context, audit::PLATFORM, change.action(), &format!("operation-definitions/{id}"));
    Ok(changed)
}

#[async_trait]
impl DefinitionStore for PostgresStore {
    async fn register_definition(
        &self,
        version: NewDefinitionVersion,
        context: Context,
    ) -> Result<Registered, StoreError> {
        self.writer
            .run("register_definition", (version, context), |unit, (version, context)| {
                Box::pin(register(unit, version, context))
            })
            .await
    }

    async fn change_definition(
        &self,
        id: DefinitionVersionId,
        change: DefinitionChange,
        context: Context,
    ) -> Result<DefinitionVersion, StoreError> {
        self.writer
            .run("change_definition", (id, change, context), |unit, (id, change, context)| {
                Box::pin(self::change(unit, *id, change, context))
            })
            .await
    }

    async fn definition(&self, id: DefinitionVersionId) -> Result<Option<DefinitionVersion>, StoreError> {
        let bind = |query: Asking<DefinitionRow>| query.bind(id.to_string());
        let found = self.reader.one("definition", versions!("WHERE definition_version_id = $1"), bind).await?;
        found.map(DefinitionRow::version).transpose()
    }

    async fn definition_version(
        &self,
        operation_type: &OperationType,
        version: &Version,
    ) -> Result<Option<DefinitionVersion>, StoreError> {
        let bind = |query: Asking<DefinitionRow>| query.bind(operation_type.to_string()).bind(version.to_string());
        let sql = versions!("WHERE operation_type = $1 AND version = $2");
        let found = self.reader.one("definition_version", sql, bind).await?;
        found.map(DefinitionRow::version).transpose()
    }

    async fn definition_moved(
        &self,
        id: DefinitionVersionId,
        action: &'static str,
    ) -> Result<Option<Timestamp>, StoreError> {
        let bind = |query: Asking<(Option<i64>,)>| {
            query.bind(audit::PLATFORM).bind(action).bind(format!("operation-definitions/{id}"))
        };
        let found = self.reader.one("definition_moved", MOVED, bind).await?;
        found.and_then(|(at,)| at).map(|at| row::time(WHAT, at)).transpose()
    }

    async fn definitions(&self) -> Result<Vec<DefinitionVersion>, StoreError> {
        let sql = versions!("ORDER BY operation_type, version_number");
        let rows: Vec<DefinitionRow> = self.reader.all("definitions", sql, |query| query).await?;
        rows.into_iter().map(DefinitionRow::version).collect()
    }
}
