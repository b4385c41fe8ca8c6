//! fettle-plane project

use clap::Subcommand;
use fettle_model::name::Label;

use super::place::Place;

/// Projects.
#[derive(Debug, Subcommand)]
pub(super) enum ProjectCommand {
    /// Makes sure that a project is there.
    Create {
        /// Its name.
        project: Label,
        /// The organisation it belongs to; `default` when absent.
        #[arg(long)]
        org: Option<Label>,
    },
}

impl ProjectCommand {
    pub(super) async fn run(self, place: &Place) -> anyhow::Result<()> {
        let Self::Create { project, org } = self;
        let Some(project) = super::named_project(Some(project), org)? else { return Ok(()) };
        let administration = place.open().await?;
        administration.ensure_project(project.clone()).await?;
        administration.close().await;
        super::print(&format!("project {} of organisation {}", project.project_id, project.org_id))
    }
}
