//! `docs/tutorial.md` works when it is pasted: its blocks are run, in order, in one shell.
//!
//! A comment before a block says what the test does with it: `<!-- already done where the test runs -->`
//! leaves it out, `<!-- second terminal -->` runs it beside, `<!-- the second terminal has ended -->` ends
//! that first, `<!-- exit code N -->` expects it to fail.

use std::{
    fmt::Write as _,
    fs,
    path::Path,
    process::{Command, Stdio},
};

use super::{FETTLE, root};

/// What the tutorial must show, in this order.
const SHOWN: [&str; 8] = [
    "test tests::a_greeting_converges ... ok",
    "kind       hello.greet@v1",
    "fettle:files/files",
    "local",
    "hello.greet_somebody@v1 is registered",
    "Hello, ada!",
    "1 unchanged",
    "Hello, ada!",
];

/// What it must show on standard error, in this order.
const REFUSED: [&str; 2] = ["/inputs/name", "files.write: etc"];

/// Variables that would lead the pasted commands elsewhere.
const OTHERS: [&str; 11] = [
    "CARGO_TARGET_DIR",
    "CLIPPY_ARGS",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTDOC",
    "XDG_CONFIG_HOME",
    "FETTLE_CONTEXT",
    "FETTLE_KEY",
    "FETTLE_PLANE",
    "FETTLE_PROJECT",
    "FETTLE_TOKEN",
    "FETTLE_TRUST",
];

struct Block {
    note: String,
    text: String,
}

fn blocks(document: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut note = String::new();
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        if let Some(comment) = line.strip_prefix("<!--") {
            comment.trim_end_matches("-->").trim().clone_into(&mut note);
        } else if line == "```sh" {
            let text: String =
                lines.by_ref().take_while(|line| *line != "```").fold(String::new(), |mut text, line| {
                    let _ = writeln!(text, "{line}");
                    text
                });
            blocks.push(Block { note: std::mem::take(&mut note), text });
        }
    }
    blocks
}

/// Waits, with an end, for what `fettle dev` writes when everything runs.
const RUNS: &str = "for i in $(seq 600); do [ -s ~/.config/fettle/context.json ] && break; sleep 0.1; done";
const END: &str = "{ kill $SERVER && wait $SERVER; } 2> /dev/null || true";

/// The blocks as one script.
fn script(blocks: &[Block]) -> String {
    let mut script = format!("set -euo pipefail\nSERVER=\ntrap '{END}' EXIT\n");
    for Block { note, text } in blocks {
        let part = match note.as_str() {
            "" => text.clone(),
            "already done where the test runs" => continue,
            "second terminal" => {
                // `exec`, so that ending the subshell ends the program.
                let (before, last) = text.trim_end().rsplit_once('\n').unwrap();
                format!("(\n{before}\nexec {last}\n) &\nSERVER=$!\n{RUNS}\n")
            }
            "the second terminal has ended" => format!("{END}\n{text}"),
            note => {
                let code = note.strip_prefix("exit code ").unwrap_or_else(|| panic!("nobody knows the note `{note}`"));
                format!(
                    "code=0\n{{\n{text}}} || code=$?\n[ $code = {code} ] || {{ echo \"exit code $code\"; exit 1; }}\n"
                )
            }
        };
        script.push_str(&part);
    }
    script
}

/// A home of its own. What was built is kept from run to run: it is the step's dependencies.
fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tutorial");
    fs::create_dir_all(&built).unwrap();
    fs::create_dir_all(home.path().join("hello-step")).unwrap();
    std::os::unix::fs::symlink(built, home.path().join("hello-step/target")).unwrap();
    home
}

#[test]
fn the_tutorial_works_when_it_is_pasted() {
    let blocks = blocks(&fs::read_to_string(root().join("docs/tutorial.md")).unwrap());
    let programs = Path::new(FETTLE).parent().unwrap().to_str().unwrap();
    let script = script(&blocks).replace("$FETTLE/target/debug", programs);
    let variable = |name: &str, default: &str| {
        std::env::var_os(name).unwrap_or_else(|| format!("{}/{default}", std::env::var("HOME").unwrap()).into())
    };
    let (cargo, rustup) = (variable("CARGO_HOME", ".cargo"), variable("RUSTUP_HOME", ".rustup"));
    let home = home();
    let mut command = Command::new("timeout");
    for name in OTHERS {
        command.env_remove(name);
    }
    let output = command
        .args(["--kill-after=10", "480", "bash", "-c", &script])
        .current_dir(root())
        .env("HOME", home.path())
        .env("CARGO_HOME", cargo)
        .env("RUSTUP_HOME", rustup)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (shown, refused) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{shown}\n--- standard error\n{refused}", output.status);
    in_order(&shown, &SHOWN);
    in_order(&refused, &REFUSED);
}

fn in_order(text: &str, expected: &[&str]) {
    let mut rest = text;
    for expected in expected {
        let Some((_, after)) = rest.split_once(expected) else { panic!("`{expected}` is not shown in:\n{rest}") };
        rest = after;
    }
}
