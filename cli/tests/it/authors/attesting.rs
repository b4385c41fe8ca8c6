//! What is known of a step, signed and attached: by publishing, and afterwards.

use std::{fs, path::Path, process::Command};

use fettle_cli::dev::{self, Options, Running};
use serde_json::Value;

use super::{built_before, fail, fettle, json, make, run};

/// `fettle` with the registry, key and trust policy of a development system.
fn with(running: &Running, directory: &Path, arguments: &[&str]) -> Command {
    let mut command = fettle(directory, arguments);
    command.env("FETTLE_CONTEXT", &running.context_path);
    command
}

/// A step that was built, and its component.
fn built(directory: &Path) -> (String, Value) {
    let step = make(directory, "attested", &[]);
    std::os::unix::fs::symlink(built_before(), step.join("target")).unwrap();
    let built = json(fettle(&step, &["step", "build", "--json"]));
    // Away from where other tests build.
    for name in ["path", "sbom", "provenance"] {
        let from = built[name].as_str().unwrap();
        fs::copy(from, directory.join(Path::new(from).file_name().unwrap())).unwrap();
    }
    ("attested.wasm".to_owned(), built)
}

async fn started(directory: &Path) -> Running {
    dev::start(Options::new(directory.join("state"))).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn publishing_attaches_what_is_known_and_verifying_holds_it_against_the_step() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let running = started(here).await;
    tokio::task::block_in_place(|| {
        let (component, _) = built(here);
        let published = json(with(&running, here, &["step", "publish", &component, "--json"]));
        let types = ["https://cyclonedx.org/bom", "https://slsa.dev/provenance/v1"];
        assert_eq!(published["attestations"], serde_json::json!(types));
        let reference = published["reference"].as_str().unwrap();
        let verify = ["step", "verify", "--attestations", reference, "--json"];
        let verified = json(with(&running, here, &verify));
        let attached = verified["attestations"].as_array().unwrap();
        assert_eq!(attached.len(), 2, "{verified}");
        let signer = format!("the key {}", published["signed_by"].as_str().unwrap());
        assert!(attached.iter().all(|one| one["refused"].is_null() && one["signed_by"] == *signer), "{verified}");
        let inspected = run(with(&running, here, &["step", "inspect", reference]));
        assert!(types.iter().all(|kind| inspected.contains(kind)) && inspected.contains(" crates\n"), "{inspected}");
        // The same again changes nothing.
        run(with(&running, here, &["step", "publish", &component]));
        assert_eq!(json(with(&running, here, &verify))["attestations"], verified["attestations"]);
        what_nobody_trusted_signed_is_not_believed(&running, here, reference);
    });
    running.stop().await.unwrap();
}

/// Another key attests as well: listed, refused, and not taken for what must be there.
fn what_nobody_trusted_signed_is_not_believed(running: &Running, here: &Path, reference: &str) {
    run(with(running, here, &["key", "generate", "--output", "other"]));
    let attest = ["step", "attest", reference, "--built", "attested.wasm", "--key", "other.key"];
    run(with(running, here, &attest));
    let verified = json(with(running, here, &["step", "verify", "--attestations", reference, "--json"]));
    let attached = verified["attestations"].as_array().unwrap();
    assert_eq!(attached.iter().filter(|one| one["refused"].is_null()).count(), 2, "{verified}");
    assert_eq!(attached.iter().filter(|one| !one["refused"].is_null()).count(), 2, "{verified}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_without_attestations_is_attested_later_and_only_with_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let running = started(here).await;
    tokio::task::block_in_place(|| {
        let (component, _) = built(here);
        let publish = ["step", "publish", &component, "--no-attestations"];
        let reference = run(with(&running, here, &publish)).trim().to_owned();
        let verify = ["step", "verify", "--attestations", &reference];
        let (code, error) = fail(with(&running, here, &verify));
        assert_eq!(code, 5, "{error}");
        assert!(error.contains("cyclonedx.org/bom and https://slsa.dev") && error.contains("fettle step attest"));

        // What is of another component is refused before anything is signed.
        let (bom, kept) =
            (here.join("attested.sbom.json"), fs::read_to_string(here.join("attested.sbom.json")).unwrap());
        let digest = Value::from(kept.split("\"content\": \"").last().unwrap().split('"').next().unwrap());
        fs::write(&bom, kept.replace(digest.as_str().unwrap(), &"0".repeat(64))).unwrap();
        let attest = ["step", "attest", &reference, "--built", &component];
        let (code, error) = fail(with(&running, here, &attest));
        assert_eq!(code, 3, "{error}");
        let (code, _) = fail(with(&running, here, &["step", "publish", &component]));
        assert_eq!(code, 3);
        assert_eq!(fail(with(&running, here, &verify)).0, 5, "something was attached");

        fs::write(&bom, kept).unwrap();
        run(with(&running, here, &attest));
        assert!(run(with(&running, here, &verify)).contains("built by urn:fettle:builder:local"));
    });
    running.stop().await.unwrap();
}
