//! Policies are asked, bounded, and their mistakes deny.

use serde_json::json;

use super::*;
use crate::policy::dispatch::{self, DispatchDecision};

fn texts(files: &[(&str, &str)]) -> BTreeMap<String, String> {
    files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

fn rego(text: &str) -> Rego {
    Rego { loaded: compile(&texts(&[("rules.rego", text)]), LIMIT).unwrap() }
}

async fn told(text: &str, input: &serde_json::Value) -> Vec<String> {
    let verdict = rego(text).decide(Entry::Submit, input).await;
    verdict.broken.into_iter().map(|broken| broken.message).collect()
}

#[tokio::test]
async fn every_message_of_deny_is_a_reason() {
    let text = "package fettle.submit\n\
        deny contains \"not on Sundays\" if input.at.weekday == 7\n\
        deny contains sprintf(\"%s is too large\", [input.operation.inputs.name]) if input.operation.inputs.size > 3";
    let input = |weekday, size| json!({ "at": { "weekday": weekday }, "operation": { "inputs": { "name": "a", "size": size } } });
    assert_eq!(told(text, &input(1, 1)).await, [""; 0]);
    assert_eq!(told(text, &input(7, 9)).await, ["a is too large", "not on Sundays"]);
}

#[tokio::test]
async fn what_fails_denies_with_the_reason() {
    let fails = "package fettle.submit\ndeny contains \"x\" if to_number(input.text) > 3";
    let messages = told(fails, &json!({ "text": "no number" })).await;
    assert!(messages[0].starts_with("the policy did not decide, which denies: "), "{messages:?}");
    assert!(messages[0].contains("rules.rego:2"), "{messages:?}");
    let no_set = told("package fettle.submit\ndeny := true", &json!({})).await;
    assert!(no_set[0].contains("`deny` is no set of messages"), "{no_set:?}");
}

#[tokio::test]
async fn what_never_ends_is_stopped_and_denies() {
    let text = "package fettle.submit\n\
        many := numbers.range(1, 3000)\n\
        deny contains \"x\" if count([1 | some a in many; some b in many; some c in many; a * b * c == -1]) > 0";
    let began = std::time::Instant::now();
    let messages = told(text, &json!({})).await;
    assert!(messages[0].contains("which denies"), "{messages:?}");
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[test]
fn policies_have_no_clock_no_network_and_no_randomness() {
    for call in ["time.now_ns()", "http.send({})", "rand.intn(\"a\", 3)", "opa.runtime()", "uuid.rfc4122(\"a\")"] {
        let text = format!("package fettle.submit\ndeny contains \"x\" if {call} == 1");
        let error = compile(&texts(&[("rules.rego", &text)]), LIMIT).err();
        // What is compiled must fail when it is asked: there is nothing behind the name.
        if error.is_none() {
            assert!(!text.contains("rand."), "what is random is refused when it is loaded");
            let mut engine = Engine::new();
            engine.add_policy("rules.rego".to_owned(), text).unwrap();
            let answer = engine.eval_rule("data.fettle.submit.deny".to_owned());
            assert!(answer.is_err(), "{call}: {answer:?}");
        }
    }
}

#[test]
fn a_mistake_names_the_file_and_the_line() {
    for (text, place) in [("package fettle.submit\n\ndeny contains if {", "b.rego:3"), ("nothing", "b.rego:1")] {
        let files = texts(&[("a.rego", "package fettle.submit\ndeny contains \"x\" if false"), ("b.rego", text)]);
        let error = compile(&files, LIMIT).err().unwrap().to_string();
        assert!(error.contains(place), "{error}");
    }
    let without = compile(&texts(&[("a.rego", "package fettle.submit\nallow := true")]), LIMIT).err().unwrap();
    assert!(without.to_string().contains("deny"), "{without}");
}

#[test]
fn a_directory_that_says_nothing_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    assert!(matches!(Rego::load(directory.path()).err().unwrap(), RegoError::Empty(_)));
    assert!(matches!(Rego::load(&directory.path().join("none")).err().unwrap(), RegoError::Read { .. }));
    std::fs::write(directory.path().join("a_test.rego"), "package fettle.submit\nno rego").unwrap();
    assert!(matches!(Rego::load(directory.path()).err().unwrap(), RegoError::Empty(_)), "tests are no policies");
    std::fs::write(directory.path().join("a.rego"), "package elsewhere\nx := 1").unwrap();
    assert!(matches!(Rego::load(directory.path()).err().unwrap(), RegoError::Nothing(_)));
}

#[tokio::test]
async fn a_decision_names_every_file_by_digest() {
    let text = "package fettle.submit\ndeny contains \"x\" if false";
    let files = texts(&[("a.rego", text), ("b.rego", "package helpers\nx := 1")]);
    let rego = Rego { loaded: compile(&files, LIMIT).unwrap() };
    let verdict = rego.decide(Entry::Submit, &json!({})).await;
    let names: Vec<_> = verdict.taken.files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["a.rego", "b.rego"]);
    assert_eq!(verdict.taken.files[0].digest, Digest::of(text.as_bytes()).to_string());
    assert_eq!(verdict.taken.query, "data.fettle.submit.deny");
    assert!(verdict.broken.is_empty());
}

/// The policies that are published with the plane.
fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../policies/rego")
}

#[test]
fn the_tests_beside_each_policy_hold() {
    let mut engine = Engine::new();
    let (mut rules, mut policies, mut tested) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for entry in std::fs::read_dir(shipped()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if !name.ends_with(".rego") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let package = engine.add_policy(name.clone(), text.clone()).unwrap();
        match name.strip_suffix("_test.rego") {
            Some(policy) => {
                tested.insert(policy.to_owned());
                let names = text.lines().filter(|line| line.starts_with("test_"));
                rules.extend(names.map(|line| format!("{package}.{}", line.split_whitespace().next().unwrap())));
            }
            None => {
                policies.insert(name.trim_end_matches(".rego").to_owned());
            }
        }
    }
    assert_eq!(policies, tested, "each policy has tests in a file of its name with `_test`");
    assert!(rules.len() >= 6, "{rules:?}");
    for rule in rules {
        assert_eq!(engine.eval_rule(rule.clone()).unwrap(), Value::Bool(true), "{rule}");
    }
}

#[tokio::test]
async fn the_shipped_policies_decide_about_tasks() {
    let rego = Rego::load(&shipped()).unwrap();
    let time = |text: &str| crate::policy::input::TimeInput::of(text.parse().unwrap());
    let project = crate::policy::input::ProjectInput { org_id: "default".to_owned(), project_id: "demo".to_owned() };
    let input = |operation_type: &str, now: &str, running_tasks| crate::policy::input::DispatchInput {
        operation: crate::policy::input::OperationInput {
            operation_type: operation_type.to_owned(),
            version: "v1".to_owned(),
            inputs: json!({}),
        },
        operation_id: "01ARZ3NDEKTSV4RRFFQ69G5FAV".to_owned(),
        project: project.clone(),
        node: crate::policy::input::NodeInput {
            id: "01ARZ3NDEKTSV4RRFFQ69G5FAV".to_owned(),
            name: "node-a".to_owned(),
            capabilities: BTreeMap::new(),
            slots: 4,
            running_tasks,
            owner: None,
        },
        requested_by: "token:01ARZ3NDEKTSV4RRFFQ69G5FAV:somebody".to_owned(),
        accepted_at: time("2026-11-20T10:00:00Z"),
        at: time(now),
    };
    let stage = input("model.artifact.stage", "2026-11-20T11:00:00Z", 3);
    assert_eq!(dispatch::decide(&rego, &stage).await, DispatchDecision::Go);
    let alone = input("gpu.host.bootstrap", "2026-11-20T11:00:00Z", 1);
    let DispatchDecision::Wait { broken, taken } = dispatch::decide(&rego, &alone).await else {
        panic!("a node with other tasks is bootstrapped");
    };
    assert_eq!((broken[0].rule.as_str(), taken.query.as_str()), ("fettle.dispatch.deny", "data.fettle.dispatch.deny"));
    let idle = input("gpu.host.bootstrap", "2026-11-20T11:00:00Z", 0);
    assert_eq!(dispatch::decide(&rego, &idle).await, DispatchDecision::Go);
    assert_eq!(dispatch::decide(&Rego::default(), &alone).await, DispatchDecision::Go);
}
