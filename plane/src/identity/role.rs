//! Roles as people write them, in documents and on the command line, and what each lets its holder reach.

use clap::ValueEnum;
use fettle_model::name::Label;
use fettle_store::token::{Access, ProjectRole};
use serde::Deserialize;

use crate::administration::project;

/// The name of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub(crate) enum RoleName {
    /// Everything, and the definitions.
    PlatformAdmin,
    /// All projects of one organisation.
    TenantAdmin,
    /// One project: submit, cancel, look.
    ProjectAdmin,
    /// One project: submit, cancel, look.
    ProjectMember,
    /// One project: look.
    ProjectViewer,
}

/// A role that goes with other names than it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RoleError {
    #[error("a platform_admin reaches everything; leave `org` and `project` out")]
    Everything,
    #[error("a tenant_admin needs `org`, and no `project`")]
    Tenant,
    #[error("a project role needs `project`")]
    Project,
    #[error("`project` cannot be the name of a project")]
    Name,
}

impl RoleName {
    /// What it lets its holder reach there. A project without an organisation is of the default one.
    pub(crate) fn access(self, project_id: Option<Label>, org_id: Option<Label>) -> Result<Access, RoleError> {
        let role = match self {
            Self::PlatformAdmin if org_id.is_none() && project_id.is_none() => return Ok(Access::PlatformAdmin),
            Self::PlatformAdmin => return Err(RoleError::Everything),
            Self::TenantAdmin => {
                let org_id = org_id.filter(|_| project_id.is_none()).ok_or(RoleError::Tenant)?;
                return Ok(Access::TenantAdmin { org_id });
            }
            Self::ProjectAdmin => ProjectRole::Admin,
            Self::ProjectMember => ProjectRole::Member,
            Self::ProjectViewer => ProjectRole::Viewer,
        };
        let project = project(project_id.ok_or(RoleError::Project)?, org_id).ok_or(RoleError::Name)?;
        Ok(Access::Project { project, role })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_goes_with_the_names_that_it_is_about() {
        let label = |text: &str| Some(text.parse::<Label>().unwrap());
        let none = None::<Label>;
        for (role, project, org, wrong) in [
            (RoleName::PlatformAdmin, none.clone(), none.clone(), None),
            (RoleName::PlatformAdmin, label("p"), none.clone(), Some(RoleError::Everything)),
            (RoleName::PlatformAdmin, none.clone(), label("o"), Some(RoleError::Everything)),
            (RoleName::TenantAdmin, none.clone(), label("o"), None),
            (RoleName::TenantAdmin, none.clone(), none.clone(), Some(RoleError::Tenant)),
            (RoleName::TenantAdmin, label("p"), label("o"), Some(RoleError::Tenant)),
            (RoleName::ProjectAdmin, label("p"), label("o"), None),
            (RoleName::ProjectMember, label("p"), none.clone(), None),
            (RoleName::ProjectViewer, none, label("o"), Some(RoleError::Project)),
        ] {
            assert_eq!(role.access(project, org).err(), wrong, "{role:?}");
        }
    }
}
