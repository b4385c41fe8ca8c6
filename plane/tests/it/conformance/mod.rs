//! Schemathesis, a fuzzer of APIs, against the description that the plane serves: no 5xx, no answer that is not
//! described, no wrong data accepted. What it checks is in `schemathesis.toml` beside this file.

mod world;

use std::{
    path::{Path, PathBuf},
    process::Output,
};

use fettle_plane::administration::{Access, ProjectRole};
use serde_json::{Value, json};

use self::world::World;
use crate::support::{in_project, plane_with};

/// Where `cargo xtask test` puts it.
fn program() -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"), PathBuf::from);
    let program = target.join("tools/schemathesis/bin/schemathesis");
    if program.is_file() {
        return Some(program);
    }
    assert!(std::env::var_os("FETTLE_TEST_ALL").is_none(), "{} is missing; run `cargo xtask test`", program.display());
    println!("skipped: {} is missing; `cargo xtask test` installs it", program.display());
    None
}

/// The configuration, with what only this plane has in it.
fn configuration(world: &World) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/conformance/schemathesis.toml");
    let text = std::fs::read_to_string(path).unwrap();
    world.names().iter().fold(text, |text, (name, value)| text.replace(name, value))
}

async fn run(program: &Path, world: &World, token: &str, arguments: &[&str]) -> Output {
    run_on(program, world, token, &world.plane.url("/api/v1/openapi.json"), arguments).await
}

/// The same with the description from somewhere else.
async fn run_on(program: &Path, world: &World, token: &str, description: &str, arguments: &[&str]) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("schemathesis.toml");
    std::fs::write(&config, configuration(world)).unwrap();
    tokio::process::Command::new(program)
        .arg("--config-file")
        .arg(&config)
        .arg("run")
        .arg(description)
        .args(arguments)
        .env("TOKEN", token)
        .env("NO_PROXY", "*")
        .current_dir(directory.path())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap()
}

fn content(who: &str, output: &Output) {
    let said = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    let (said, short) = (said.join("\n"), 20_000);
    let begin = said.char_indices().rev().nth(short).map_or(0, |(at, _)| at);
    assert!(output.status.success(), "as {who}: {}", &said[begin..]);
    println!(
        "as {who}: {}",
        said.lines().rev().take(12).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fuzzer_finds_nothing_against_the_description() {
    let Some(program) = program() else { return };
    let plane = plane_with(|config| {
        config.rate_limit = None;
        config.lockout = None;
        config.metrics_listen = Some(([127, 0, 0, 1], 0).into());
    })
    .await;
    let world = World::make(plane).await;
    let admin = world.plane.admin.clone();
    content("platform administrator", &run(&program, &world, &admin, &[]).await);
    let viewer = world.plane.token("viewer", in_project("demo", ProjectRole::Viewer)).await;
    let tenant = world.plane.token("tenant", Access::TenantAdmin { org_id: "default".parse().unwrap() }).await;
    for (who, token) in [("project viewer", viewer), ("tenant administrator", tenant)] {
        let short = ["--phases", "examples,fuzzing", "--max-examples", "6"];
        content(who, &run(&program, &world, &token, &short).await);
    }
    every_endpoint_was_reached(&world).await;
}

/// Refusals alone would show little: each endpoint has done its work for somebody.
async fn every_endpoint_was_reached(world: &World) {
    let address = world.plane.running.metrics_address().unwrap();
    let metrics = world.plane.http.get(format!("http://{address}/metrics")).send().await.unwrap().text().await.unwrap();
    let reached = |method: &str, path: &str| {
        let endpoint = format!("endpoint=\"{path}\"");
        metrics.lines().any(|line| {
            let of = line.starts_with("fettle_requests_total{") && line.contains(&endpoint);
            of && line.contains(&format!("method=\"{method}\"")) && line.contains("status=\"2")
        })
    };
    let url = world.plane.url("/api/v1/openapi.json");
    let description: Value = world.plane.http.get(url).send().await.unwrap().json().await.unwrap();
    let mut missed = Vec::new();
    for (path, item) in description["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys().filter(|name| *name != "parameters") {
            if !reached(&method.to_uppercase(), path) {
                missed.push(format!("{method} {path}"));
            }
        }
    }
    assert!(missed.is_empty(), "nothing ever succeeded at {missed:?}; see `schemathesis.toml`");
}

/// Makes a part of the description say what is not so.
type Lie = fn(&mut Value);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fuzzer_finds_what_a_description_does_not_say() {
    let Some(program) = program() else { return };
    let world = World::make(plane_with(|config| config.rate_limit = None).await).await;
    let url = world.plane.url("/api/v1/openapi.json");
    let honest: Value = world.plane.http.get(url).send().await.unwrap().json().await.unwrap();
    let project = "/paths/~1api~1v1~1projects~1{project}~1node-groups~1{group}/get/responses";
    let lies: [(&str, Lie); 3] = [
        (project, |responses| drop(responses.as_object_mut().unwrap().remove("404"))),
        ("/components/schemas/NodeView/required", |required| *required = json!(["never_there"])),
        ("/paths/~1api~1v1~1nodes/get/parameters", |parameters| {
            for parameter in parameters.as_array_mut().unwrap() {
                parameter["schema"] = json!({ "enum": ["nothing that is ever taken"] });
                parameter["example"] = json!("nothing that is ever taken");
            }
        }),
    ];
    let directory = tempfile::tempdir().unwrap();
    let base = world.plane.url("");
    let only = ["--url", &base, "--max-examples", "10", "--include-path-regex", "(nodes|node-groups/.group.)$"];
    for (number, (pointer, lie)) in lies.into_iter().enumerate() {
        let mut description = honest.clone();
        lie(description.pointer_mut(pointer).unwrap());
        let file = directory.path().join(format!("{number}.json"));
        std::fs::write(&file, description.to_string()).unwrap();
        let output = run_on(&program, &world, &world.plane.admin, file.to_str().unwrap(), &only).await;
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.code() == Some(1) && said.contains("Failures:"), "{pointer}: {said}");
    }
}
