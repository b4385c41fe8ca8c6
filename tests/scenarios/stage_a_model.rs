//! The whole path with the definition that ships: `policies/definitions/model.artifact.stage.v1.yaml`.

use std::collections::BTreeMap;

use fettle_model::digest::Digest;
use fettle_tests::{Fleet, Supply, fleet::step};
use serde_json::json;

use crate::PROGRAMS;

const DEFINITION: &str = include_str!("../../policies/definitions/model.artifact.stage.v1.yaml");
const POLICY: &str = include_str!("../../policies/bundles/workstation.yaml");
const STEPS: [&str; 5] =
    ["health-check", "gpu-runtime-check", "artifact-pull-oci", "file-render", "command-exec-allowlisted"];

#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_staged_and_staging_it_again_changes_nothing() {
    let supply = Supply::with(&STEPS).await;
    let weights: Vec<u8> = (0..5_000_000_u32).map(|number| number.to_le_bytes()[0] ^ number.to_le_bytes()[1]).collect();
    let files = BTreeMap::from([("weights.bin", weights.clone()), ("tokenizer.json", b"{}".to_vec())]);
    let model = supply.push_files("models/tiny", &files).await;
    let fleet = Fleet::start(PROGRAMS, &supply.trust).await;
    let definition = DEFINITION.replace("registry.internal:5000", supply.address());
    fleet.register(&supply.publish(&definition, POLICY).await).await;

    let inputs = json!({"model": model, "name": "tiny"});
    let operation = fleet.run("model.artifact.stage", &inputs).await;
    assert_eq!(operation["status"], "succeeded", "{operation:#}\n{}", fleet.logs());
    let staged = std::fs::read(fleet.node_file("models/tiny/weights.bin")).unwrap();
    assert_eq!(Digest::of(&staged), Digest::of(&weights));
    let config = std::fs::read_to_string(fleet.node_file("config/tiny.toml")).unwrap();
    assert!(config.contains("context_length = 8192") && config.contains("models/tiny/weights.bin"), "{config}");
    assert_eq!(step(&operation, "gpu")["output"]["verdict"], "not_applicable", "{operation:#}");
    let counted = format!("{} ", config.lines().count());
    assert!(step(&operation, "prove")["output"]["stdout"].as_str().unwrap().starts_with(&counted), "{operation:#}");
    assert_eq!(step(&operation, "pull")["changed"], true);

    let (_, again) = fleet.try_submit("model.artifact.stage", &inputs, "again").await.unwrap();
    let operation = fleet.ended(again["operation_id"].as_str().unwrap()).await;
    assert_eq!(operation["status"], "succeeded", "{operation:#}");
    assert_eq!(step(&operation, "pull")["changed"], false, "what was there was fetched again");
    assert_eq!(step(&operation, "render")["changed"], false, "what was there was written again");
    assert!(fleet.replay_all().await.len() >= 10, "every attempt is recorded");
}
