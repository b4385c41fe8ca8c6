//! Laws that every step in this directory keeps.

#![allow(clippy::unwrap_used, reason = "tests")]

mod reference;

use std::{collections::BTreeSet, fs, path::Path};

use fettle_model::descriptor::{Descriptor, Effect};
use fettle_step::{Context, FailureClass, Step};
use serde_json::json;

/// Every step, by its directory. A step that is missing here fails `every_directory_is_in_the_table`.
fn steps() -> Vec<(&'static str, Box<dyn Step>)> {
    vec![
        ("artifact-pull-oci", Box::new(fettle_step_artifact_pull_oci::step())),
        ("command-exec-allowlisted", Box::new(fettle_step_command_exec_allowlisted::step())),
        ("credential-mint", Box::new(fettle_step_credential_mint::step())),
        ("policy-activate", Box::new(fettle_step_policy_activate::step())),
        ("file-render", Box::new(fettle_step_file_render::step())),
        ("gpu-runtime-check", Box::new(fettle_step_gpu_runtime_check::step())),
        ("health-check", Box::new(fettle_step_health_check::step())),
        ("http-check", Box::new(fettle_step_http_check::step())),
        ("noop", Box::new(fettle_step_noop::step())),
        ("testing", Box::new(fettle_step_testing::step())),
    ]
}

fn descriptor(step: &dyn Step) -> Descriptor {
    serde_json::from_str(&step.describe()).unwrap()
}

#[test]
fn every_directory_is_in_the_table() {
    let directories = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
    let found: BTreeSet<String> = directories
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().join("Cargo.toml").is_file() && entry.file_name() != "sdk")
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    let listed: BTreeSet<String> = steps().iter().map(|(directory, _)| (*directory).to_owned()).collect();
    assert_eq!(found, listed);
}

#[test]
fn the_directory_is_the_kind_with_dashes() {
    for (directory, step) in steps() {
        let kind = descriptor(&*step).kind;
        let dashed = kind.name().replace(['.', '_'], "-");
        assert!(dashed == directory || dashed == format!("{directory}-misbehave"), "{kind} in {directory}");
    }
}

#[test]
fn a_description_is_what_the_plane_reads_and_always_the_same() {
    for (directory, step) in steps() {
        let text = step.describe();
        assert!(text.len() < 256 * 1024 && text == step.describe(), "{directory}");
        let descriptor = descriptor(&*step);
        assert!(descriptor.summary.ends_with('.'), "{directory}: {}", descriptor.summary);
        assert!(descriptor.effect != Effect::Converge || descriptor.probes, "{directory} converges without a probe");
    }
}

#[test]
fn schemas_are_valid_and_need_no_resolver() {
    for (directory, step) in steps() {
        let descriptor = descriptor(&*step);
        for schema in [&descriptor.input_schema, &descriptor.output_schema] {
            assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema", "{directory}");
            assert_eq!(schema["type"], "object", "{directory}");
            assert!(jsonschema::draft202012::new(schema).is_ok(), "{directory}");
            assert!(!schema.to_string().contains("\"$ref\""), "{directory}");
        }
    }
}

#[test]
fn schema_and_step_agree_that_an_unknown_field_is_a_mistake() {
    for (directory, step) in steps().into_iter().filter(|(directory, _)| *directory != "noop") {
        let input = json!({"no_such_field": 1});
        let validator = jsonschema::draft202012::new(&descriptor(&*step).input_schema).unwrap();
        assert!(!validator.is_valid(&input), "{directory}");
        let failure = step.run(&Context::default(), &input.to_string()).unwrap_err();
        assert_eq!(failure.class, FailureClass::InvalidInput, "{directory}");
        assert!(failure.message.contains("`no_such_field`"), "{directory}: {failure}");
    }
}

#[test]
fn a_step_that_was_granted_nothing_is_denied_or_does_nothing() {
    let reference = format!("registry.test:1/a@sha256:{}", "0".repeat(64));
    for (directory, input) in [
        ("artifact-pull-oci", json!({"reference": reference, "destination": "models/a"})),
        ("command-exec-allowlisted", json!({"profile": "id"})),
        ("file-render", json!({"template": "", "path": "site/a"})),
        ("gpu-runtime-check", json!({})),
        ("health-check", json!({})),
        ("http-check", json!({"url": "https://a.example/"})),
    ] {
        let (_, step) = steps().into_iter().find(|(name, _)| *name == directory).unwrap();
        let failure = step.run(&Context::default(), &input.to_string()).unwrap_err();
        assert_eq!(failure.class, FailureClass::Denied, "{directory}: {failure}");
        assert!(failure.message.contains("grant") || failure.message.contains("add"), "{failure}");
    }
}
