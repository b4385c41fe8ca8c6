//! The whole path in one process: `fettle dev`, then publish, check, apply, submit, watch.
//!
//! The commands run as programs of their own, as people start them; everything listens on free ports.

mod lives;
mod node_sets;
mod replays;
mod workbench;

use fettle_cli::dev::{self, Options};
use serde_json::{Value, json};

use self::workbench::{DEFINITION, Workbench, component};

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_is_published_submitted_and_watched() {
    let bench = Workbench::start().await;
    bench.register().await;

    let plan = bench.say(&["operation", "plan", "try.it@v1", "-i", "mode=log"]).await;
    assert!(plan.contains("1. first  noop@v1") && plan.contains("2. second  testing.misbehave@v1"), "{plan}");
    assert!(plan.lines().all(|line| line.chars().count() <= 80), "{plan}");
    for words in [
        "exec       allowed",
        "asked    runs the command profile that the test names",
        "granted  profiles hello",
        "node     profiles hello",
        "policy      127.0.0.1",
        "  signed by ",
    ] {
        assert!(plan.contains(words), "no `{words}` in:\n{plan}");
    }

    let watched = bench.say(&["operation", "submit", "try.it@v1", "-i", "mode=log", "--watch"]).await;
    let told = |words: &str| assert!(watched.contains(words), "no `{words}` in:\n{watched}");
    told("first   started");
    told("second  | a line");
    told("second  succeeded in");
    told("operation completed");
    told("2 steps, 2 unchanged");

    let listed = bench.json(&["operation", "list"]).await;
    let id = listed[0]["operation_id"].as_str().unwrap();
    let shown = bench.json(&["operation", "show", id]).await;
    assert_eq!((&shown["status"], &shown["steps"][1]["output"]), (&json!("succeeded"), &json!({"answer": 3})));
    let logs = bench.say(&["operation", "logs", id, "--step", "second"]).await;
    assert_eq!(logs.lines().filter(|line| line.ends_with("second  | a line")).count(), 3, "{logs}");
    let followed = bench.say(&["operation", "logs", id, "--follow", "--step", "second"]).await;
    assert_eq!(followed, logs);

    let (code, told, _) =
        bench.fail(&["operation", "submit", "try.it@v1", "-i", "mode=fail", "--watch", "--json"]).await;
    assert_eq!(code, 1, "{told}");
    let last: Value = serde_json::from_str(told.lines().last().unwrap()).unwrap();
    assert_eq!(last["operation"]["failure"]["code"], "testing.asked-for", "{told}");
    bench.running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_told_with_place_code_and_exit_code() {
    let bench = Workbench::start().await;
    bench.register().await;

    let (code, _, error) = bench.fail(&["operation", "submit", "try.it@v1", "-i", "mode=3", "-i", "more=1"]).await;
    assert_eq!(code, 3, "{error}");
    assert!(error.contains("/inputs/mode") && error.contains("code: request.invalid"), "{error}");

    let (code, _, error) = bench.fail(&["operation", "show", "nothing"]).await;
    assert_eq!(code, 4, "{error}");
    assert!(error.contains("code: operation.unknown") && error.contains("help: `fettle operation list`"), "{error}");

    let id = bench.say(&["operation", "submit", "try.it@v1", "-i", "mode=ok"]).await;
    bench.say(&["operation", "watch", &id]).await;
    let (code, _, error) = bench.fail(&["operation", "cancel", &id]).await;
    assert_eq!(code, 8, "{error}");

    let (code, _, error) = bench.fail(&["node", "list", "--plane", "http://127.0.0.1:1"]).await;
    assert_eq!(code, 2, "a token went to another plane: {error}");
    let token = bench.write("token", "wrong");
    let (code, _, error) = bench.fail(&["node", "list", "--token-file", &token]).await;
    assert_eq!(code, 5, "{error}");
    let (code, _, error) = bench.fail(&["node", "list", "--plane", "http://127.0.0.1:1", "--token-file", &token]).await;
    assert_eq!(code, 6, "{error}");
    assert!(error.contains("http://127.0.0.1:1 does not answer: Connection refused"), "{error}");
    assert!(error.contains("start the plane"), "{error}");

    let cycle = bench.write("cycle.yaml", &DEFINITION.replace("{id: first, uses", "{id: first, needs: [second], uses"));
    let (code, _, error) = bench.fail(&["definition", "publish", &cycle]).await;
    assert_eq!(code, 3, "{error}");
    assert!(error.contains("/steps: the steps need each other in a cycle"), "{error}");
    let unknown = bench.write("unknown.yaml", &DEFINITION.replace("backend_type", "backend"));
    let (code, _, error) = bench.fail(&["definition", "publish", &unknown]).await;
    assert_eq!(code, 3, "{error}");
    assert!(error.contains("unknown.yaml") && error.contains("unknown field `backend`"), "{error}");
    bench.running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_is_printed_and_is_the_exit_code() {
    let bench = Workbench::start().await;
    let noop = component("noop");
    let noop = noop.to_str().unwrap();
    let trusted = bench.say(&["step", "publish", noop]).await;
    assert!(bench.say(&["step", "verify", &trusted]).await.starts_with("TRUSTED: "));
    bench.say(&["key", "generate", "--output", "other"]).await;
    let (code, told, _) = bench.fail(&["step", "verify", &trusted, "--trust", "other.trust.yaml"]).await;
    assert_eq!(code, 5, "{told}");
    assert!(told.starts_with("UNTRUSTED: "), "{told}");
    let unsigned = bench.say(&["artifact", "push", "models/one", noop]).await;
    let (code, told, _) = bench.fail(&["step", "verify", &unsigned]).await;
    assert_eq!(code, 5, "{told}");
    assert!(told.starts_with("UNSIGNED: "), "{told}");
    let missing = format!("{}@sha256:{}", trusted.split('@').next().unwrap(), "0".repeat(64));
    let (code, told, _) = bench.fail(&["step", "verify", &missing, "--json"]).await;
    assert_eq!(code, 4, "{told}");
    assert_eq!(serde_json::from_str::<Value>(&told).unwrap()["verdict"], "UNAVAILABLE");

    let inspected = bench.say(&["step", "inspect", &trusted]).await;
    assert!(inspected.contains("kind        noop@v1") && inspected.contains("inert"), "{inspected}");
    let garbage = bench.write("garbage.wasm", "\0asm");
    let (code, _, error) = bench.fail(&["step", "publish", &garbage]).await;
    assert_eq!(code, 3, "{error}");
    bench.running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_development_system_starts_again_where_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options::new(directory.path().join("state"));
    let first = dev::start(options.clone()).await.unwrap();
    let context = first.context.clone();
    let second = dev::start(options.clone()).await.err().unwrap();
    let causes = format!("{:?}", anyhow::Error::new(second));
    assert!(causes.contains("another `fettle dev` runs on"), "{causes}");
    first.stop().await.unwrap();
    let again = dev::start(options).await.unwrap();
    assert_eq!(again.context, context, "addresses, token or keys changed");
    again.stop().await.unwrap();
}
