//! `docs/reference/cli.md` and `docs/reference/exit-codes.md`, written by asking the program.

use std::{
    fmt::Write as _,
    fs,
    process::{Command, Stdio},
};

use fettle_cli::exit::Exit;

use super::{FETTLE, root};

const FIX: &str = "run `UPDATE_DOCS=1 cargo test -p fettle-cli --test it documents`, and commit it";

fn is_current(path: &str, expected: &str) {
    let file = root().join(path);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, expected).unwrap();
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    assert!(found == expected, "{path} is stale; {FIX}");
}

/// The help of a command, the same wherever it is asked for: no terminal, no variables.
fn help(command: &[String]) -> String {
    let output = Command::new(FETTLE)
        .args(command)
        .arg("--help")
        .env_clear()
        .env("COLUMNS", "100")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The commands below a command, as its help lists them.
fn below(help: &str) -> Vec<String> {
    let listed = help.split("\nCommands:\n").nth(1).unwrap_or_default();
    let listed = listed.split("\n\n").next().unwrap_or_default();
    let names = listed.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Help says the same about `--help`, `--version` and `--json` everywhere; the page says it once.
fn without_what_is_the_same(help: &str) -> String {
    let is_same = |paragraph: &&str| {
        let first = paragraph.trim_start_matches("Options:\n").trim_start();
        let common = ["-h, --help", "-V, --version", "Global options:"];
        common.iter().any(|start| first.starts_with(start))
    };
    let kept = help.trim_end().split("\n\n").filter(|paragraph| !is_same(paragraph));
    let lines: Vec<&str> = kept.flat_map(|paragraph| paragraph.lines().chain([""])).map(str::trim_end).collect();
    lines.join("\n").trim_end().to_owned()
}

fn write(document: &mut String, command: &[String]) {
    let help = help(command);
    if !command.is_empty() {
        let _ = write!(
            document,
            "\n## fettle {}\n\n```text\n{}\n```\n",
            command.join(" "),
            without_what_is_the_same(&help)
        );
    }
    for name in below(&help) {
        let mut command = command.to_vec();
        command.push(name);
        write(document, &command);
    }
}

#[test]
fn the_reference_of_commands_is_what_the_program_says() {
    let mut document = format!(
        "# Commands\n\nThis page is written from the program's own help by `cli/tests/it/documents/reference.rs`; to change it, {FIX}.\n\n\
         Every command also takes `--help`, `--version` and `--json`: results as JSON, and errors as JSON on standard error.\n\n\
         ```text\n{}\n```\n",
        without_what_is_the_same(&help(&[]))
    );
    write(&mut document, &[]);
    assert!(document.matches("\n## fettle ").count() > 20, "commands are missing:\n{document}");
    is_current("docs/reference/cli.md", &document);
}

#[test]
fn the_reference_of_exit_codes_is_what_the_program_says() {
    let mut document = format!(
        "# Exit codes\n\nThis page is written from `cli/src/exit.rs`; to change it, {FIX}.\n\n\
         A watched operation decides the exit code of the command that watches it. `fettle exit-codes` prints this table.\n\n\
         | code | meaning |\n|---:|---|\n"
    );
    for exit in Exit::ALL {
        let _ = writeln!(document, "| {} | {} |", exit.code(), exit.meaning());
    }
    is_current("docs/reference/exit-codes.md", &document);
}
