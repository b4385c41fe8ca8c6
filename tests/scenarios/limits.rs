//! Limits of attempts, as a policy bundle and a definition set them.

use fettle_tests::{Fleet, Supply, fleet::step};
use serde_json::json;

use crate::{POLICY, PROGRAMS, RENDER};

/// What became of rendering a file under these limits of the bundle and of the step.
async fn render(bundle: &str, of_step: &str) -> serde_json::Value {
    let supply = Supply::with(&["file-render", "noop"]).await;
    let fleet = Fleet::start(PROGRAMS, &supply.trust).await;
    let definition = RENDER.replacen("    grants:", &format!("    limits: {of_step}\n    grants:"), 1);
    let policy = format!("{POLICY}limits: {bundle}\n");
    fleet.register(&supply.publish(&definition, &policy).await).await;
    fleet.run("test.render", &json!({"text": "x"})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_and_a_definition_limit_attempts_and_a_definition_raises_nothing() {
    for (bundle, of_step, code, amount) in [
        ("{ host_calls: 1 }", "{}", "limit.host-calls", "1 calls"),
        ("{}", "{ host_calls: 2 }", "limit.host-calls", "2 calls"),
        ("{ host_calls: 1 }", "{ host_calls: 1000 }", "limit.host-calls", "1 calls"),
        ("{ memory_bytes: 1048576 }", "{}", "limit.memory", "1 MiB"),
    ] {
        let operation = render(bundle, of_step).await;
        let failure = &step(&operation, "render")["failure"];
        assert_eq!(failure["code"], code, "{bundle} {of_step}: {operation:#}");
        assert!(failure["message"].as_str().unwrap().contains(amount), "{failure:#}");
    }
    let allowed = render("{ memory_bytes: 536870912 }", "{ host_calls: 1000, processor_seconds: 5 }").await;
    assert_eq!(allowed["status"], "succeeded", "{allowed:#}");
}
