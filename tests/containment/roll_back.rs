//! What a plane that was taken over tries against the policy bundles of a node: old ones, those of other nodes, and
//! activations that no administrator signed.

use fettle_model::{
    activation::PolicyActivation, definition::Definition, document, failure::FailureClass, plan::Sources,
    reference::Reference, task::Task,
};
use fettle_supply::ArtifactKind;
use serde_json::json;

use crate::{
    plane::{Signed, failure, given},
    taken_over::{NODE, Outcome},
};

const ACTIVATE: &str = include_str!("../../policies/definitions/policy.activate.v1.yaml");
const RECOVERY: &str = include_str!("../../policies/bundles/activation.yaml");

/// Two bundles of an administrator, and what it takes to say which of them counts.
struct World {
    signed: Signed,
    definition: Definition,
    sources: Sources,
    bundles: [Reference; 2],
}

impl World {
    async fn new() -> Self {
        let signed = Signed::new().await;
        let definition: Definition = document::read(ACTIVATE).unwrap();
        let kind = ArtifactKind::PolicyBundle;
        let recovery = document::read::<fettle_model::policy::PolicyBundle>(RECOVERY).unwrap();
        let sources = Sources {
            definition: signed.supply.publish_document(ArtifactKind::Definition, "admin/activate", &definition).await,
            catalog: signed.sources.catalog.clone(),
            policy: signed.supply.publish_document(kind, "admin/recovery", &recovery).await,
        };
        let mut newer = signed.policy.clone();
        newer.revision += 1;
        let newer = signed.supply.publish_document(kind, "admin/policy", &newer).await;
        let bundles = [signed.sources.policy.clone(), newer];
        Self { signed, definition, sources, bundles }
    }

    /// What an administrator signs.
    async fn activation(&self, revision: u64, bundle: usize) -> Reference {
        let bundles = vec![self.bundles[bundle].clone()];
        let document = PolicyActivation { revision, bundles, nodes: None, rolls_back: false };
        self.signed.supply.publish_activation(&document).await
    }

    fn activate(&self, activation: &Reference, id: &str) -> Task {
        let inputs = json!({ "activation": activation });
        let task = self.signed.task(self.sources.clone(), &self.definition, &self.signed.supply.catalog, inputs);
        Task { task_id: id.to_owned(), ..task }
    }

    /// The definition under one of the bundles: signed, all of it.
    fn render(&self, bundle: usize, id: &str) -> Task {
        let sources = Sources { policy: self.bundles[bundle].clone(), ..self.signed.sources.clone() };
        Task { task_id: id.to_owned(), ..self.signed.of_sources(sources, json!({ "text": "hello" })) }
    }

    /// A node that obeys revision 2, which names the newer bundle, is given one task more: it is refused with this code,
    /// written down, and everything is as before.
    async fn refused_after_an_upgrade(&self, code: &str, attack: Task) {
        let (one, two) = (self.activation(1, 0).await, self.activation(2, 1).await);
        let id = attack.task_id.clone();
        let tasks = vec![self.activate(&one, "1"), self.activate(&two, "2"), attack, self.render(1, "4")];
        let taken = given(&self.signed, tasks).await;
        let [first, second, attacked, after] = taken.outcomes.as_slice() else { unreachable!("four tasks") };
        assert_eq!([first, second, after], [&Outcome::Completed; 3], "{code}");
        let failure = failure(attacked);
        assert_eq!((failure.code.as_str(), failure.class), (code, FailureClass::Denied), "{}", failure.message);
        let [record] = taken.refused.as_slice() else { unreachable!("{code}: {:?}", taken.refused) };
        assert_eq!((record.code.as_str(), record.about.task_id.as_deref()), (code, Some(id.as_str())));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_under_a_bundle_that_was_replaced_is_refused() {
    let world = World::new().await;
    world.refused_after_an_upgrade("policy.not-active", world.render(0, "old")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_activation_that_was_replaced_is_not_obeyed_again() {
    let world = World::new().await;
    let older = world.activation(1, 0).await;
    world.refused_after_an_upgrade("policy.older-activation", world.activate(&older, "old")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_bundle_comes_back_only_when_an_administrator_signed_that_it_does() {
    let world = World::new().await;
    let back = world.activation(3, 0).await;
    world.refused_after_an_upgrade("policy.unsigned-roll-back", world.activate(&back, "back")).await;
    let bundles = vec![world.bundles[0].clone()];
    let signed = PolicyActivation { revision: 3, bundles, nodes: None, rolls_back: true };
    let signed = world.signed.supply.publish_activation(&signed).await;
    let (one, two) = (world.activation(1, 0).await, world.activation(2, 1).await);
    let mut tasks: Vec<Task> = Vec::new();
    for (id, activation) in [("1", &one), ("2", &two), ("3", &signed)] {
        tasks.push(world.activate(activation, id));
    }
    tasks.extend([world.render(0, "4"), world.render(1, "5")]);
    let taken = given(&world.signed, tasks).await;
    assert_eq!(taken.outcomes[..4], [const { Outcome::Completed }; 4]);
    assert_eq!(failure(&taken.outcomes[4]).code, "policy.not-active");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_activation_for_another_node_or_by_nobody_is_not_obeyed() {
    let world = World::new().await;
    let bundles = vec![world.bundles[0].clone()];
    let nodes = Some(["node-2".to_owned()].into());
    assert_ne!(NODE, "node-2");
    let elsewhere = PolicyActivation { revision: 9, bundles: bundles.clone(), nodes, rolls_back: true };
    let elsewhere = world.signed.supply.publish_activation(&elsewhere).await;
    let own = PolicyActivation { revision: 9, bundles, nodes: None, rolls_back: true };
    let kind = ArtifactKind::PolicyActivation;
    let unsigned = world.signed.unsigned(kind, &own).await;
    let by_plane = world.signed.signed_by_the_plane(kind, &own).await;
    for (code, activation) in [
        ("policy.other-nodes", elsewhere),
        ("supply.unsigned", unsigned),
        ("supply.untrusted", by_plane),
        // Signed, and something else.
        ("supply.malformed", world.bundles[0].clone()),
    ] {
        world.refused_after_an_upgrade(code, world.activate(&activation, "attack")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_that_no_administrator_signed_does_not_count_though_an_activation_names_it() {
    let world = World::new().await;
    let mut wider = world.signed.policy.clone();
    wider.revision = 7;
    let bundle = world.signed.unsigned(ArtifactKind::PolicyBundle, &wider).await;
    let careless = PolicyActivation { revision: 3, bundles: vec![bundle], nodes: None, rolls_back: false };
    let careless = world.signed.supply.publish_activation(&careless).await;
    world.refused_after_an_upgrade("supply.unsigned", world.activate(&careless, "careless")).await;
}
