//! Credentials from the plane, for one task. Each is asked for over a connection of its own, which is closed at once:
//! what was read from it is not kept in a buffer that lives on.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use fettle_model::{
    credential::{CredentialType, Intent},
    name::StepId,
    task::{Epoch, Task},
};
use fettle_wire::credential::{
    LARGEST_RESPONSE, MintRequest, MintResponse, Problem, RegistryCredentialRequest, RegistryCredentialResponse,
    mint_path, registry_path,
};
use futures::future::BoxFuture;
use http_body_util::{BodyExt as _, Full, Limited};
use serde::{Serialize, de::DeserializeOwned};
use tokio::sync::watch;
use tonic::{
    body::Body,
    codegen::http::{Method, Request, StatusCode, header},
};
use tower::ServiceExt as _;
use zeroize::Zeroizing;

use super::Agent;
use crate::capabilities::credentials::{IssueError, Issued, Issuer, Secret};

/// How long the plane may take: it asks others.
const PATIENCE: Duration = Duration::from_secs(45);

/// Asks the plane on behalf of one task.
pub(super) struct FromPlane {
    agent: Arc<Agent>,
    node_id: String,
    task_id: String,
    operation_id: String,
    epoch: watch::Receiver<Epoch>,
}

impl FromPlane {
    pub(super) fn new(agent: &Arc<Agent>, task: &Task, epoch: watch::Receiver<Epoch>) -> Self {
        let Task { node_id, task_id, operation_id, .. } = task;
        let (node_id, task_id, operation_id) = (node_id.clone(), task_id.clone(), operation_id.clone());
        Self { agent: Arc::clone(agent), node_id, task_id, operation_id, epoch }
    }

    async fn ask(&self, step_id: &StepId, intent: &Intent) -> Result<Issued, IssueError> {
        let (epoch, operation_id) = (self.epoch.borrow().0, self.operation_id.clone());
        let step_id = step_id.to_string();
        let (seconds, material) = if intent.credential_type() == CredentialType::OciPull {
            let request =
                RegistryCredentialRequest { epoch, operation_id, step_id, reference: intent.scope().to_owned() };
            let path = registry_path(&self.node_id, &self.task_id);
            let answer: RegistryCredentialResponse = self.post(&path, &request).await?;
            (answer.expires_in_seconds, BTreeMap::from([("token".to_owned(), answer.token)]))
        } else {
            let (credential_type, scope) = (intent.credential_type(), intent.scope().to_owned());
            let request = MintRequest { epoch, operation_id, step_id, credential_type, scope };
            let answer: MintResponse = self.post(&mint_path(&self.node_id, &self.task_id), &request).await?;
            (answer.expires_in_seconds, answer.material)
        };
        let mut parts = BTreeMap::new();
        for (name, value) in material {
            parts.insert(name, Secret::new(&value)?);
        }
        Ok(Issued { lifetime: Duration::from_secs(seconds), parts })
    }

    async fn post<A: DeserializeOwned>(&self, path: &str, question: &(impl Serialize + Sync)) -> Result<A, IssueError> {
        let unreadable = |what: &str| IssueError::Failed(format!("the plane's answer to `{path}` {what}"));
        let question = serde_json::to_vec(question).map_err(|_| unreadable("cannot be asked for"))?;
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::new(Full::new(Bytes::from(question))))
            .map_err(|_| unreadable("cannot be asked for"))?;
        let connection = self.agent.line.alone().map_err(|error| IssueError::Failed(error.to_string()))?;
        let lost = |reason: String| IssueError::Unavailable(reason);
        let answered = async {
            let response = connection.oneshot(request).await.map_err(|error| lost(error.to_string()))?;
            let status = response.status();
            let body = Limited::new(response.into_body(), LARGEST_RESPONSE).collect().await;
            let body = body.map_err(|error| lost(format!("the plane's answer broke off: {error}")))?;
            Ok::<_, IssueError>((status, body.to_bytes()))
        };
        let late = |_| lost(format!("the plane did not answer within {} s", PATIENCE.as_secs()));
        let (status, body) = tokio::time::timeout(PATIENCE, answered).await.map_err(late)??;
        // Nobody else holds these bytes, so they are overwritten.
        let body = Zeroizing::new(Vec::from(body));
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(|_| unreadable("is of another form"));
        }
        Err(refused(status, &body))
    }
}

/// What the plane refuses for good, and what it may give another time.
fn refused(status: StatusCode, body: &[u8]) -> IssueError {
    let problem = serde_json::from_slice(body);
    let Problem { code, detail } = problem.unwrap_or_else(|_| Problem {
        code: "credential.unknown_answer".to_owned(),
        detail: format!("the plane answered {status}"),
    });
    if status.is_server_error() || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT) {
        return IssueError::Unavailable(format!("{detail} [{code}]"));
    }
    IssueError::Refused { code, reason: detail }
}

impl Issuer for FromPlane {
    fn issue<'a>(&'a self, step_id: &'a StepId, intent: &'a Intent) -> BoxFuture<'a, Result<Issued, IssueError>> {
        Box::pin(self.ask(step_id, intent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_be_given_later_is_asked_for_again() {
        let body = br#"{"code": "credential.not_granted", "detail": "no", "status": 403}"#;
        for (status, is_refused) in
            [(401, true), (403, true), (404, true), (409, true), (429, false), (500, false), (503, false)]
        {
            let error = refused(StatusCode::from_u16(status).unwrap(), body);
            assert!(error.to_string().contains("[credential.not_granted]"), "{error}");
            assert_eq!(matches!(error, IssueError::Refused { .. }), is_refused, "{status}");
        }
        let error = refused(StatusCode::FORBIDDEN, b"<html>");
        assert!(matches!(&error, IssueError::Refused { code, .. } if code == "credential.unknown_answer"), "{error}");
    }
}
