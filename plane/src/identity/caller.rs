//! Who calls an endpoint.

use axum::{
    extract::FromRequestParts,
    http::{header::AUTHORIZATION, request::Parts},
};
use fettle_model::name::Label;
use fettle_store::{
    audit::Refusal,
    context::{Actor, Context},
    project::Project,
    secret::SecretHash,
    token::{Access, ProjectRole, Token},
};

use crate::{
    api::{Problem, correlation::CorrelationId},
    identity::secret,
    state::State,
};

/// The holder of a valid token, in one request.
pub(crate) struct Caller {
    token: Token,
    correlation_id: String,
    state: State,
}

impl FromRequestParts<State> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &State) -> Result<Self, Problem> {
        let header = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let secret = header.and_then(secret::bearer).ok_or_else(Problem::unauthenticated)?;
        let token = state.store.token_by_hash(SecretHash::of(secret)).await?;
        let token = token.filter(|token| token.is_valid_at(state.clock.now())).ok_or_else(Problem::unauthenticated)?;
        let correlation_id = parts.extensions.get::<CorrelationId>().map(|id| id.0.clone()).unwrap_or_default();
        Ok(Self { token, correlation_id, state: state.clone() })
    }
}

impl Caller {
    /// What the caller may reach.
    pub(crate) const fn access(&self) -> &Access {
        &self.token.access
    }

    /// What accompanies a write of the caller.
    pub(crate) fn context(&self) -> Context {
        let actor = Actor::Token { id: self.token.id, name: self.token.name.clone() };
        self.state.context(actor, &self.correlation_id)
    }

    /// The project, when the caller has at least this role there. Without any role there is no such
    /// project, as far as the caller can tell.
    pub(crate) async fn project(
        &self,
        name: &str,
        at_least: ProjectRole,
        action: &'static str,
    ) -> Result<Project, Problem> {
        let unknown = || Problem::not_found("project.unknown", format!("there is no project `{name}`"));
        let label: Label = name.parse().map_err(|_| unknown())?;
        let project = self.state.store.project(&label).await?.ok_or_else(unknown)?;
        match self.token.access.role_in(&project) {
            Some(role) if role >= at_least => Ok(project),
            Some(_) => {
                let scope = format!("{}/{}", project.org_id, project.project_id);
                Err(self.refuse(scope, action, format!("projects/{}", project.project_id)).await)
            }
            None => Err(unknown()),
        }
    }

    /// Succeeds for a platform administrator.
    pub(crate) async fn platform_admin(&self, action: &'static str, resource_name: &str) -> Result<(), Problem> {
        match self.token.access {
            Access::PlatformAdmin => Ok(()),
            Access::TenantAdmin { .. } | Access::Project { .. } => {
                Err(self.refuse("platform".to_owned(), action, resource_name.to_owned()).await)
            }
        }
    }

    /// Writes the refusal down and answers it.
    async fn refuse(&self, scope: String, action: &'static str, resource_name: String) -> Problem {
        let refusal = Refusal { scope, action, resource_name, code: "access.denied" };
        if let Err(error) = self.state.store.record_refusal(refusal, self.context()).await {
            return Problem::from(error);
        }
        let role = self.token.access.role_name();
        Problem::forbidden(format!("role {role} does not allow {action}; ask for a token with a higher role"))
    }
}
