//! What the steps of a simulated host do: they take their time, fail now and then, and change the node once or twice.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use fettle_host::simulation::{Attempt, Observation, Script};
use fettle_model::failure::{Failure, FailureClass};
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::net::Net;

/// The effects of steps on one node: they outlive every life of its host.
pub(crate) struct Effects {
    node: String,
    net: Arc<Net>,
    happened: Mutex<BTreeMap<(String, String), u32>>,
}

impl Effects {
    /// Nothing has happened.
    #[must_use]
    pub(crate) fn new(node: &str, net: &Arc<Net>) -> Arc<Self> {
        Arc::new(Self { node: node.to_owned(), net: Arc::clone(net), happened: Mutex::default() })
    }

    /// How often each step of each task has happened on this node.
    pub(crate) fn happened(&self) -> BTreeMap<(String, String), u32> {
        self.happened.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn key(attempt: &Attempt) -> (String, String) {
        (attempt.task_id.clone(), attempt.step_id.clone())
    }

    async fn work(&self) {
        let takes = if self.net.chance.percent(80) { 5..1_500 } else { 1_500..12_000 };
        tokio::time::sleep(self.net.chance.milliseconds(takes)).await;
    }

    async fn play(&self, attempt: &Attempt) -> Result<Value, Failure> {
        self.net.trace.note(&format!("{} runs {} of {}", self.node, attempt.step_id, attempt.task_id));
        self.work().await;
        if attempt.step_id != "consume" && self.net.chance.percent(10) {
            return Err(Failure::new(FailureClass::Transient, "sim.busy", "something was busy"));
        }
        let times = {
            let mut happened = self.happened.lock().unwrap_or_else(PoisonError::into_inner);
            let times = happened.entry(Self::key(attempt)).or_default();
            *times += 1;
            *times
        };
        tokio::time::sleep(Duration::from_millis(self.net.chance.of(0..300))).await;
        Ok(json!({ "node": self.node, "times": times, "attempt": attempt.number }))
    }
}

impl Script for Effects {
    fn probe<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<Observation, Failure>> {
        Box::pin(async {
            tokio::time::sleep(self.net.chance.milliseconds(1..50)).await;
            let happened = self.happened().get(&Self::key(attempt)).copied();
            Ok(match happened {
                Some(times) => Observation::Satisfied(json!({ "node": self.node, "times": times, "found": true })),
                None => Observation::Unsatisfied("it has not happened".to_owned()),
            })
        })
    }

    fn run<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<Value, Failure>> {
        Box::pin(self.play(attempt))
    }
}
