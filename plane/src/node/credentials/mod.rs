//! Credentials for the steps of tasks that a node holds (seed 001, 4.5, 7.2 and 7.3): what is asked, by whom, and
//! whether it follows from what was signed.

mod check;
mod desk;
mod problem;

pub(crate) use self::desk::CredentialDesk;
pub(super) use self::problem::NodeProblem;

use axum::{
    Json, Router,
    body::Bytes,
    extract::{ConnectInfo, DefaultBodyLimit, Path, State as Extracted},
    routing::post,
};
use fettle_credentials::{Bearer, Minted, Wanted};
use fettle_model::credential::{CredentialType, Intent};
use fettle_store::task::{LeaseKey, Verdict};
use fettle_wire::credential::{
    LARGEST_REQUEST, MintRequest, MintResponse, RegistryCredentialRequest, RegistryCredentialResponse,
};
use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::json;

use self::check::Question;
use super::{
    Connection,
    authentication::{Caller, by_certificate},
};
use crate::state::State;

/// The endpoints.
pub(super) fn routes(state: State) -> Router {
    Router::new()
        .route("/internal/v1/nodes/{node_id}/tasks/{task_id}/credentials/mint", post(mint))
        .route("/internal/v1/nodes/{node_id}/tasks/{task_id}/registry-credential", post(registry_credential))
        .layer(DefaultBodyLimit::max(LARGEST_REQUEST))
        .with_state(state)
}

/// Whose task it is.
type Place = Path<(String, String)>;

async fn mint(
    Extracted(state): Extracted<State>,
    ConnectInfo(connection): ConnectInfo<Connection>,
    Path((node_id, task_id)): Place,
    body: Bytes,
) -> Result<Json<MintResponse>, NodeProblem> {
    let caller = by_certificate(&state, &connection).await?;
    let MintRequest { epoch, operation_id, step_id, credential_type, scope } = read(&body)?;
    let lease = caller.lease(&state, &node_id, &task_id, epoch)?;
    let asked = Asked { lease, operation_id, step_id, credential_type, scope };
    let Given { minted, expires_at } = asked.give(&state, &caller).await?;
    Ok(Json(MintResponse {
        credential_type,
        scope: asked.scope,
        expires_at,
        expires_in_seconds: minted.lifetime.as_secs(),
        material: minted.material,
    }))
}

async fn registry_credential(
    Extracted(state): Extracted<State>,
    ConnectInfo(connection): ConnectInfo<Connection>,
    Path((node_id, task_id)): Place,
    body: Bytes,
) -> Result<Json<RegistryCredentialResponse>, NodeProblem> {
    let caller = by_certificate(&state, &connection).await?;
    let RegistryCredentialRequest { epoch, operation_id, step_id, reference } = read(&body)?;
    let lease = caller.lease(&state, &node_id, &task_id, epoch)?;
    let asked = Asked { lease, operation_id, step_id, credential_type: CredentialType::OciPull, scope: reference };
    let Given { mut minted, expires_at } = asked.give(&state, &caller).await?;
    let token = minted.material.remove("token").ok_or_else(NodeProblem::no_token)?;
    let expires_in_seconds = minted.lifetime.as_secs();
    Ok(Json(RegistryCredentialResponse { reference: asked.scope, expires_at, expires_in_seconds, token }))
}

fn read<T: DeserializeOwned>(body: &Bytes) -> Result<T, NodeProblem> {
    serde_json::from_slice(body).map_err(|error| NodeProblem::malformed(&error))
}

/// A credential that a node asks for.
struct Asked {
    lease: LeaseKey,
    operation_id: String,
    step_id: String,
    credential_type: CredentialType,
    scope: String,
}

/// A credential that is given.
struct Given {
    minted: Minted,
    expires_at: Timestamp,
}

impl Asked {
    /// Gives it, or writes down that it was refused.
    async fn give(&self, state: &State, caller: &Caller) -> Result<Given, NodeProblem> {
        let given = self.try_give(state, caller).await;
        if let Err(problem) = &given
            && problem.is_refusal()
        {
            state.metrics.credentials_denied.with([self.credential_type.name()]).inc();
            let subject = format!("tasks/{}", self.lease.task_id);
            let details = json!({
                "step_id": self.step_id, "credential_type": self.credential_type, "scope": shortened(&self.scope),
                "reason": problem.detail(),
            });
            caller.refused(state, ("credential.mint", problem.code()), subject, details).await;
        }
        given
    }

    async fn try_give(&self, state: &State, caller: &Caller) -> Result<Given, NodeProblem> {
        state.credentials.admit(self.lease.node_id)?;
        let intent =
            Intent::new(self.credential_type, self.scope.clone()).map_err(|error| NodeProblem::scope(&error))?;
        let held = state.store.held_task(self.lease).await?.ok_or_else(|| NodeProblem::stale(&self.lease))?;
        let question = Question { operation_id: &self.operation_id, step_id: &self.step_id, intent: &intent };
        question.check(state, &held).await?;
        let id = state.ulid().map_err(|_| NodeProblem::no_randomness())?.to_string();
        let details = json!({
            "step_id": self.step_id, "credential_type": self.credential_type, "scope": self.scope, "mint_id": id,
        });
        // Before anything is given: what cannot be written down is not given.
        let context = caller.context(state, held.correlation_id.clone());
        match state.store.record_credential(self.lease, details, context).await? {
            Verdict::Accepted => {}
            Verdict::Stale | Verdict::Ended => return Err(NodeProblem::stale(&self.lease)),
        }
        let (node_id, task_id) = (self.lease.node_id.to_string(), self.lease.task_id.to_string());
        let bearer =
            Bearer { node_id: &node_id, task_id: &task_id, operation_id: &self.operation_id, step_id: &self.step_id };
        let now = state.clock.now();
        let minted = state.credentials.mint(&Wanted { intent: &intent, bearer, id: &id, now }).await?;
        state.metrics.credentials_minted.with([self.credential_type.name()]).inc();
        let lifetime = SignedDuration::try_from(minted.lifetime).unwrap_or(SignedDuration::MAX);
        Ok(Given { minted, expires_at: now.saturating_add(lifetime).unwrap_or(Timestamp::MAX) })
    }
}

/// What somebody wrote, as far as it is written down.
fn shortened(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(300).collect()
}
