//! `exec` on the fake node.

use super::node::with;
use crate::exec::{Argument, Error, Outcome, Termination};

/// A program that ended by itself; expected when the code is 0.
#[must_use]
pub fn exited(code: i32, stdout: &str, stderr: &str) -> Outcome {
    Outcome {
        expected: code == 0,
        stdout: stdout.to_owned(),
        stderr: stderr.to_owned(),
        ..terminated(Termination::Exited(code))
    }
}

/// A program that ended in this way, unexpectedly and without output.
#[must_use]
pub fn terminated(termination: Termination) -> Outcome {
    Outcome {
        termination,
        expected: false,
        stdout: String::new(),
        stdout_truncated: false,
        stderr: String::new(),
        stderr_truncated: false,
        duration_ms: 5,
        attempts: 1,
    }
}

pub(crate) fn run(profile: &str, arguments: &[Argument]) -> Result<Outcome, Error> {
    with(|state| {
        let shown: String = arguments.iter().map(|argument| format!(" {}={}", argument.name, argument.value)).collect();
        state.calls.push(format!("exec.run {profile}{shown}"));
        state.profiles.get(profile).cloned().unwrap_or(Err(Error::AccessDenied))
    })
}
