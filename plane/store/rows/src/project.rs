//! Projects.

use fettle_store::{StoreError, project::Project};

/// The project belongs to another organisation.
#[must_use]
pub fn other_organisation(project: &Project, owner: &str) -> StoreError {
    StoreError::conflict(
        "project.other_organisation",
        format!(
            "project `{}` belongs to organisation `{owner}`, not `{}`; name the right one",
            project.project_id, project.org_id
        ),
    )
}
