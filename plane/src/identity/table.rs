//! Who may call which endpoint: one row for each, and nothing is served without one.

use fettle_store::token::ProjectRole;

/// What a caller must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nobody in particular: it is answered without a token.
    Nothing,
    /// The holder of any valid token. What is shown is what everybody may see, or what the caller may.
    Token,
    /// A platform administrator.
    PlatformAdmin,
    /// An administrator of the tenant `{tenant}`.
    TenantAdmin,
    /// Somebody with at least this role in the project `{project}`.
    Project(ProjectRole),
    /// An administrator of the tenant that the project `{project}` belongs to. Whoever may see the project and is
    /// none is refused.
    TenantAdminOfProject,
    /// A member of the project who asked for the operation `{operation_id}` with the same token, or an
    /// administrator of the project.
    OwnOperation,
    /// Somebody with at least this role in the project that owns the node `{node}`. A node that is common to
    /// all projects is seen by everybody and administered by the platform.
    NodeAdmin,
    /// Somebody who may see the node `{node}`.
    Node,
}

/// One endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// Its method, in capitals.
    pub(crate) method: &'static str,
    /// Its path, as it is routed and described.
    pub(crate) path: &'static str,
    /// Who may call it.
    pub(crate) need: Need,
    /// What it is called in the audit trail.
    pub(crate) action: &'static str,
}

const fn row(method: &'static str, path: &'static str, need: Need, action: &'static str) -> Row {
    Row { method, path, need, action }
}

const VIEWER: Need = Need::Project(ProjectRole::Viewer);
const MEMBER: Need = Need::Project(ProjectRole::Member);
const ADMIN: Need = Need::Project(ProjectRole::Admin);

/// Every endpoint, in the order of the paths.
pub(crate) const TABLE: &[Row] = &[
    row("GET", "/healthz", Need::Nothing, "plane.health"),
    row("GET", "/readyz", Need::Nothing, "plane.readiness"),
    row("GET", "/api/v1/openapi.json", Need::Nothing, "plane.describe"),
    row("GET", "/api/v1/admin/operation-definitions", Need::Token, "definition.list"),
    row("POST", "/api/v1/admin/operation-definitions", Need::PlatformAdmin, "definition.register"),
    row("GET", "/api/v1/admin/operation-definitions/{id}", Need::Token, "definition.show"),
    row("PATCH", "/api/v1/admin/operation-definitions/{id}", Need::PlatformAdmin, "definition.amend"),
    row("POST", "/api/v1/admin/operation-definitions/{id}/deprecate", Need::PlatformAdmin, "definition.deprecate"),
    row("POST", "/api/v1/admin/operation-definitions/{id}/retire", Need::PlatformAdmin, "definition.retire"),
    row("GET", "/api/v1/admin/operation-policies", Need::PlatformAdmin, "global_policy.list"),
    row("GET", "/api/v1/admin/operation-policies/{operation_type}", Need::PlatformAdmin, "global_policy.show"),
    row("PUT", "/api/v1/admin/operation-policies/{operation_type}", Need::PlatformAdmin, "global_policy.put"),
    row("DELETE", "/api/v1/admin/operation-policies/{operation_type}", Need::PlatformAdmin, "global_policy.delete"),
    row("GET", "/api/v1/nodes", Need::Token, "node.list"),
    row("GET", "/api/v1/nodes/{node}", Need::Node, "node.show"),
    row("POST", "/api/v1/nodes/{node}/revoke", Need::NodeAdmin, "node.revoke"),
    row("GET", "/api/v1/projects/{project}/allocations", VIEWER, "allocation.list"),
    row("GET", "/api/v1/projects/{project}/allocations/{allocation}", VIEWER, "allocation.show"),
    row("PUT", "/api/v1/projects/{project}/allocations/{allocation}", Need::TenantAdminOfProject, "allocation.put"),
    row(
        "DELETE",
        "/api/v1/projects/{project}/allocations/{allocation}",
        Need::TenantAdminOfProject,
        "allocation.delete",
    ),
    row("GET", "/api/v1/projects/{project}/node-groups", VIEWER, "node_group.list"),
    row("GET", "/api/v1/projects/{project}/node-groups/{group}", VIEWER, "node_group.show"),
    row("PUT", "/api/v1/projects/{project}/node-groups/{group}", ADMIN, "node_group.put"),
    row("DELETE", "/api/v1/projects/{project}/node-groups/{group}", ADMIN, "node_group.delete"),
    row("GET", "/api/v1/projects/{project}/operation-policies", VIEWER, "project_policy.list"),
    row("GET", "/api/v1/projects/{project}/operation-policies/{operation_type}", VIEWER, "project_policy.show"),
    row(
        "PUT",
        "/api/v1/projects/{project}/operation-policies/{operation_type}",
        Need::TenantAdminOfProject,
        "project_policy.put",
    ),
    row(
        "DELETE",
        "/api/v1/projects/{project}/operation-policies/{operation_type}",
        Need::TenantAdminOfProject,
        "project_policy.delete",
    ),
    row("POST", "/api/v1/projects/{project}/operation-policies/explain", VIEWER, "project_policy.explain"),
    row("GET", "/api/v1/projects/{project}/operations", VIEWER, "operation.list"),
    row("POST", "/api/v1/projects/{project}/operations", MEMBER, "operation.create"),
    row("POST", "/api/v1/projects/{project}/operations/plan", VIEWER, "operation.plan"),
    row("GET", "/api/v1/projects/{project}/operations/{operation_id}", VIEWER, "operation.show"),
    row("POST", "/api/v1/projects/{project}/operations/{operation_id}/cancel", Need::OwnOperation, "operation.cancel"),
    row("GET", "/api/v1/projects/{project}/operations/{operation_id}/decision", VIEWER, "operation.decision"),
    row("GET", "/api/v1/projects/{project}/operations/{operation_id}/events", VIEWER, "operation.events"),
    row("POST", "/api/v1/projects/{project}/operations/{operation_id}/force-probe", ADMIN, "operation.force_probe"),
    row("GET", "/api/v1/projects/{project}/operations/{operation_id}/logs", VIEWER, "operation.logs"),
    row("POST", "/api/v1/projects/{project}/operations/{operation_id}/recover", ADMIN, "operation.recover"),
    row("POST", "/api/v1/projects/{project}/operations/{operation_id}/retry", ADMIN, "operation.retry"),
    row("GET", "/api/v1/projects/{project}/webhooks", ADMIN, "project_webhook.list"),
    row("POST", "/api/v1/projects/{project}/webhooks", ADMIN, "project_webhook.create"),
    row("GET", "/api/v1/projects/{project}/webhooks/{webhook}", ADMIN, "project_webhook.show"),
    row("PATCH", "/api/v1/projects/{project}/webhooks/{webhook}", ADMIN, "project_webhook.amend"),
    row("DELETE", "/api/v1/projects/{project}/webhooks/{webhook}", ADMIN, "project_webhook.delete"),
    row("POST", "/api/v1/projects/{project}/webhooks/{webhook}/rotate-secret", ADMIN, "project_webhook.rotate_secret"),
    row("GET", "/api/v1/projects/{project}/webhooks/{webhook}/dead-letters", ADMIN, "project_webhook.dead_letters"),
    row("POST", "/api/v1/projects/{project}/webhooks/{webhook}/dead-letters/replay", ADMIN, "project_webhook.replay"),
    row("GET", "/api/v1/tenants/{tenant}/operation-policies", Need::TenantAdmin, "tenant_policy.list"),
    row("GET", "/api/v1/tenants/{tenant}/operation-policies/{operation_type}", Need::TenantAdmin, "tenant_policy.show"),
    row("PUT", "/api/v1/tenants/{tenant}/operation-policies/{operation_type}", Need::TenantAdmin, "tenant_policy.put"),
    row(
        "DELETE",
        "/api/v1/tenants/{tenant}/operation-policies/{operation_type}",
        Need::TenantAdmin,
        "tenant_policy.delete",
    ),
    row("GET", "/api/v1/tenants/{tenant}/webhooks", Need::TenantAdmin, "tenant_webhook.list"),
    row("POST", "/api/v1/tenants/{tenant}/webhooks", Need::TenantAdmin, "tenant_webhook.create"),
    row("GET", "/api/v1/tenants/{tenant}/webhooks/{webhook}", Need::TenantAdmin, "tenant_webhook.show"),
    row("PATCH", "/api/v1/tenants/{tenant}/webhooks/{webhook}", Need::TenantAdmin, "tenant_webhook.amend"),
    row("DELETE", "/api/v1/tenants/{tenant}/webhooks/{webhook}", Need::TenantAdmin, "tenant_webhook.delete"),
    row(
        "POST",
        "/api/v1/tenants/{tenant}/webhooks/{webhook}/rotate-secret",
        Need::TenantAdmin,
        "tenant_webhook.rotate_secret",
    ),
    row(
        "GET",
        "/api/v1/tenants/{tenant}/webhooks/{webhook}/dead-letters",
        Need::TenantAdmin,
        "tenant_webhook.dead_letters",
    ),
    row(
        "POST",
        "/api/v1/tenants/{tenant}/webhooks/{webhook}/dead-letters/replay",
        Need::TenantAdmin,
        "tenant_webhook.replay",
    ),
];

/// The row of an endpoint. `HEAD` is answered as `GET` is.
pub(crate) fn find(method: &str, path: &str) -> Option<&'static Row> {
    let method = if method == "HEAD" { "GET" } else { method };
    TABLE.iter().find(|row| row.method == method && row.path == path)
}

impl Need {
    /// The roles that satisfy it, as they are called in documents.
    pub(crate) const fn roles(self) -> &'static str {
        match self {
            Self::Nothing => "no token needed",
            Self::Token => "every role",
            Self::PlatformAdmin => "platform_admin",
            Self::TenantAdmin | Self::TenantAdminOfProject => "platform_admin, tenant_admin",
            Self::Project(ProjectRole::Admin) => "platform_admin, tenant_admin, project_admin",
            Self::Project(ProjectRole::Member) => "platform_admin, tenant_admin, project_admin, project_member",
            Self::Project(ProjectRole::Viewer) => {
                "platform_admin, tenant_admin, project_admin, project_member, project_viewer"
            }
            Self::OwnOperation => {
                "platform_admin, tenant_admin, project_admin; project_member for operations of the same token"
            }
            Self::NodeAdmin => "platform_admin; of a project's own node also tenant_admin, project_admin",
            Self::Node => "every role, of common nodes and of those of its projects",
        }
    }

    /// Whose resources the endpoint is about.
    #[cfg(test)]
    pub(crate) const fn scope(self) -> &'static str {
        match self {
            Self::Nothing => "public",
            Self::Token | Self::PlatformAdmin => "platform",
            Self::TenantAdmin => "tenant",
            Self::Project(_) | Self::OwnOperation | Self::TenantAdminOfProject => "project",
            Self::NodeAdmin | Self::Node => "node",
        }
    }
}
