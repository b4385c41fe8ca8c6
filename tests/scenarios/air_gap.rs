//! A site that reaches no registry: plane and host live from a directory.

use std::path::Path;

use fettle_model::reference::Reference;
use fettle_supply::{CopySource, CopyTarget, Layout};
use fettle_tests::{Fleet, Supply};
use serde_json::{Value, json};

use crate::{POLICY, PROGRAMS, RENDER};

/// Copies what a definition needs, except what `left_out` names.
async fn fill(directory: &Path, supply: &Supply, sources: &Value, left_out: &[&Reference]) {
    let documents = sources.as_object().unwrap().values().map(|text| text.as_str().unwrap().parse().unwrap());
    let all: Vec<Reference> = documents.chain(supply.catalog.steps.values().cloned()).collect();
    let target = CopyTarget::Layout(Layout::open_or_create(directory).unwrap());
    for reference in all.into_iter().filter(|one| !left_out.contains(&one)) {
        supply.client.copy(&CopySource::Registry(reference), &target).await.unwrap();
    }
}

async fn fleet_on(directory: &Path, trust: &Path) -> Fleet {
    let mut fleet = Fleet::prepare(PROGRAMS, trust).await;
    let layout = ["--oci-layout".to_owned(), directory.to_string_lossy().into_owned()];
    fleet.planes.arguments.extend(layout.clone());
    fleet.host_arguments.extend(layout);
    fleet.planes.start().await;
    fleet.start_host();
    fleet.node_online().await;
    fleet
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_is_registered_and_run_where_no_registry_is() {
    let mut supply = Supply::with(&["file-render", "noop"]).await;
    let sources = supply.publish(RENDER, POLICY).await;
    let disk = tempfile::tempdir().unwrap();
    fill(disk.path(), &supply, &sources, &[]).await;
    supply.registry.stop();
    let fleet = fleet_on(disk.path(), &supply.trust).await;
    fleet.register(&sources).await;
    let operation = fleet.run("test.render", &json!({"text": "from a disk"})).await;
    assert_eq!(operation["status"], "succeeded", "{operation:#}\n{}", fleet.logs());
    assert_eq!(std::fs::read_to_string(fleet.node_file("config/rendered.txt")).unwrap(), "from a disk");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_lacks_a_step_is_told_by_the_name_of_the_step() {
    let mut supply = Supply::with(&["file-render", "noop"]).await;
    let sources = supply.publish(RENDER, POLICY).await;
    let disk = tempfile::tempdir().unwrap();
    let missing = supply.catalog.steps.values().next().unwrap().clone();
    fill(disk.path(), &supply, &sources, &[&missing]).await;
    supply.registry.stop();
    let fleet = fleet_on(disk.path(), &supply.trust).await;
    let (_, answer) = fleet.try_register(&sources).await;
    assert_eq!(answer["code"], "artifact.unavailable", "{answer:#}");
    assert!(answer["detail"].to_string().contains(&missing.to_string()), "{answer:#}");
}
