//! Who calls an endpoint, and what was found to be theirs before the endpoint ran.

use axum::{extract::FromRequestParts, http::request::Parts};
use fettle_model::name::Label;
use fettle_openid::Identity;
use fettle_store::{
    StoreError,
    audit::Refusal,
    context::{Actor, Context},
    node::Node,
    project::Project,
    secret::SecretHash,
    token::{Access, Token},
};

use super::{
    lockouts::{self, Suspect},
    rates::Rated,
};
use crate::{api::Problem, state::State};

/// Whoever calls, in one request.
#[derive(Clone)]
pub(crate) struct Caller {
    actor: Actor,
    access: Access,
    rated: Rated,
    correlation_id: String,
    state: State,
}

/// What the table let through: who, and to what.
#[derive(Clone)]
pub(crate) struct Admission {
    pub(super) caller: Caller,
    pub(super) reached: Reached,
}

/// What the path names, found and checked.
#[derive(Clone)]
pub(super) enum Reached {
    Platform,
    Tenant(Label),
    Project(Project),
    Node(Box<Node>),
}

/// The tenant of the path, and the caller, who administers it.
pub(crate) struct InTenant {
    pub(crate) caller: Caller,
    pub(crate) tenant: Label,
}

/// The project of the path, and the caller, whose role there is what the table asks for.
pub(crate) struct InProject {
    pub(crate) caller: Caller,
    pub(crate) project: Project,
}

/// The node of the path, which the caller may see.
pub(crate) struct OfNode {
    pub(crate) node: Node,
}

impl Admission {
    /// What the middleware left. An endpoint whose row does not fit what it extracts is a mistake in the code,
    /// and answers nobody.
    fn of(parts: &Parts) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| Problem::unfit(parts.uri.path()))
    }
}

impl FromRequestParts<State> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &State) -> Result<Self, Problem> {
        Admission::of(parts).map(|admission| admission.caller)
    }
}

impl FromRequestParts<State> for InTenant {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &State) -> Result<Self, Problem> {
        match Admission::of(parts)? {
            Admission { caller, reached: Reached::Tenant(tenant) } => Ok(Self { caller, tenant }),
            _ => Err(Problem::unfit(parts.uri.path())),
        }
    }
}

impl FromRequestParts<State> for InProject {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &State) -> Result<Self, Problem> {
        match Admission::of(parts)? {
            Admission { caller, reached: Reached::Project(project) } => Ok(Self { caller, project }),
            _ => Err(Problem::unfit(parts.uri.path())),
        }
    }
}

impl FromRequestParts<State> for OfNode {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &State) -> Result<Self, Problem> {
        match Admission::of(parts)? {
            Admission { reached: Reached::Node(node), .. } => Ok(Self { node: *node }),
            _ => Err(Problem::unfit(parts.uri.path())),
        }
    }
}

impl Caller {
    /// The holder of a token of the plane.
    pub(super) fn with_token(token: Token, correlation_id: String, state: State) -> Self {
        let actor = Actor::Token { id: token.id, name: token.name };
        Self { actor, access: token.access, rated: Rated::Token(token.id), correlation_id, state }
    }

    /// Somebody whom an OpenID provider vouches for.
    pub(super) fn vouched_for((identity, access): (Identity, Access), correlation_id: String, state: State) -> Self {
        let Identity { issuer, subject, name, .. } = identity;
        let rated = Rated::User(SecretHash::of(&format!("{issuer} {subject}")));
        Self { actor: Actor::User { issuer, subject, name }, access, rated, correlation_id, state }
    }

    /// Whose requests are counted.
    pub(super) const fn rated(&self) -> Rated {
        self.rated
    }

    /// What the caller may reach.
    pub(crate) const fn access(&self) -> &Access {
        &self.access
    }

    /// Whether the caller may know of a node: common ones are seen by everybody, others by those who see
    /// their project.
    pub(crate) fn sees(&self, node: &Node) -> bool {
        node.owner.as_ref().is_none_or(|owner| self.access.role_in(owner).is_some())
    }

    /// What accompanies a write of the caller.
    pub(crate) fn context(&self) -> Context {
        self.state.context(self.actor.clone(), &self.correlation_id)
    }

    /// Counts that the caller was refused something, for want of a role.
    pub(super) async fn was_refused(&self) {
        let name = format!("identities/{}", self.actor);
        lockouts::count(&self.state, Suspect::Identity(self.rated), name, self.context()).await;
    }

    /// Writes down that the caller was refused something.
    pub(crate) async fn record_refusal(&self, refusal: Refusal) -> Result<(), StoreError> {
        self.state.store.record_refusal(refusal, self.context()).await
    }
}
