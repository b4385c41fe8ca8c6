//! Versions of a definition from draft to retired.

use super::workbench::{DEFINITION, Workbench};

async fn status(bench: &Workbench, name: &str) -> String {
    bench.json(&["definition", "show", name]).await["status"].as_str().unwrap().to_owned()
}

async fn submit(bench: &Workbench, name: &str) -> (i32, String) {
    let output = bench.run(&["operation", "submit", name, "-i", "mode=log"]).await;
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_is_drafted_published_deprecated_and_retired() {
    let bench = Workbench::start().await;
    bench.register().await;
    let sources = bench.json(&["definition", "show", "try.it@v1"]).await["sources"].clone();
    let source = |name: &str| sources[name].as_str().unwrap().to_owned();
    let (catalog, policy) = (source("catalog"), source("policy"));
    let text = bench.write("next.yaml", &DEFINITION.replace("version: v1", "version: v2"));
    let next = bench.say(&["definition", "publish", &text]).await;
    let said = bench.say(&["definition", "apply", &next, "--catalog", &catalog, "--policy", &policy, "--draft"]).await;
    assert_eq!(said, "try.it@v2 is registered, and is draft");
    let (code, error) = submit(&bench, "try.it@v2").await;
    assert!(code == 3 && error.contains("try.it@v2 is draft"), "{code}: {error}");
    assert_eq!(bench.say(&["definition", "amend", "try.it@v2", "--publish"]).await, "try.it@v2 is published");
    assert_eq!(submit(&bench, "try.it@v2").await.0, 0);
    assert_eq!(bench.say(&["definition", "deprecate", "try.it@v1"]).await, "try.it@v1 is deprecated");
    let (code, warning) = submit(&bench, "try.it@v1").await;
    let told = "warning: try.it@v1 is deprecated and will go; move on to try.it@v2\n";
    assert_eq!((code, warning.as_str()), (0, told), "what is deprecated can be used");
    assert_eq!(bench.say(&["definition", "retire", "try.it@v1"]).await, "try.it@v1 is retired");
    let (code, error) = submit(&bench, "try.it@v1").await;
    assert!(code == 3 && error.contains("try.it@v1 is retired"), "{code}: {error}");
    let (_, _, error) = bench.fail(&["definition", "amend", "try.it@v2", "--policy", &policy]).await;
    assert!(error.contains("try.it@v2 is published; only a draft can be amended"), "{error}");
    assert_eq!(status(&bench, "try.it@v1").await, "retired");
    assert_eq!(status(&bench, "try.it@v2").await, "published");
    bench.running.stop().await.unwrap();
}
