//! `.github/workflows/step.yml` of a new step works: each of its `run:` lines is run, in order, in a fresh
//! checkout, as the service would run it.
//!
//! Three things are stood in for. Checking out and passing files from job to job is done here. Installing
//! a program from elsewhere takes minutes and a network, so a `cargo` that stands before the real one
//! checks the line and puts the `fettle` of this build in place. Where there is no cargo-component, that
//! `cargo` builds with the toolchain alone. And `--check-reproducible`, which compiles everything again, is
//! left out: `building.rs` tries it on less.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use fettle_cli::dev::{self, Options, Running};
use serde_json::Value;

use super::{built_before, fettle, make, program, run, text};

/// Stands before the real cargo on the path.
const CARGO: &str = r#"#!/bin/sh
set -eu
STAND_INS=@STAND_INS@ FETTLE_BUILT=@FETTLE_BUILT@ REAL_CARGO=@REAL_CARGO@
case "$1" in
install)
    echo "$*" | grep -q -e --locked
    case "$*" in
    *" fettle-cli") echo "$*" | grep -q -e '--git [^ ][^ ]* --rev [0-9a-f]'; ln -sf "$FETTLE_BUILT" "$STAND_INS/fettle" ;;
    "install cargo-component --version "*) ;;
    *) echo "nobody expected: cargo $*" >&2; exit 1 ;;
    esac ;;
component)
    if command -v cargo-component >/dev/null; then exec "$REAL_CARGO" "$@"; fi
    shift
    exec "$REAL_CARGO" "$@" --target wasm32-wasip2 ;;
*) exec "$REAL_CARGO" "$@" ;;
esac
"#;

/// Where the lines are run, and what the service would say.
struct Runner<'a> {
    directory: &'a Path,
    registry: &'a str,
    key: String,
}

impl Runner<'_> {
    /// What stands for an expression.
    fn value(&self, expression: &str) -> String {
        match expression {
            "vars.FETTLE_SOURCE" => "https://git.example.com/fettle".to_owned(),
            "vars.FETTLE_REVISION" => "0123abc".to_owned(),
            "vars.FETTLE_REPOSITORY" => format!("{}/steps/published", self.registry),
            "secrets.FETTLE_KEY" => self.key.clone(),
            "secrets.FETTLE_KEY_PASSWORD" => "a password".to_owned(),
            "github.server_url" => "https://git.example.com".to_owned(),
            "github.workflow_ref" => "acme/step/.github/workflows/step.yml@refs/tags/v1".to_owned(),
            other => panic!("the workflow uses `{other}`, which nobody set"),
        }
    }

    /// Text with all of its expressions filled in.
    fn filled(&self, text: &str) -> String {
        let mut parts = text.split("${{");
        let mut filled = parts.next().unwrap().to_owned();
        for part in parts {
            let (expression, rest) = part.split_once("}}").unwrap();
            filled.push_str(&self.value(expression.trim()));
            filled.push_str(rest);
        }
        filled
    }

    /// Runs one step of a job, as `bash` is run there.
    fn step(&self, checkout: &Path, workflow: &Value, step: &Value) -> String {
        let Some(line) = step["run"].as_str() else { return String::new() };
        let line = self.filled(line).replace(" --check-reproducible", "");
        let mut command = program("bash", checkout, &["-e", "-o", "pipefail", "-c", &line]);
        for variables in [&workflow["env"], &step["env"]].into_iter().filter_map(Value::as_object) {
            for (name, value) in variables {
                command.env(name, self.filled(value.as_str().unwrap()));
            }
        }
        self.set(&mut command);
        run(command)
    }

    fn set(&self, command: &mut Command) {
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", self.directory.join("bin").display()));
        command.env("RUNNER_TEMP", self.directory.join("temporary"));
    }
}

/// A commit of a new step, checked out afresh for each job.
fn checkout(directory: &Path, job: &str) -> PathBuf {
    let step = directory.join("published");
    let there = directory.join(job);
    run(program("git", directory, &["clone", "--quiet", step.to_str().unwrap(), there.to_str().unwrap()]));
    there
}

fn committed(directory: &Path) {
    let step = make(directory, "published", &[]);
    for arguments in [
        &["init", "--quiet"][..],
        &["add", "--all"],
        &["-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "--message", "One."],
    ] {
        run(program("git", &step, arguments));
    }
}

/// What `upload-artifact` takes, as `download-artifact` puts it: without the directories that all have.
fn pass_on(workflow: &Value, from: &Path, to: &Path) {
    let uploads = workflow["jobs"]["build"]["steps"].as_array().unwrap().iter();
    let upload = uploads.filter(|step| step["uses"].as_str().is_some_and(|uses| uses.starts_with("actions/upload")));
    for path in upload.flat_map(|step| step["with"]["path"].as_str().unwrap().lines()) {
        fs::create_dir_all(to.join("component")).unwrap();
        let file = from.join(path);
        fs::copy(&file, to.join("component").join(file.file_name().unwrap())).unwrap();
    }
}

/// Runs every line of both jobs, and answers what the last one printed.
fn run_all(runner: &Runner<'_>) -> String {
    let build = checkout(runner.directory, "build");
    let publish = checkout(runner.directory, "publish");
    // What dependencies were built to is kept from run to run.
    std::os::unix::fs::symlink(built_before(), build.join("target")).unwrap();
    let content = fs::read_to_string(build.join(".github/workflows/step.yml")).unwrap();
    let workflow: Value = fettle_model::document::read(&content).unwrap();
    let mut lines = 0;
    let mut last = String::new();
    for (job, place) in [("build", &build), ("publish", &publish)] {
        if job == "publish" {
            pass_on(&workflow, &build, &publish);
        }
        for step in workflow["jobs"][job]["steps"].as_array().unwrap() {
            last = runner.step(place, &workflow, step);
            lines += usize::from(step["run"].is_string());
        }
    }
    assert_eq!(lines, content.matches("run:").count(), "a line was not run");
    last
}

/// Written out, for no variable of the test reaches what `fettle step build` starts.
fn put_before_cargo(stand_ins: &Path) {
    let path = std::env::var_os("PATH").unwrap();
    let real = std::env::split_paths(&path).map(|place| place.join("cargo")).find(|cargo| cargo.is_file()).unwrap();
    let script = CARGO
        .replace("@STAND_INS@", stand_ins.to_str().unwrap())
        .replace("@FETTLE_BUILT@", env!("CARGO_BIN_EXE_fettle"))
        .replace("@REAL_CARGO@", real.to_str().unwrap());
    fs::write(stand_ins.join("cargo"), script).unwrap();
    fs::set_permissions(stand_ins.join("cargo"), fs::Permissions::from_mode(0o755)).unwrap();
}

fn prepared<'a>(directory: &'a Path, running: &'a Running) -> Runner<'a> {
    for name in ["bin", "temporary"] {
        fs::create_dir(directory.join(name)).unwrap();
    }
    put_before_cargo(&directory.join("bin"));
    let mut key = fettle(directory, &["key", "generate", "--output", "ci"]);
    key.env("FETTLE_KEY_PASSWORD", "a password");
    run(key);
    let key = fs::read_to_string(directory.join("ci.key")).unwrap();
    committed(directory);
    Runner { directory, registry: running.context.registry.as_deref().unwrap(), key }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_line_of_the_workflow_runs_and_publishes_what_verifies() {
    let directory = tempfile::tempdir().unwrap();
    let running = dev::start(Options::new(directory.path().join("state"))).await.unwrap();
    tokio::task::block_in_place(|| {
        let here = directory.path();
        let published = run_all(&prepared(here, &running));
        let reference = published.trim();
        assert!(reference.contains("/steps/published@sha256:"), "{published}");
        let verify = ["step", "verify", reference, "--trust", "ci.trust.yaml", "--attestations"];
        let verified = run(fettle(here, &verify));
        assert!(verified.contains("https://git.example.com/acme/step"), "who built it is not told: {verified}");
        // The key was in a file while it was used, which only its owner could read.
        let mode = fs::metadata(here.join("temporary/step.key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0);
        a_line_that_fails_stops_it(here, &running);
    });
    running.stop().await.unwrap();
}

/// Without its secret nothing is published: the lines do not go on after one that failed.
fn a_line_that_fails_stops_it(here: &Path, running: &Running) {
    let runner = Runner { directory: here, registry: running.context.registry.as_deref().unwrap(), key: String::new() };
    let content = fs::read_to_string(here.join("publish/.github/workflows/step.yml")).unwrap();
    let workflow: Value = fettle_model::document::read(&content).unwrap();
    let last = workflow["jobs"]["publish"]["steps"].as_array().unwrap().last().unwrap();
    let mut command =
        program("bash", &here.join("publish"), &["-e", "-c", &runner.filled(last["run"].as_str().unwrap())]);
    runner.set(&mut command);
    command.env("FETTLE_KEY_PEM", "");
    let output = command.output().unwrap();
    assert!(!output.status.success(), "{}", text(&output));
}
