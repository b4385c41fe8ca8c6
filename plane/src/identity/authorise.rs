//! Lets a request through to its endpoint, or refuses it, as the endpoint's row of the table says.

use axum::{
    extract::{FromRequestParts as _, MatchedPath, RawPathParams, Request, State as Extracted},
    http::header::AUTHORIZATION,
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use fettle_model::name::Label;
use fettle_openid::{Identity, Refusal as Unvouched, Verifier};
use fettle_store::{
    audit::Refusal,
    context::Actor,
    id::{NodeId, OperationId},
    node::Node,
    project::Project,
    secret::SecretHash,
    token::{Access, ProjectRole},
};

use super::{
    caller::{Admission, Caller, Reached},
    lockouts::{self, Suspect},
    network::Network,
    openid::NotLetIn,
    secret,
    table::{self, Need, Row},
    uses,
};
use crate::{
    api::{Problem, correlation::CorrelationId},
    state::State,
};

/// Runs the endpoint for those who may call it.
pub(crate) async fn authorise(Extracted(state): Extracted<State>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let path = parts.extensions.get::<MatchedPath>().map(MatchedPath::as_str).unwrap_or_default();
    let Some(row) = table::find(parts.method.as_str(), path) else {
        return Problem::unlisted(&parts.method, path).into_response();
    };
    if row.need != Need::Nothing {
        let header = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = header.and_then(secret::bearer).map(str::to_owned);
        let correlation_id = parts.extensions.get::<CorrelationId>().map(|id| id.0.clone()).unwrap_or_default();
        let place = Place { params: Params::read(&mut parts, &state).await, path: parts.uri.path().to_owned() };
        let network = Network::of_request(&parts, &state.config.trusted_proxies);
        let asking = Asking { state: &state, network, correlation_id };
        match asking.admit(token, row, &place).await {
            Ok(admission) => parts.extensions.insert(admission),
            Err(problem) => return problem.into_response(),
        };
    }
    next.run(Request::from_parts(parts, body)).await
}

/// The parameters of a path.
struct Params(Vec<(String, String)>);

impl Params {
    async fn read(parts: &mut axum::http::request::Parts, state: &State) -> Self {
        let read = RawPathParams::from_request_parts(parts, state).await;
        let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        Self(read.map(|params| params.iter().map(own).collect()).unwrap_or_default())
    }

    /// Empty when the path has none of that name, and so the name of nothing.
    fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

/// What a request is about.
struct Place {
    params: Params,
    path: String,
}

impl Place {
    /// The name of the resource in the audit trail.
    fn resource_name(&self) -> String {
        let name = self.path.strip_prefix("/api/v1/").unwrap_or(&self.path);
        name.strip_prefix("admin/").unwrap_or(name).chars().take(RESOURCE_NAME).collect()
    }
}

/// Characters of a resource name that are kept.
const RESOURCE_NAME: usize = 300;

/// Somebody who has not said yet who that is.
struct Asking<'a> {
    state: &'a State,
    network: Option<Network>,
    correlation_id: String,
}

impl Asking<'_> {
    async fn admit(self, token: Option<String>, row: &'static Row, place: &Place) -> Result<Admission, Problem> {
        let state = self.state;
        let token = token.ok_or_else(Problem::unauthenticated)?;
        let lockouts = &state.lockouts;
        if let Some(wait) = self.network.and_then(|network| lockouts.wait(Suspect::Network(network))) {
            return Err(Problem::locked_out(wait));
        }
        let Some(caller) = self.known(&token).await? else {
            return Err(self.unknown(Problem::unauthenticated()).await);
        };
        if let Some(wait) = lockouts.wait(Suspect::Identity(caller.rated())) {
            return Err(Problem::locked_out(wait));
        }
        state.rates.take(caller.rated()).map_err(Problem::too_many)?;
        let reached = reach(state, &caller, row, place).await?;
        Ok(Admission { caller, reached })
    }

    /// Who shows this token, when it counts.
    async fn known(&self, token: &str) -> Result<Option<Caller>, Problem> {
        let (state, correlation_id) = (self.state, self.correlation_id.clone());
        if let Some(openid) = state.openid.as_ref().filter(|_| Verifier::is_meant_by(token)) {
            return match openid.admit(token, state.clock.now()).await {
                Ok(admitted) => Ok(Some(Caller::vouched_for(admitted, correlation_id, state.clone()))),
                Err(reason) if reason.is_the_tokens_fault() => Err(self.unknown(not_let_in(reason)).await),
                Err(reason) => Err(not_let_in(reason)),
            };
        }
        let token = state.reads.token(SecretHash::of(token)).await?;
        let valid = token.filter(|token| token.is_valid_at(state.clock.now()));
        Ok(valid.map(|valid| {
            uses::note(state, &valid);
            Caller::with_token(valid, correlation_id, state.clone())
        }))
    }

    /// Counts a token that does not count.
    async fn unknown(&self, problem: Problem) -> Problem {
        if let Some(network) = self.network {
            let context = self.state.context(Actor::Stranger, &self.correlation_id);
            lockouts::count(self.state, Suspect::Network(network), format!("addresses/{network}"), context).await;
        }
        problem
    }
}

/// Why somebody with a token of an OpenID provider is not let in. It says more than of the plane's own tokens: whoever
/// has one knows what is in it.
fn not_let_in(reason: NotLetIn) -> Problem {
    match reason {
        NotLetIn::Refused(refusal @ Unvouched::Unavailable { .. }) => Problem::issuer_unavailable(refusal.to_string()),
        NotLetIn::Refused(refusal) => {
            tracing::info!(code = refusal.code(), reason = %refusal, "a token of an OpenID provider was refused");
            Problem::unvouched(refusal.to_string())
        }
        NotLetIn::NoRole(identity) => {
            let Identity { issuer, subject, .. } = *identity;
            tracing::info!(issuer, subject, "nobody said what this person may do here");
            Problem::without_role(format!(
                "`{issuer}` vouches for `{subject}`, and no rule of this plane says what that one may do; ask for a group \
                 that one names"
            ))
        }
    }
}

async fn reach(state: &State, caller: &Caller, row: &'static Row, place: &Place) -> Result<Reached, Problem> {
    match row.need {
        Need::Nothing | Need::Token => Ok(Reached::Platform),
        Need::PlatformAdmin => match caller.access() {
            Access::PlatformAdmin => Ok(Reached::Platform),
            Access::TenantAdmin { .. } | Access::Project { .. } => {
                Err(refuse(caller, row, "platform".to_owned(), place).await)
            }
        },
        Need::TenantAdmin => tenant(state, caller, row, place).await.map(Reached::Tenant),
        Need::Project(at_least) => project(state, caller, row, place, at_least).await.map(Reached::Project),
        Need::TenantAdminOfProject => tenant_of_project(state, caller, row, place).await.map(Reached::Project),
        Need::OwnOperation => own_operation(state, caller, row, place).await.map(Reached::Project),
        Need::Node => node(state, caller, row, place, false).await.map(|node| Reached::Node(Box::new(node))),
        Need::NodeAdmin => node(state, caller, row, place, true).await.map(|node| Reached::Node(Box::new(node))),
    }
}

/// The tenant, when the caller administers it. To everybody outside of it there is no such tenant.
async fn tenant(state: &State, caller: &Caller, row: &'static Row, place: &Place) -> Result<Label, Problem> {
    let name = place.params.get("tenant");
    let unknown = || Problem::not_found("tenant.unknown", format!("there is no tenant `{name}`"));
    let tenant: Label = name.parse().map_err(|_| unknown())?;
    match caller.access() {
        Access::PlatformAdmin if state.store.has_organisation(&tenant).await? => Ok(tenant),
        Access::TenantAdmin { org_id } if *org_id == tenant => Ok(tenant),
        Access::Project { project, .. } if project.org_id == tenant => {
            Err(refuse(caller, row, tenant.to_string(), place).await)
        }
        Access::PlatformAdmin | Access::TenantAdmin { .. } | Access::Project { .. } => Err(unknown()),
    }
}

/// The project, when the caller has at least this role there. Without any role there is no such project,
/// as far as the caller can tell.
async fn project(
    state: &State,
    caller: &Caller,
    row: &'static Row,
    place: &Place,
    at_least: ProjectRole,
) -> Result<Project, Problem> {
    let name = place.params.get("project");
    let unknown = || Problem::not_found("project.unknown", format!("there is no project `{name}`"));
    let label: Label = name.parse().map_err(|_| unknown())?;
    let project = state.projects.get(state, &label).await?.ok_or_else(unknown)?;
    match caller.access().role_in(&project) {
        Some(role) if role >= at_least => Ok(project),
        Some(_) => Err(refuse(caller, row, scope(&project), place).await),
        None => Err(unknown()),
    }
}

/// The project, for administrators of its tenant.
async fn tenant_of_project(
    state: &State,
    caller: &Caller,
    row: &'static Row,
    place: &Place,
) -> Result<Project, Problem> {
    let project = project(state, caller, row, place, ProjectRole::Viewer).await?;
    match caller.access() {
        Access::PlatformAdmin | Access::TenantAdmin { .. } => Ok(project),
        Access::Project { .. } => Err(refuse(caller, row, scope(&project), place).await),
    }
}

/// The project, for whoever asked for the operation and for its administrators.
async fn own_operation(state: &State, caller: &Caller, row: &'static Row, place: &Place) -> Result<Project, Problem> {
    let project = project(state, caller, row, place, ProjectRole::Member).await?;
    if caller.access().role_in(&project) == Some(ProjectRole::Admin) {
        return Ok(project);
    }
    let Ok(id) = place.params.get("operation_id").parse::<OperationId>() else { return Ok(project) };
    match state.store.operation(&project.project_id, id).await? {
        Some(operation) if operation.requested_by != caller.context().actor.to_string() => {
            Err(refuse(caller, row, scope(&project), place).await)
        }
        // One that is not there is the endpoint's to say.
        Some(_) | None => Ok(project),
    }
}

/// The node, when the caller may see it, or administer it.
async fn node(
    state: &State,
    caller: &Caller,
    row: &'static Row,
    place: &Place,
    administer: bool,
) -> Result<Node, Problem> {
    let name = place.params.get("node");
    let mut found = state.reads.node_by_name(name).await?;
    if let (None, Ok(id)) = (&found, name.parse::<NodeId>()) {
        found = state.store.node(id).await?;
    }
    let visible = found.filter(|node| caller.sees(node));
    let node = visible.ok_or_else(|| Problem::not_found("node.unknown", format!("there is no node `{name}`")))?;
    let owner = node.owner.as_ref();
    let administers = match owner {
        Some(owner) => caller.access().role_in(owner) == Some(ProjectRole::Admin),
        None => *caller.access() == Access::PlatformAdmin,
    };
    if administer && !administers {
        return Err(refuse(caller, row, owner.map_or_else(|| "platform".to_owned(), scope), place).await);
    }
    Ok(node)
}

fn scope(project: &Project) -> String {
    format!("{}/{}", project.org_id, project.project_id)
}

/// Writes the refusal down and answers it.
async fn refuse(caller: &Caller, row: &'static Row, scope: String, place: &Place) -> Problem {
    let refusal = Refusal {
        scope,
        action: row.action,
        resource_name: place.resource_name(),
        code: "access.denied",
        details: None,
    };
    match caller.record_refusal(refusal).await {
        Ok(()) => {
            caller.was_refused().await;
            let (role, action) = (caller.access().role_name(), row.action);
            Problem::forbidden(format!("role {role} does not allow {action} here; ask for a token with a higher role"))
        }
        Err(error) => Problem::from(error),
    }
}
