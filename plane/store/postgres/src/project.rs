//! Projects.

use async_trait::async_trait;
use fettle_model::name::Label;
use fettle_store::{
    StoreError,
    context::Context,
    project::{Project, ProjectStore},
};
use fettle_store_rows::project::other_organisation;

use crate::{
    PostgresStore, audit, row,
    unit::{Asking, Unit},
};

/// Makes sure that the project is there, in the transaction of another verb.
pub(crate) async fn ensure(unit: &mut Unit, project: &Project, context: &Context) -> Result<(), StoreError> {
    let known = |query: Asking<(String,)>| query.bind(project.project_id.to_string());
    let find = "SELECT org_id FROM projects WHERE project_id = $1";
    let mut found = unit.look_for(find, known).await?;
    if found.is_none() {
        let inserted = unit
            .execute(
                "INSERT INTO projects (project_id, org_id, created_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
                |query| {
                    let (name, owner) = (project.project_id.to_string(), project.org_id.to_string());
                    query.bind(name).bind(owner).bind(context.at.as_millisecond())
                },
            )
            .await?;
        if inserted > 0 {
            let name = format!("projects/{}", project.project_id);
            audit::record(unit, context, &audit::scope(Some(project)), "project.create", &name);
            return Ok(());
        }
        // Another plane was faster.
        found = unit.look_for(find, known).await?;
    }
    match found {
        Some((owner,)) if owner != project.org_id.as_str() => Err(other_organisation(project, &owner)),
        Some(_) | None => Ok(()),
    }
}

#[async_trait]
impl ProjectStore for PostgresStore {
    async fn ensure_project(&self, project: Project, context: Context) -> Result<(), StoreError> {
        self.writer
            .run("ensure_project", (project, context), |unit, (project, context)| {
                Box::pin(ensure(unit, project, context))
            })
            .await
    }

    async fn project(&self, project_id: &Label) -> Result<Option<Project>, StoreError> {
        let bind = |query: Asking<(String,)>| query.bind(project_id.to_string());
        let found = self.reader.one("project", "SELECT org_id FROM projects WHERE project_id = $1", bind).await?;
        found
            .map(|(org_id,)| Ok(Project { project_id: project_id.clone(), org_id: row::parse("project", &org_id)? }))
            .transpose()
    }

    async fn has_organisation(&self, org_id: &Label) -> Result<bool, StoreError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM projects WHERE org_id = $1)
                       OR EXISTS (SELECT 1 FROM tokens WHERE org_id = $1)";
        let found = self.reader.one("has_organisation", sql, |query: Asking<(bool,)>| query.bind(org_id.to_string()));
        Ok(found.await?.is_some_and(|(found,)| found))
    }
}
