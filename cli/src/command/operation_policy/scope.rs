//! Whose policy is meant.

use clap::Args;

use crate::plane::PolicyScope;

/// Whose policy: the project's, unless another scope is named.
#[derive(Clone, Debug, Args)]
#[group(multiple = false)]
pub(super) struct ScopeArguments {
    /// The platform's: what nobody goes beyond.
    #[arg(long)]
    global: bool,
    /// That of a tenant.
    #[arg(long, value_name = "ORGANISATION")]
    tenant: Option<String>,
}

impl ScopeArguments {
    /// The scope.
    pub(super) fn scope(&self) -> PolicyScope {
        match (&self.tenant, self.global) {
            (Some(tenant), _) => PolicyScope::Tenant(tenant.clone()),
            (None, true) => PolicyScope::Global,
            (None, false) => PolicyScope::Project,
        }
    }
}
