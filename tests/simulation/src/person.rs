//! Somebody who submits operations, repeats what was not answered, and changes their mind.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::http::Request;
use serde_json::{Value, json};

use crate::net::{Link, Net};

/// An operation that was accepted.
#[derive(Clone, Debug)]
pub(crate) struct Submitted {
    /// Its project.
    pub(crate) project: &'static str,
    /// Its id.
    pub(crate) id: String,
}

/// A person with a token.
pub(crate) struct Person {
    /// The project it opens; none is the platform.
    pub(crate) project: &'static str,
    /// The token.
    pub(crate) token: String,
    /// The nodes that the project may use.
    pub(crate) nodes: &'static [&'static str],
    /// The network.
    pub(crate) net: Arc<Net>,
    /// The person's cable, which nobody pulls.
    pub(crate) link: Link,
    /// What was accepted.
    pub(crate) submitted: Mutex<Vec<Submitted>>,
}

impl Person {
    /// Asks until there is an answer.
    pub(crate) async fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        loop {
            let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
            let request = request.header("authorization", format!("Bearer {}", self.token)).body(());
            let (parts, ()) = request.expect("a request").into_parts();
            if let Ok((head, frames)) = self.net.call(&self.link, parts, body.to_string().into()).await
                && !head.status.is_server_error()
            {
                let text: Vec<u8> = frames.iter().filter_map(|frame| frame.data_ref()).flatten().copied().collect();
                return (head.status.as_u16(), serde_json::from_slice(&text).unwrap_or_default());
            }
            tokio::time::sleep(self.net.chance.milliseconds(100..2_000)).await;
        }
    }

    /// Submits operations of these numbers, and cancels some.
    pub(crate) async fn work(self: Arc<Self>, operations: std::ops::Range<u64>, within: Duration) {
        let count = operations.end.saturating_sub(operations.start);
        let most = u64::try_from(within.as_millis()).unwrap_or(u64::MAX) / count.max(1);
        for number in operations {
            tokio::time::sleep(self.net.chance.milliseconds(0..most.max(1))).await;
            self.submit(number).await;
        }
    }

    async fn submit(self: &Arc<Self>, number: u64) {
        let kind = if self.net.chance.percent(60) { "sim.long" } else { "sim.short" };
        let selector = if self.net.chance.percent(30) {
            json!({ "label": "labels.pool == 'all'" })
        } else {
            json!({ "node": self.net.chance.choose(self.nodes) })
        };
        let key = format!("{}-{number}", self.project);
        let body = json!({
            "operation_type": kind, "version": "v1", "inputs": {}, "target_selector": selector, "idempotency_key": key,
        });
        let path = format!("/api/v1/projects/{}/operations", self.project);
        let (status, answer) = self.ask("POST", &path, &body).await;
        let Some(id) = answer["operation_id"].as_str().filter(|_| status < 300) else {
            self.net.trace.broken(format!("an operation was refused: {status} {answer}"));
            return;
        };
        self.net.trace.note(&format!("{id} is submitted: {kind} on {selector}"));
        let submitted = Submitted { project: self.project, id: id.to_owned() };
        self.submitted.lock().unwrap_or_else(PoisonError::into_inner).push(submitted);
        if self.net.chance.percent(20) {
            let (person, path) = (Arc::clone(self), format!("{path}/{id}/cancel"));
            tokio::spawn(async move {
                tokio::time::sleep(person.net.chance.milliseconds(0..15_000)).await;
                let (status, _) = person.ask("POST", &path, &json!({})).await;
                person.net.trace.note(&format!("a cancel was answered {status}"));
            });
        }
    }

    /// What was accepted so far.
    pub(crate) fn accepted(&self) -> Vec<Submitted> {
        self.submitted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
