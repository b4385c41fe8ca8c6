//! `policy`: has the node obey a signed activation. What that means is the executor's; here is who may ask.

mod calls;

use std::sync::Arc;

use fettle_model::{
    activation::ActivePolicies,
    failure::{Failure, FailureClass},
    grant::PolicyGrant,
    reference::Reference,
    task::LogLevel,
};
use futures::future::BoxFuture;

use super::{denials::Denials, report};
use crate::sandbox::bindings::fettle::policy::policy::{ActivePolicies as Active, Error, Refusal};

/// Keeps which policy bundles count on this node.
pub trait Activator: Send + Sync {
    /// What counts now; none when no activation ever came.
    fn active(&self) -> Option<Arc<ActivePolicies>>;

    /// Verifies an activation and all that it names, and obeys it.
    ///
    /// # Errors
    /// When it may not be obeyed, or not now; what counted before counts on.
    fn activate<'a>(&'a self, activation: &'a Reference) -> BoxFuture<'a, Result<Arc<ActivePolicies>, Failure>>;
}

/// Whether one step may ask.
#[derive(Clone, Default)]
pub struct Configured {
    granted: bool,
    pub(super) activator: Option<Arc<dyn Activator>>,
}

/// The state of one attempt.
#[derive(Default)]
pub struct Policy {
    granted: bool,
    activator: Option<Arc<dyn Activator>>,
    report: report::Handle,
    denials: Denials,
}

impl Configured {
    pub(super) fn new(grant: Option<&PolicyGrant>) -> Self {
        Self { granted: grant.is_some_and(|grant| grant.activate), activator: None }
    }

    pub(super) fn prepare(&self, report: report::Handle, denials: Denials) -> Policy {
        Policy { granted: self.granted, activator: self.activator.clone(), report, denials }
    }
}

impl Policy {
    #[expect(clippy::unused_async, reason = "as the gate calls it")]
    pub(super) async fn active(&self) -> Result<Option<Active>, Error> {
        Ok(self.activator("policy.active")?.active().as_deref().map(shown))
    }

    pub(super) async fn activate(&self, reference: String) -> Result<Active, Error> {
        let activator = self.activator("policy.activate")?;
        let reference: Reference = reference
            .parse()
            .map_err(|error: fettle_model::reference::ParseReferenceError| Error::InvalidRequest(error.to_string()))?;
        match activator.activate(&reference).await {
            Ok(active) => {
                let (revision, bundles) = (active.revision, active.bundles.len());
                self.report.log(
                    LogLevel::Info,
                    format!("revision {revision} is active: {bundles} policy bundles count from now on"),
                );
                Ok(shown(&active))
            }
            Err(failure) => Err(match failure.class {
                FailureClass::Transient => Error::Unavailable(failure.message),
                FailureClass::Denied | FailureClass::InvalidInput => {
                    Error::Refused(Refusal { code: failure.code, reason: failure.message })
                }
                _ => Error::Failed(failure.message),
            }),
        }
    }

    fn activator(&self, call: &str) -> Result<&Arc<dyn Activator>, Error> {
        if !self.granted {
            self.denials.note(call, [""; 0], "true");
            return Err(Error::AccessDenied);
        }
        self.activator.as_ref().ok_or_else(|| {
            Error::Failed("there is no node here, and policy bundles are made to count on one".to_owned())
        })
    }
}

fn shown(active: &ActivePolicies) -> Active {
    Active {
        activation: active.activation.to_string(),
        revision: active.revision,
        bundles: active.bundles.iter().map(ToString::to_string).collect(),
    }
}
