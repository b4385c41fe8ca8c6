//! What stands behind a step: compiled code, or in a simulation a script.

use std::{collections::BTreeSet, sync::Arc};

use fettle_model::{
    digest::Digest,
    failure::Failure,
    grant::{Capability, Grants},
    limits::AttemptLimits,
};
use serde_json::Value;

use crate::sandbox::{Call, Compiled, LoadError, Observation, Sandbox, Step};
#[cfg(feature = "simulation")]
use crate::simulation::Scripted;

/// What a component is before it is linked.
pub(super) enum Code {
    /// It runs in the sandbox.
    Compiled(Arc<Compiled>),
    /// It is played.
    #[cfg(feature = "simulation")]
    Scripted(Scripted),
}

/// A component that can be called.
pub(super) enum Component {
    /// It runs in the sandbox.
    Linked(Box<Step>),
    /// It is played.
    #[cfg(feature = "simulation")]
    Scripted(Scripted),
}

impl Code {
    pub(super) fn imports(&self) -> BTreeSet<Capability> {
        match self {
            Self::Compiled(compiled) => compiled.imports().capabilities.clone(),
            #[cfg(feature = "simulation")]
            Self::Scripted(_) => BTreeSet::new(),
        }
    }

    /// Links it with what `grants` gives and nothing else, under the limits of the node and of the step.
    pub(super) fn link(
        &self,
        sandbox: &Sandbox,
        grants: &Grants,
        (node, step): (&AttemptLimits, &AttemptLimits),
    ) -> Result<Component, LoadError> {
        match self {
            Self::Compiled(compiled) => {
                let linked = sandbox.link(compiled, grants)?.with_limits(node, step);
                Ok(Component::Linked(Box::new(linked)))
            }
            #[cfg(feature = "simulation")]
            Self::Scripted(scripted) => Ok(Component::Scripted(scripted.clone())),
        }
    }
}

impl Component {
    pub(super) fn digest(&self) -> Digest {
        match self {
            Self::Linked(step) => step.digest,
            #[cfg(feature = "simulation")]
            Self::Scripted(scripted) => scripted.digest,
        }
    }

    pub(super) fn limits_digest(&self) -> Digest {
        match self {
            Self::Linked(step) => step.limits_digest(),
            #[cfg(feature = "simulation")]
            Self::Scripted(scripted) => scripted.digest,
        }
    }

    pub(super) fn changed_limits(&self) -> AttemptLimits {
        match self {
            Self::Linked(step) => step.changed_limits(),
            #[cfg(feature = "simulation")]
            Self::Scripted(_) => AttemptLimits::default(),
        }
    }

    pub(super) async fn probe(&self, call: Call, input: &str) -> Result<Observation, Failure> {
        match self {
            Self::Linked(step) => Box::pin(step.probe(call, input)).await,
            #[cfg(feature = "simulation")]
            Self::Scripted(scripted) => scripted.script.probe(&call.into()).await,
        }
    }

    pub(super) async fn run(&self, call: Call, input: &str) -> Result<Value, Failure> {
        match self {
            Self::Linked(step) => Box::pin(step.run(call, input)).await,
            #[cfg(feature = "simulation")]
            Self::Scripted(scripted) => scripted.script.run(&call.into()).await,
        }
    }

    pub(super) async fn undo(&self, call: Call, input: &str, output: Option<&str>) -> Result<(), Failure> {
        match self {
            Self::Linked(step) => Box::pin(step.undo(call, input, output)).await,
            #[cfg(feature = "simulation")]
            Self::Scripted(_) => Ok(()),
        }
    }
}
