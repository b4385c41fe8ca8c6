//! What a simulation of hosts puts in the place of components, registries and disks.

use std::{collections::BTreeMap, sync::Arc};

use fettle_model::{descriptor::Descriptor, digest::Digest, failure::Failure, reference::Reference};
use futures::future::BoxFuture;
use serde_json::Value;

use crate::sandbox::Call;
pub use crate::sandbox::Observation;

/// Which attempt a script plays.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The task.
    pub task_id: String,
    /// The step of it.
    pub step_id: String,
    /// 1 for the first.
    pub number: u32,
}

impl From<Call> for Attempt {
    fn from(call: Call) -> Self {
        Self { task_id: call.context.task_id, step_id: call.context.step_id, number: call.context.attempt }
    }
}

/// Plays every component of a host.
pub trait Script: Send + Sync {
    /// Looks.
    fn probe<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<Observation, Failure>>;

    /// Does the work.
    fn run<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<Value, Failure>>;
}

/// A component that is played.
#[derive(Clone)]
pub struct Scripted {
    /// Who plays it.
    pub script: Arc<dyn Script>,
    /// What names it.
    pub digest: Digest,
}

/// All that a registry would hold.
#[derive(Clone)]
pub struct Library {
    /// Definitions, catalogs and policy bundles.
    pub documents: BTreeMap<Reference, Value>,
    /// Components.
    pub components: BTreeMap<Reference, Descriptor>,
    /// Who plays them.
    pub script: Arc<dyn Script>,
}

/// Does what a database is asked for while nothing else of the simulation happens.
pub trait InPlace: Send + Sync {
    /// Completes the work before it returns. False when the machine is dead: then nothing was done.
    fn complete(&self, what: &'static str, work: BoxFuture<'_, ()>) -> bool;
}
