//! Starting programs: in one place, and never through a shell.

use crate::{
    report::{holds, holds_except},
    source::{files, is_within, shipped, text},
};

/// Ways to start a program.
const STARTING: [&str; 14] = [
    "::process::Command",
    "::process::CommandExt",
    "std::process::*",
    "tokio::process",
    "::libc::system",
    "::libc::fork",
    "::libc::vfork",
    "::libc::execv",
    "::libc::execve",
    "::libc::execvp",
    "::libc::posix_spawn",
    "::libc::popen",
    "nix::unistd::fork",
    "nix::unistd::execve",
];

/// Product sources that start programs, besides host/src/capabilities/exec. May only shrink.
const OTHERS: [&str; 2] = [
    // An author's machine: the author's own cargo, rustc and git.
    "cli/src/author/program.rs",
    // For tests only: a real registry process.
    "supply/src/testing/registry.rs",
];

const SHELLS: [&str; 7] = ["sh", "bash", "dash", "zsh", "ksh", "ash", "busybox"];

#[test]
fn only_exec_starts_programs() {
    let mut found = Vec::new();
    let mut exec = 0;
    for source in shipped() {
        for path in source.names().paths {
            if !STARTING.iter().any(|pattern| is_within(&path.what, pattern)) {
                continue;
            }
            if source.path.starts_with("host/src/capabilities/exec/") {
                exec += 1;
                continue;
            }
            found.push((source.path.clone(), format!("{}:{}: names `{}`", source.path, path.line, path.what)));
        }
    }
    assert!(exec > 0, "host/src/capabilities/exec starts nothing any more; correct the test");
    holds_except(
        "programs are started by host/src/capabilities/exec and by nobody else",
        "use its Spawner; on a node, a program is a command profile that an administrator signed",
        &found,
        &OTHERS,
    );
}

fn is_shell(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or(program);
    SHELLS.contains(&name)
}

#[test]
fn there_is_no_shell() {
    let mut findings = Vec::new();
    // The model names shells to refuse them in profiles.
    for source in shipped().iter().filter(|source| source.path != "model/src/policy/check.rs") {
        for written in source.names().texts.into_iter().filter(|written| is_shell(&written.what)) {
            findings.push(format!("{}:{}: writes \"{}\"", source.path, written.line, written.what));
        }
    }
    for path in files("policies", "yaml") {
        for (index, line) in text(&path).lines().enumerate() {
            let command = line.split_once("command:").map(|(_, rest)| rest.trim().trim_matches(['\'', '"', ',', '}']));
            let program = command.and_then(|command| command.split([' ', ',']).next());
            if program.is_some_and(is_shell) {
                findings.push(format!("{path}:{}: a profile runs a shell", index + 1));
            }
        }
    }
    holds("nothing runs through a shell", "name the program and its arguments; a pipeline is several steps", &findings);
}
