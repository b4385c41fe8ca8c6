//! Projects.

use async_trait::async_trait;
use fettle_model::name::Label;
use fettle_store::{
    StoreError,
    context::Context,
    project::{Project, ProjectStore},
};
use fettle_store_rows::project::other_organisation;

use crate::{SqliteStore, audit, error::unavailable, row, writer::Unit};

/// Makes sure that the project is there, in the transaction of another verb.
pub(crate) async fn ensure(unit: &mut Unit, project: &Project, context: &Context) -> Result<(), StoreError> {
    let found: Option<(String,)> = sqlx::query_as("SELECT org_id FROM projects WHERE project_id = $1")
        .bind(project.project_id.as_str())
        .fetch_optional(&mut unit.connection)
        .await
        .map_err(unavailable("ensure_project"))?;
    match found {
        Some((owner,)) if owner == project.org_id.as_str() => Ok(()),
        Some((owner,)) => Err(other_organisation(project, &owner)),
        None => {
            sqlx::query("INSERT INTO projects (project_id, org_id, created_at) VALUES ($1, $2, $3)")
                .bind(project.project_id.as_str())
                .bind(project.org_id.as_str())
                .bind(context.at.as_millisecond())
                .execute(&mut unit.connection)
                .await
                .map_err(unavailable("ensure_project"))?;
            let name = format!("projects/{}", project.project_id);
            audit::record(unit, context, &audit::scope(Some(project)), "project.create", &name);
            Ok(())
        }
    }
}

#[async_trait]
impl ProjectStore for SqliteStore {
    async fn ensure_project(&self, project: Project, context: Context) -> Result<(), StoreError> {
        self.writer
            .run("ensure_project", move |unit| Box::pin(async move { ensure(unit, &project, &context).await }))
            .await
    }

    async fn project(&self, project_id: &Label) -> Result<Option<Project>, StoreError> {
        let found: Option<(String,)> = sqlx::query_as("SELECT org_id FROM projects WHERE project_id = $1")
            .bind(project_id.as_str())
            .fetch_optional(&mut *self.readers.take("project").await?)
            .await
            .map_err(unavailable("project"))?;
        found
            .map(|(org_id,)| Ok(Project { project_id: project_id.clone(), org_id: row::parse("project", &org_id)? }))
            .transpose()
    }

    async fn has_organisation(&self, org_id: &Label) -> Result<bool, StoreError> {
        sqlx::query_scalar(
            "SELECT EXISTS (SELECT 1 FROM projects WHERE org_id = $1) OR EXISTS (SELECT 1 FROM tokens WHERE org_id = $1)",
        )
        .bind(org_id.as_str())
        .fetch_one(&mut *self.readers.take("has_organisation").await?)
        .await
        .map_err(unavailable("has_organisation"))
    }
}
