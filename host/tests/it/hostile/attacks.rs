//! What is launched at the host, and how.

use std::{sync::Arc, time::Duration};

use fettle_host::{
    capabilities::{Configured, report::Report},
    clock::Clock,
    sandbox::{Call, Limits, Spent, Step},
};
use fettle_model::{failure::Failure, grant::Grants};
use serde_json::{Value, json};

use super::common::{self, Heard, TestNode};

/// Everything that the hostile component may ask for.
const GRANTS: &str = "{exec: {profiles: [sleeper, swarm]}, files: {write: [data]}, transfer: {hosts: ['HOST']}, \
     facts: {read: [memory, filesystems, processes, kernel-log]}}";

/// A component with what it is told.
#[derive(Clone)]
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    /// Built from tests/hostile, unless it is a form of its own.
    pub(crate) component: Option<Vec<u8>>,
    pub(crate) input: Value,
    pub(crate) timeout: Duration,
}

impl Attack {
    /// The attack `input.attack` of the hostile component.
    pub(crate) fn of(name: &'static str, input: Value) -> Self {
        Self { name, component: None, input, timeout: Duration::from_secs(60) }
    }

    pub(crate) fn form(name: &'static str, component: Vec<u8>) -> Self {
        Self { name, component: Some(component), input: json!({}), timeout: Duration::from_secs(60) }
    }

    pub(crate) fn within(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Computes and asks in turn for some ten milliseconds: long enough that twice as long is no accident of
    /// the clock, short enough to be what a step does.
    pub(crate) fn honest() -> Self {
        Self::of("honest", json!({"attack": "none", "count": 8}))
    }
}

/// A node, and the hostile component on it.
pub(crate) struct Field {
    pub(crate) node: TestNode,
    pub(crate) grants: Grants,
    pub(crate) hostile: Step,
}

impl Field {
    pub(crate) async fn new(limits: Limits) -> Self {
        Self::on(TestNode::with_limits(limits)).await
    }

    pub(crate) async fn on(node: TestNode) -> Self {
        Self::beside(node, "nowhere.example:5000").await
    }

    /// The same, where transfers may come from this host.
    pub(crate) async fn beside(mut node: TestNode, host: &str) -> Self {
        allow_swarm(&mut node);
        let grants: Grants = fettle_model::document::read(&GRANTS.replace("HOST", host)).unwrap();
        let hostile = node.link("hostile", &grants).await;
        Self { node, grants, hostile }
    }

    pub(crate) async fn step(&self, attack: &Attack) -> Step {
        match &attack.component {
            None => self.hostile.clone(),
            Some(component) => {
                let compiled = self.node.sandbox.compile(component.clone().into()).await.unwrap();
                self.node.sandbox.link(&compiled, &Grants::default()).unwrap()
            }
        }
    }

    pub(crate) fn call(&self, timeout: Duration, heard: &Arc<Heard>) -> Call {
        self.reporting(timeout, Report::new(Arc::<Heard>::clone(heard), Clock::system()))
    }

    pub(crate) fn reporting(&self, timeout: Duration, report: Report) -> Call {
        let configured = Configured::new(&self.node.node, &self.grants, &self.node.policy, None).unwrap();
        Call {
            context: common::context(),
            capabilities: configured.prepare(report, &self.node.attempt()),
            timeout,
            elapsed: Duration::ZERO,
            spent: Spent::default(),
            tape: None,
        }
    }

    pub(crate) async fn launch(&self, attack: &Attack) -> Result<Value, Failure> {
        let step = self.step(attack).await;
        step.run(self.call(attack.timeout, &Arc::default()), &attack.input.to_string()).await
    }

    /// The code of the failure, or `ok`.
    pub(crate) async fn outcome(&self, attack: &Attack) -> String {
        self.launch(attack).await.map_or_else(|failure| failure.code, |_| "ok".to_owned())
    }
}

/// A program that starts forty others, each of which leaves its process group, and never ends.
fn allow_swarm(node: &mut TestNode) {
    use std::os::unix::fs::PermissionsExt as _;
    let path = node.directory.path().join("swarm");
    let script = "#!/bin/sh\ni=0; while [ $i -lt 40 ]; do setsid sleep 1000 & i=$((i+1)); done; sleep 1000\n";
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let profile = format!("{{id: swarm, command: {}, timeout_seconds: 1}}", path.display());
    let policy = Arc::get_mut(&mut node.policy).unwrap();
    policy.profiles.push(fettle_model::document::read(&profile).unwrap());
}
