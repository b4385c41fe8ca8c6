//! `command.exec_allowlisted@v1`: runs a command profile that an administrator signed.
//!
//! Whether a command may be repeated is not for this step to say, so it may not be: its effect is
//! `consume`.

mod arguments;

use arguments::Arguments;
use fettle_step::{
    Failure,
    exec::{self, Outcome, Termination},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which command, and with what.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The command profile, by the name that the node's policy gives it.
    #[schemars(length(min = 1, max = 63))]
    profile: String,
    /// The profile's arguments, by name.
    #[serde(default)]
    arguments: Arguments,
}

/// What the command answered. Output is cut where the profile says so, and then marked.
#[derive(Debug, Serialize, JsonSchema)]
struct Output {
    exit_code: i32,
    stdout: String,
    stdout_truncated: bool,
    stderr: String,
    stderr_truncated: bool,
    /// Milliseconds.
    duration_ms: u64,
}

fettle_step::step! {
    kind: "command.exec_allowlisted@v1",
    summary: "Runs a command profile that an administrator signed.",
    effect: Consume,
    requests: { exec: "runs the command profile that the input names" },
    run: run,
}

fn run(input: &Input) -> Result<Output, Failure> {
    let outcome = exec::run(&input.profile, &input.arguments.to_host())?;
    let profile = &input.profile;
    match outcome.termination {
        Termination::Exited(exit_code) if outcome.expected => Ok(output(exit_code, outcome)),
        Termination::Exited(exit_code) => Err(failure(
            "exit-code",
            &outcome,
            &format!("`{profile}` ended with exit code {exit_code}, which its profile does not expect"),
        )),
        Termination::Signaled(signal) => Err(failure(
            "signaled",
            &outcome,
            &format!("`{profile}` was ended by signal {signal} after {} ms", outcome.duration_ms),
        )),
        Termination::TimedOut => Err(failure(
            "timed-out",
            &outcome,
            &format!("`{profile}` did not end within its timeout and was killed after {} ms", outcome.duration_ms),
        )),
    }
}

fn output(exit_code: i32, outcome: Outcome) -> Output {
    let Outcome { stdout, stdout_truncated, stderr, stderr_truncated, duration_ms, .. } = outcome;
    Output { exit_code, stdout, stdout_truncated, stderr, stderr_truncated, duration_ms }
}

/// A failure that ends with the last that the command said, for that is where the reason usually is.
fn failure(code: &str, outcome: &Outcome, sentence: &str) -> Failure {
    let last = outcome.stderr.lines().rev().map(str::trim).find(|line| !line.is_empty());
    let said = last
        .map_or_else(|| "it wrote nothing to stderr".to_owned(), |line| format!("it last wrote: {}", shorten(line)));
    Failure::permanent(format!("command.{code}"), format!("the command {sentence}; {said}"))
}

fn shorten(line: &str) -> String {
    const CHARACTERS: usize = 500;
    if line.chars().count() <= CHARACTERS {
        return line.to_owned();
    }
    line.chars().take(CHARACTERS).chain(['…']).collect()
}

#[cfg(test)]
mod tests;
