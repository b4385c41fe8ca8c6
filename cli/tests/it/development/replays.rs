//! `fettle step replay --data`: attempts straight from what a host keeps.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::workbench::{Workbench, component};

/// What the host of a development system keeps.
fn data(bench: &Workbench) -> PathBuf {
    bench.directory.path().join("state/host")
}

/// Everything below a directory but the database, by path: its content.
fn everything(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            found.push((path.clone(), Vec::new()));
            found.extend(everything(&path));
        } else if !path.file_name().unwrap().to_str().unwrap().starts_with("journal.sqlite") {
            found.push((path.clone(), fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

/// Runs `try.it@v1` once well and once badly, and answers the ids.
async fn ran(bench: &Workbench) -> [String; 2] {
    let mut ids = Vec::new();
    for mode in ["mode=log", "mode=fail"] {
        let id = bench.say(&["operation", "submit", "try.it@v1", "-i", mode]).await;
        bench.run(&["operation", "watch", &id]).await;
        ids.push(id);
    }
    ids.try_into().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_are_replayed_straight_from_what_a_host_keeps() {
    let bench = Workbench::start().await;
    bench.register().await;
    let [well, badly] = ran(&bench).await;
    let data = data(&bench);
    let here = data.to_str().unwrap();
    let before = everything(&data.join("artifacts"));
    let replay = ["step", "replay", "--data", here];
    let of = |more: &[&'static str]| [&replay[..], more].concat();

    // One attempt, with the component that the host keeps.
    let one = bench.json(&[&replay[..], &["--operation", &badly, "--step", "second"]].concat()).await;
    assert_eq!((one["verdict"].as_str(), one["attempt"]["operation_id"].as_str()), (Some("SAME"), Some(&*badly)));
    let said = bench.say(&[&replay[..], &["--operation", &well, "--step", "second", "--attempt", "1"]].concat()).await;
    assert!(said.contains(&well) && said.contains("SAME: ") && said.lines().count() == 2, "{said}");

    // Several are listed, none is a plain word.
    let (code, _, error) = bench.fail(&of(&["--step", "second"])).await;
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("2 attempts match") && error.contains(&well) && error.contains(&badly), "{error}");
    for (more, words) in [(of(&["--step", "nothing"]), "cassettes list"), (of(&["--attempt", "7"]), "no attempt")] {
        let (code, _, error) = bench.fail(&more).await;
        assert_eq!(code, 4, "{error}");
        assert!(error.contains(words), "{error}");
    }

    // All of them, also with another component of the kind.
    let all = bench.say(&of(&["--all"])).await;
    assert!(all.ends_with("4 attempts: 4 same, 0 different, 0 untried"), "{all}");
    assert!(all.lines().all(|line| line.chars().count() <= 80), "{all}");
    let testing = component("testing");
    let with = [&replay[..], &["--all", "--component", testing.to_str().unwrap()]].concat();
    let listed = bench.json(&with).await;
    assert_eq!((listed["same"].as_u64(), listed["attempts"].as_array().unwrap().len()), (Some(2), 2));

    assert_eq!(everything(&data.join("artifacts")), before, "a replay changed what the host keeps");
    a_component_that_is_not_kept_is_said(&bench, &data, &badly).await;
    bench.running.stop().await.unwrap();
}

/// A file of the store counts for its digest only, and without it nothing is guessed.
async fn a_component_that_is_not_kept_is_said(bench: &Workbench, data: &Path, id: &str) {
    let content = fs::read(component("testing")).unwrap();
    let blobs = data.join("artifacts/blobs/sha256");
    let kept = blobs.join(fettle_model::digest::Digest::of(&content).hex());
    let other = fs::read(component("noop")).unwrap();
    fs::write(&kept, other).unwrap();
    let here = data.to_str().unwrap();
    let one = ["step", "replay", "--data", here, "--operation", id, "--step", "second"];
    let (code, _, error) = bench.fail(&one).await;
    assert_eq!(code, 4, "{error}");
    assert!(error.contains("does not keep the component sha256:") && error.contains("--component"), "{error}");
    assert!(kept.exists(), "a replay changed what the host keeps");
    let all = bench.run(&["step", "replay", "--data", here, "--all", "--json"]).await;
    assert_eq!(all.status.code(), Some(1));
    let all: Value = serde_json::from_slice(&all.stdout).unwrap();
    assert_eq!((all["same"].as_u64(), all["untried"].as_u64()), (Some(2), Some(2)), "{all}");
    // With the component from elsewhere it goes on.
    bench.json(&[&one[..], &["--component", component("testing").to_str().unwrap()]].concat()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_to_be_replayed_is_said_in_one_way() {
    let bench = Workbench::start().await;
    let nowhere = bench.directory.path().join("nowhere");
    let nowhere = nowhere.to_str().unwrap();
    for (arguments, expected, words) in [
        (&["step", "replay"][..], 2, "--data"),
        (&["step", "replay", "a.cassette"], 2, "--component"),
        (&["step", "replay", "a.cassette", "--all"], 2, "--data"),
        (&["step", "replay", "a.cassette", "--data", nowhere, "--component", "x"], 2, "cannot be used with"),
        (&["step", "replay", "--data", nowhere, "--all"], 4, "holds no journal of a host"),
    ] {
        let (code, _, error) = bench.fail(arguments).await;
        assert_eq!(code, expected, "{error}");
        assert!(error.contains(words), "no `{words}` in: {error}");
    }
    bench.running.stop().await.unwrap();
    assert!(!Path::new(nowhere).exists(), "a directory was made");
}
