//! Which policy bundles count on nodes: activated and rolled back by tasks that are signed, from the plane to the node.

use std::sync::atomic::{AtomicU64, Ordering};

use fettle_model::{activation::PolicyActivation, reference::Reference};
use fettle_supply::ArtifactKind;
use fettle_tests::{
    Fleet, Supply, eventually,
    fleet::{PATIENCE, step},
};
use serde_json::{Value, json};

use crate::{POLICY, PROGRAMS, RENDER};

const ACTIVATE: &str = include_str!("../../policies/definitions/policy.activate.v1.yaml");
const RECOVERY: &str = include_str!("../../policies/bundles/activation.yaml");

/// Two operations, each under a policy bundle of its own, and the one that says which of the bundles count.
struct World {
    supply: Supply,
    fleet: Fleet,
    bundles: [Reference; 2],
    submitted: AtomicU64,
}

impl World {
    async fn new() -> Self {
        let supply = Supply::with(&["file-render", "noop", "policy-activate"]).await;
        let mut fleet = Fleet::prepare(PROGRAMS, &supply.trust).await;
        fleet.planes.start().await;
        let mut bundles = Vec::new();
        for revision in [1, 2] {
            let definition = RENDER.replace("test.render", &format!("test.render{revision}"));
            let policy = POLICY.replace("revision: 1", &format!("revision: {revision}"));
            let sources = supply.publish(&definition, &policy).await;
            bundles.push(sources["policy"].as_str().unwrap().parse().unwrap());
            fleet.register(&sources).await;
        }
        fleet.register(&supply.publish(ACTIVATE, RECOVERY).await).await;
        Self { supply, fleet, bundles: bundles.try_into().unwrap(), submitted: AtomicU64::new(0) }
    }

    async fn started() -> Self {
        let mut world = Self::new().await;
        world.fleet.start_host();
        world.fleet.node_online().await;
        world
    }

    async fn signed(&self, revision: u64, bundle: usize, rolls_back: bool) -> Reference {
        let bundles = vec![self.bundles[bundle].clone()];
        self.supply.publish_activation(&PolicyActivation { revision, bundles, nodes: None, rolls_back }).await
    }

    /// Runs an operation of its own each time, whatever its inputs are.
    async fn run(&self, operation_type: &str, inputs: &Value) -> Value {
        let key = format!("{}", self.submitted.fetch_add(1, Ordering::Relaxed));
        let (status, accepted) = self.fleet.try_submit(operation_type, inputs, &key).await.unwrap();
        assert!(status.is_success(), "{accepted:#}");
        self.fleet.ended(accepted["operation_id"].as_str().unwrap()).await
    }

    async fn activate(&self, activation: &Reference) -> Value {
        self.run("policy.activate", &json!({ "activation": activation })).await
    }

    /// What comes of the operation under each of the bundles.
    async fn counts(&self) -> [String; 2] {
        let mut codes = Vec::new();
        for name in ["test.render1", "test.render2"] {
            let ended = self.run(name, &json!({ "text": "hello" })).await;
            codes.push(match ended["status"].as_str() {
                Some("succeeded") => "done".to_owned(),
                _ => ended["failure"]["code"].as_str().unwrap_or_default().to_owned(),
            });
        }
        codes.try_into().unwrap()
    }

    /// `policy.revision` of the node, as the plane shows it.
    async fn shown(&self, revision: &str) {
        eventually("the plane to know the revision", PATIENCE, async || {
            let nodes = self.fleet.get_as_admin("/api/v1/nodes").await?;
            let shown = nodes["items"][0]["capabilities"]["policy.revision"].as_str()?.to_owned();
            (shown == revision).then_some(())
        })
        .await;
    }

    /// `fettle-host policies --json`.
    #[expect(clippy::disallowed_methods, reason = "what a person on the node does")]
    fn told_on_the_node(&self) -> Value {
        let mut command = std::process::Command::new(PROGRAMS.host);
        let output = command.args(["policies", "--json", "--data"]).arg(self.fleet.host_directory()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

const NOT_ACTIVE: &str = "policy.not-active";

#[tokio::test(flavor = "multi_thread")]
async fn bundles_are_activated_and_rolled_back_by_tasks_and_nothing_older_comes_back_unsigned() {
    let mut world = World::started().await;
    assert_eq!(world.counts().await, ["done", "done"], "before the first activation all that is signed counts");
    let (one, two) = (world.signed(1, 0, false).await, world.signed(2, 1, false).await);
    for (activation, revision, counts) in [(&one, "1", ["done", NOT_ACTIVE]), (&two, "2", [NOT_ACTIVE, "done"])] {
        let ended = world.activate(activation).await;
        assert_eq!(ended["status"], "succeeded", "{ended:#}\n{}", world.fleet.logs());
        assert_eq!(step(&ended, "activate")["output"]["revision"].to_string(), revision);
        assert_eq!(world.counts().await, counts);
        world.shown(revision).await;
    }
    let again = world.activate(&two).await;
    assert_eq!((&again["status"], &step(&again, "activate")["changed"]), (&json!("succeeded"), &json!(false)));
    let unsaid = world.signed(3, 0, false).await;
    for (activation, code) in [(&one, "policy.older-activation"), (&unsaid, "policy.unsigned-roll-back")] {
        let refused = world.activate(activation).await;
        assert_eq!(step(&refused, "activate")["failure"]["code"], code, "{refused:#}");
        assert_eq!(world.counts().await, [NOT_ACTIVE, "done"]);
    }
    world.fleet.host.as_mut().unwrap().kill();
    world.fleet.start_host();
    assert_eq!(world.counts().await, [NOT_ACTIVE, "done"], "a node that was started again knows it still");
    let back = world.signed(4, 0, true).await;
    assert_eq!(world.activate(&back).await["status"], "succeeded");
    assert_eq!(world.counts().await, ["done", NOT_ACTIVE]);
    world.shown("4").await;
    let told = world.told_on_the_node();
    assert_eq!(told["active"]["activation"], json!(back));
    let revisions: Vec<u64> =
        told["history"].as_array().unwrap().iter().filter_map(|one| one["revision"].as_u64()).collect();
    assert_eq!(revisions, [1, 2, 4]);
    assert!(told["history"].as_array().unwrap().iter().all(|one| one["correlation_id"].is_string()), "{told:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_begins_with_the_activation_that_it_was_started_with_and_goes_on_from_there() {
    let mut world = World::new().await;
    let (one, two) = (world.signed(1, 0, false).await, world.signed(2, 1, false).await);
    world.fleet.host_arguments = vec!["--policies".to_owned(), one.to_string()];
    world.fleet.start_host();
    world.fleet.node_online().await;
    assert_eq!(world.counts().await, ["done", NOT_ACTIVE]);
    assert_eq!(world.activate(&two).await["status"], "succeeded");
    // The same start does not go back.
    world.fleet.host.as_mut().unwrap().kill();
    world.fleet.start_host();
    assert_eq!(world.counts().await, [NOT_ACTIVE, "done"]);
    assert_eq!(world.told_on_the_node()["history"].as_array().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_first_activation_is_not_signed_takes_no_tasks_and_says_why() {
    let mut world = World::new().await;
    let bundles = vec![world.bundles[0].clone()];
    let document = PolicyActivation { revision: 1, bundles, nodes: None, rolls_back: false };
    let content = fettle_model::canonical::to_bytes(&document).unwrap();
    let repository = world.supply.registry.repository("admin/unsigned");
    let unsigned = world.supply.client.push(ArtifactKind::PolicyActivation, &repository, content, None).await.unwrap();
    world.fleet.host_arguments = vec!["--policies".to_owned(), unsigned.to_string()];
    world.fleet.start_host();
    let host = &mut world.fleet.host;
    eventually("the host to end", PATIENCE, async || host.as_mut().unwrap().ended()).await;
    let logs = world.fleet.logs();
    assert!(logs.contains("this node takes no tasks before it has its policy bundles"), "{logs}");
    assert!(logs.contains("[supply.unsigned]"), "{logs}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_killed_while_it_writes_an_activation_down_ends_with_it() {
    for point in ["policies::before_rename:1", "policies::after_rename:1"] {
        let mut world = World::new().await;
        world.fleet.host_environment = vec![("FETTLE_CRASH_AT".to_owned(), point.to_owned())];
        world.fleet.start_host();
        world.fleet.node_online().await;
        let one = world.signed(1, 0, false).await;
        let id = world.fleet.submit("policy.activate", &json!({ "activation": one })).await;
        let host = &mut world.fleet.host;
        eventually("the host to die", PATIENCE, async || host.as_mut().unwrap().ended()).await;
        world.fleet.host_environment.clear();
        world.fleet.start_host();
        let ended = world.fleet.ended(&id).await;
        assert_eq!(ended["status"], "succeeded", "{point}: {ended:#}\n{}", world.fleet.logs());
        assert_eq!(world.counts().await, ["done", NOT_ACTIVE], "{point}");
        assert_eq!(world.told_on_the_node()["history"].as_array().unwrap().len(), 1, "{point}");
    }
}
