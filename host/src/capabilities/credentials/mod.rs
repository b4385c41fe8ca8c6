//! `credentials`: minted by the plane, kept by the host, and carried by what steps ask the host to do. A step never
//! sees one.

mod calls;
mod handle;
mod purse;
mod secret;

use std::sync::Arc;

use fettle_model::{credential::Intent, grant::CredentialsGrant, name::StepId, task::LogLevel};

pub use self::{
    handle::HandleKey,
    purse::{Credential, IssueError, Issued, Issuer, NoIssuer, Purse},
    secret::{LONGEST as LONGEST_SECRET, Secret, SecretError},
};
use super::{denials::Denials, report};
use crate::sandbox::bindings::fettle::credentials::credentials::Error;

/// What one step may have minted.
#[derive(Clone, Default)]
pub struct Configured(Option<Arc<CredentialsGrant>>);

/// The state of one attempt.
#[derive(Default)]
pub struct Credentials {
    granted: Option<Arc<CredentialsGrant>>,
    purse: Option<StepPurse>,
    report: report::Handle,
    denials: Denials,
}

/// The purse of the task, and which step reaches into it.
#[derive(Clone)]
pub(super) struct StepPurse {
    purse: Arc<Purse>,
    step_id: StepId,
}

impl Configured {
    pub(super) fn new(grant: Option<&CredentialsGrant>) -> Self {
        Self(grant.cloned().map(Arc::new))
    }

    /// Takes what the step may have minted from this purse.
    pub(super) fn of_step(&self, purse: &Arc<Purse>, step_id: &StepId) -> StepPurse {
        if let Some(grant) = &self.0 {
            purse.allow(step_id, grant);
        }
        StepPurse { purse: Arc::clone(purse), step_id: step_id.clone() }
    }

    pub(super) fn prepare(&self, purse: Option<StepPurse>, report: report::Handle, denials: Denials) -> Credentials {
        Credentials { granted: self.0.clone(), purse, report, denials }
    }
}

impl StepPurse {
    /// What carries credentials, as transfers and programs see it.
    pub(super) const fn purse(&self) -> &Arc<Purse> {
        &self.purse
    }
}

impl Credentials {
    pub(super) async fn mint(&mut self, credential_type: String, scope: String) -> Result<String, Error> {
        let granted = self.granted.as_ref().ok_or(Error::AccessDenied)?;
        let credential_type =
            credential_type.parse().map_err(|error: fettle_model::credential::UnknownCredentialType| {
                Error::InvalidRequest(error.to_string())
            })?;
        let intent = Intent::new(credential_type, scope).map_err(|error| Error::InvalidRequest(error.to_string()))?;
        if !granted.allows(&intent) {
            self.denials.note("credentials.mint", &granted.mint, &intent);
            return Err(Error::AccessDenied);
        }
        let Some(StepPurse { purse, step_id }) = &self.purse else {
            return Err(Error::Failed("there is no task here, and credentials are minted for one".to_owned()));
        };
        let minted = purse.mint(step_id, intent.clone()).await;
        minted.map_err(|error| self.refused(&intent, error))
    }

    /// The step learns that it was denied; why, is for the people who read its log.
    fn refused(&self, intent: &Intent, error: IssueError) -> Error {
        match error {
            IssueError::Refused { code, reason } => {
                self.denials.note(&code, [""; 0], intent);
                self.report
                    .log(LogLevel::Error, format!("the plane gives no credential for `{intent}`: {reason} [{code}]"));
                Error::AccessDenied
            }
            IssueError::Unavailable(reason) => Error::Unavailable(reason),
            other => Error::Failed(other.to_string()),
        }
    }
}
