//! Definitions that are sound and definitions that are not, and the plans they give.

use std::collections::BTreeMap;

use fettle_model::{
    catalog::Catalog, check, definition::Definition, descriptor::Descriptor, document, name::StepKind, plan,
};
use serde_json::{Value, json};

const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn descriptors() -> BTreeMap<StepKind, Descriptor> {
    let descriptor = |kind: &str, input: Value, output: Value, requests: Value| {
        let descriptor: Descriptor = serde_json::from_value(json!({
            "kind": kind, "summary": "", "effect": "converge", "input_schema": input, "output_schema": output,
            "requests": requests, "probes": true
        }))
        .unwrap();
        (descriptor.kind.clone(), descriptor)
    };
    let object = |properties: Value| json!({"type": "object", "additionalProperties": false, "required": properties.as_object().unwrap().keys().collect::<Vec<_>>(), "properties": properties});
    BTreeMap::from([
        descriptor(
            "pull@v1",
            object(json!({"reference": {"type": "string"}})),
            object(json!({"path": {"type": "string"}, "size": {"type": "integer"}})),
            json!({"transfer": "fetches the model"}),
        ),
        descriptor(
            "render@v1",
            object(json!({"path": {"type": "string"}, "count": {"type": "integer"}})),
            object(json!({"path": {"type": "string"}})),
            json!({}),
        ),
    ])
}

const GOOD: &str = r"
operation_type: test.stage
version: v1
backend_type: node_agent
input_schema: { type: object, additionalProperties: false, required: [model], properties: { model: { type: string } } }
steps:
  - id: render
    uses: render@v1
    with: { path: '${{ steps.pull.path }}/x', count: '${{ steps.pull.size }}' }
  - id: pull
    uses: pull@v1
    with: { reference: '${{ inputs.model }}' }
    grants: { transfer: { hosts: ['localhost:5000'] } }
    retry: { attempts: 3 }
";

fn violations(edit: impl Fn(String) -> String) -> String {
    let definition: Definition = document::read(&edit(GOOD.to_owned())).unwrap();
    check::check(&definition, &descriptors()).unwrap_err().to_string()
}

#[test]
fn a_sound_definition_passes() {
    let definition: Definition = document::read(GOOD).unwrap();
    assert_eq!(check::check(&definition, &descriptors()), Ok(()));
}

#[test]
fn a_text_may_go_to_a_field_that_takes_some_texts() {
    for (field, fits) in [
        (json!({"oneOf": [{"const": "a", "type": "string"}, {"const": "b", "type": "string"}]}), true),
        (json!({"enum": ["a", "b"]}), true),
        (json!({"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]}), true),
        (json!({"oneOf": [{"const": 1}, {"type": "null"}]}), false),
        (json!({"enum": [1, 2]}), false),
    ] {
        let mut descriptors = descriptors();
        let pull = descriptors.get_mut(&"pull@v1".parse::<StepKind>().unwrap()).unwrap();
        pull.input_schema["properties"]["reference"] = field.clone();
        let definition: Definition = document::read(GOOD).unwrap();
        assert_eq!(check::check(&definition, &descriptors).is_ok(), fits, "{field}");
    }
}

#[test]
fn each_broken_rule_is_named_with_its_place_and_its_fix() {
    let replace = |from: &'static str, to: &'static str| {
        move |text: String| {
            assert!(text.contains(from), "{from}");
            text.replacen(from, to, 1)
        }
    };
    for (violation, expected) in [
        (violations(replace("steps.pull.path }}/x", "steps.render.path }}/x")), "cycle: render -> render"),
        (
            violations(replace("steps.pull.path }}/x", "steps.fetch.path }}/x")),
            "/steps/0/with/path: there is no step `fetch`; the steps are pull, render",
        ),
        (
            violations(replace("steps.pull.path }}/x", "steps.pull.paht }}/x")),
            "`steps.pull` has no field `paht`; it has path, size",
        ),
        (
            violations(replace("steps.pull.size", "steps.pull.path")),
            "/steps/0/with/count: the value does not fit: it is string, and `render@v1` takes integer",
        ),
        (violations(replace("inputs.model", "inputs.modle")), "`inputs` has no field `modle`; it has model"),
        (
            violations(replace("uses: pull@v1", "uses: fetch@v1")),
            "/steps/1/uses: `fetch@v1` is not in the catalog; it has pull@v1, render@v1",
        ),
        (
            violations(replace("    grants: { transfer: { hosts: ['localhost:5000'] } }\n", "")),
            "uses capability `transfer` (fetches the model), and this step does not grant it; to allow it, write `grants: { transfer:",
        ),
        (violations(replace("['localhost:5000']", "['*']")), "/steps/1/grants/transfer/hosts/0: `*` is not a literal"),
        (
            violations(replace("['localhost:5000']", "['${{ inputs.model }}']")),
            "is not a literal; a grant names what it grants",
        ),
        (
            violations(replace("    retry: { attempts: 3 }", "    retry: { attempts: 0 }")),
            "/steps/1/retry/attempts: write 1 to 100",
        ),
        (violations(replace("id: pull", "id: render")), "a step `render` exists already"),
        (violations(replace("count: '${{ steps.pull.size }}'", "count: many")), "/steps/0/with/count"),
        (violations(replace("count: '${{ steps.pull.size }}'", "counts: 1")), "/steps/0/with"),
        (
            violations(replace("model: { type: string }", "model: { type: strnig }")),
            "/input_schema: is not a valid JSON Schema",
        ),
        (
            violations(replace("    uses: render@v1\n", "    uses: render@v1\n    needs: [gone]\n")),
            "/steps/0/needs: there is no step `gone`",
        ),
        (
            violations(replace("    uses: render@v1\n", "    uses: render@v1\n    grants: { gpu: { read: true } }\n")),
            "never asks for capability `gpu`; remove this grant",
        ),
    ] {
        assert!(violation.contains(expected), "expected `{expected}` in:\n{violation}");
    }
}

#[test]
fn a_step_that_may_not_be_repeated_is_not_retried() {
    let mut descriptors = descriptors();
    descriptors.get_mut(&"pull@v1".parse().unwrap()).unwrap().effect = fettle_model::descriptor::Effect::Consume;
    let definition: Definition = document::read(GOOD).unwrap();
    let violations = check::check(&definition, &descriptors).unwrap_err().to_string();
    assert!(violations.contains("/steps/1/retry/attempts: `pull@v1` may not be repeated"), "{violations}");
}

#[test]
fn integers_that_lose_digits_are_refused_in_inputs() {
    let inputs = json!({"model": "m", "size": 9_007_199_254_740_993_u64});
    let text = GOOD.replace("additionalProperties: false, required: [model]", "required: [model]");
    let reference = format!("localhost:5000/admin/x@{DIGEST}");
    let sources =
        serde_json::from_value(json!({"definition": reference, "catalog": reference, "policy": reference})).unwrap();
    let error = plan::plan(sources, &document::read(&text).unwrap(), &catalog(), inputs).unwrap_err().to_string();
    assert!(error.contains("/size: 9007199254740993 is beyond 2^53 - 1"), "{error}");
}

#[test]
fn a_definition_with_a_misspelt_field_is_refused_with_the_valid_ones() {
    let error = document::read::<Definition>(&GOOD.replace("on_failure", "x").replace("    retry:", "    retries:"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("/steps/1/retries") && error.contains("unknown field `retries`, expected one of"),
        "{error}"
    );
}

fn catalog() -> Catalog {
    serde_json::from_value(json!({"steps": {
        "pull@v1": format!("localhost:5000/steps/pull@{DIGEST}"), "render@v1": format!("localhost:5000/steps/render@{DIGEST}")
    }}))
    .unwrap()
}

fn plan_of(inputs: Value) -> Result<plan::Plan, plan::PlanError> {
    let reference = format!("localhost:5000/admin/x@{DIGEST}");
    let sources =
        serde_json::from_value(json!({"definition": reference, "catalog": reference, "policy": reference})).unwrap();
    plan::plan(sources, &document::read(GOOD).unwrap(), &catalog(), inputs)
}

#[test]
fn a_plan_orders_steps_and_its_digest_never_changes() {
    let plan = plan_of(json!({"model": "m"})).unwrap();
    let order: Vec<&str> = plan.graph.steps.iter().map(|step| step.id.as_str()).collect();
    assert_eq!(order, ["pull", "render"]);
    assert_eq!(plan.graph.steps[1].needs.iter().map(|id| id.as_str()).collect::<Vec<_>>(), ["pull"]);
    // Golden: plane and host of different versions must agree on it. When it must change, say so in
    // docs/decisions and let both sides refuse each other.
    insta::assert_snapshot!(plan.digest().unwrap().to_string());
}

#[test]
fn a_plan_depends_on_everything_in_it() {
    let digest = |inputs| plan_of(inputs).unwrap().digest().unwrap();
    assert_eq!(digest(json!({"model": "m"})), digest(json!({"model": "m"})));
    assert_ne!(digest(json!({"model": "m"})), digest(json!({"model": "n"})));
}

#[test]
fn inputs_that_break_the_schema_are_all_named() {
    let error = plan_of(json!({"modle": 1})).unwrap_err().to_string();
    assert!(error.contains("modle") && error.contains("\"model\" is a required property"), "{error}");
}
