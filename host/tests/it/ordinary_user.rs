//! What a host does for an ordinary user: everything that the kernel allows, and a sentence for the rest.
//! Where the tests run as root, they start themselves again as `nobody`.

use std::{
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::Path,
    process::{Command, Output},
};

use crate::common::{self, TestNode};
use fettle_model::failure::FailureClass;
use serde_json::{Value, json};

const GRANT: &str = "{exec: {profiles: [hello, root, forever]}, files: {write: [data]}, facts: {read: []}, gpu: {}}";

/// Makes a command an ordinary user's, if it is not already.
fn as_ordinary_user(command: &mut Command) -> &mut Command {
    if rustix::process::geteuid().is_root() {
        let nobody = nix::unistd::User::from_name("nobody").unwrap().unwrap();
        command.uid(nobody.uid.as_raw()).gid(nobody.gid.as_raw());
    }
    command
}

/// A directory that any user may write to.
fn open_directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    directory
}

fn check(command: &mut Command, data: &Path) -> (Output, Value) {
    let output = command.args(["check", "--json", "--data"]).arg(data).output().unwrap();
    let findings = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    (output, findings)
}

fn state<'a>(findings: &'a Value, name: &str) -> (&'a str, &'a str) {
    let finding = findings.as_array().unwrap().iter().find(|finding| finding["name"] == name).unwrap();
    (finding["state"].as_str().unwrap(), finding["message"].as_str().unwrap())
}

#[test]
fn a_check_says_what_an_ordinary_user_cannot_do_and_its_exit_code_how_bad_that_is() {
    let directory = open_directory();
    let mut host = Command::new(env!("CARGO_BIN_EXE_fettle-host"));
    let (output, findings) = check(as_ordinary_user(&mut host), directory.path());
    for needed in ["openat2", "no_new_privileges", "closed_descriptors", "data_directory", "tls"] {
        assert_eq!(state(&findings, needed).0, "works", "{needed}: {findings:#}");
    }
    let (users, message) = state(&findings, "users");
    assert!(users == "restricted" && message.contains("run the host as root"), "{message}");
    assert_eq!(output.status.code(), Some(2), "{findings:#}");
    let nowhere = Path::new("/proc/fettle");
    let mut host = Command::new(env!("CARGO_BIN_EXE_fettle-host"));
    let (output, findings) = check(as_ordinary_user(&mut host), nowhere);
    assert_eq!(state(&findings, "data_directory").0, "missing");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_check_as_root_says_that_programs_and_files_can_be_anybodys() {
    if !rustix::process::geteuid().is_root() {
        return common::skip("only root can be anybody");
    }
    let directory = open_directory();
    let (_, findings) = check(&mut Command::new(env!("CARGO_BIN_EXE_fettle-host")), directory.path());
    assert_eq!(state(&findings, "users").0, "works", "{findings:#}");
}

#[test]
fn an_ordinary_user_runs_programs_and_writes_files_and_is_told_what_it_cannot() {
    let directory = open_directory();
    let binary = directory.path().join("tests");
    std::fs::copy(std::env::current_exe().unwrap(), &binary).unwrap();
    let mut again = Command::new(binary);
    again
        .args(["--exact", "ordinary_user::the_other_half_as_an_ordinary_user", "--ignored", "--nocapture"])
        .env("TMPDIR", directory.path())
        .env("FETTLE_TEST_ORDINARY", "yes");
    let output = as_ordinary_user(&mut again).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the other half of `an_ordinary_user_runs_programs_and_writes_files_and_is_told_what_it_cannot`"]
async fn the_other_half_as_an_ordinary_user() {
    if std::env::var_os("FETTLE_TEST_ORDINARY").is_none() {
        return;
    }
    assert!(!rustix::process::geteuid().is_root());
    let node = TestNode::new();
    let run = async |input: Value| node.run("testing", GRANT, &input).await;
    let answer = run(json!({"mode": "exec", "name": "hello", "arguments": {"who": "world"}})).await.unwrap();
    assert_eq!(answer["answer"]["stdout"], "hello world");
    let refused = run(json!({"mode": "exec", "name": "root"})).await.unwrap_err();
    assert!(refused.message.contains("who cannot become anybody else; start the host as root"), "{refused}");
    let killed = run(json!({"mode": "exec", "name": "forever"})).await.unwrap();
    assert_eq!(killed["answer"]["stdout_truncated"], true);
    let written = run(json!({"mode": "write_file", "path": "data/a", "text": "x"})).await.unwrap();
    assert_eq!(written["answer"], true);
    let render = |owner: u32| json!({"template": "a", "path": "data/b", "owner": owner});
    let mine = rustix::process::geteuid().as_raw();
    let grant = "{files: {write: [data]}}";
    node.run("file-render", grant, &render(mine)).await.unwrap();
    let refused = node.run("file-render", grant, &render(0)).await.unwrap_err();
    assert_eq!(refused.class, FailureClass::Permanent);
    assert!(refused.message.contains("cannot give files to somebody else; start the host as root"), "{refused}");
}
