//! `docs/how-to/write-a-step.md` works when it is pasted: its blocks are run, in order, in one shell,
//! beside a registry.

use std::{fs, process::Command};

use fettle_cli::dev::{self, Options};

use super::{OTHERS, built_before, root, text};

/// What is shown, in this order.
const SHOWN: [&str; 7] = [
    "holds acme.node.greeting@v1",
    "test result: ok",
    "ways covered",
    "kind       acme.node.greeting@v1",
    "asked for",
    "fettle:files/files",
    "/steps/acme.node.greeting@sha256:",
];

#[tokio::test(flavor = "multi_thread")]
async fn writing_a_step_works_when_it_is_pasted() {
    let document = fs::read_to_string(root().join("docs/how-to/write-a-step.md")).unwrap();
    let blocks = document.split("```sh\n").skip(1).map(|rest| rest.split_once("```").unwrap().0);
    // That one compiles everything again; `building.rs` tries it on less.
    let blocks: Vec<&str> = blocks.filter(|block| !block.contains("--check-reproducible")).collect();
    assert!(blocks.len() > 4, "{blocks:?}");
    // What dependencies were built to is kept from run to run.
    let keep = format!("ln -s {} target\n", built_before().display());
    let script = format!("set -euo pipefail\n{}{keep}{}", blocks[0], blocks[1..].concat());
    let directory = tempfile::tempdir().unwrap();
    let running = dev::start(Options::new(directory.path().join("state"))).await.unwrap();
    let programs = std::path::Path::new(env!("CARGO_BIN_EXE_fettle")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", "900", "bash", "-c", &script]).current_dir(directory.path());
    for name in OTHERS {
        command.env_remove(name);
    }
    command.env("PATH", path).env("FETTLE", root()).env("FETTLE_CONTEXT", &running.context_path);
    command.env("CARGO_NET_OFFLINE", "true").stdin(std::process::Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    running.stop().await.unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut rest = shown.as_str();
    for expected in SHOWN {
        let Some((_, after)) = rest.split_once(expected) else { panic!("`{expected}` is not shown in:\n{rest}") };
        rest = after;
    }
}
