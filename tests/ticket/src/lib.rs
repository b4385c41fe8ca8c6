//! `testing.ticket@v1`: draws a ticket, which may happen once, and whose probe says what a test lets it say. Never part
//! of a catalog.
//!
//! A ticket is a line in a file: how often it was drawn can be counted. Around it a command profile may run, so that a
//! test has something to interrupt.

use fettle_step::{Failure, Observation, exec, files};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most bytes of a file that are read.
const MOST: u64 = 64 << 10;

/// Where, and what around it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// The file with a line per ticket.
    pub(crate) file: String,
    /// A command profile that takes a number of seconds, to run before the ticket is drawn.
    #[serde(default)]
    pub(crate) before: Option<Pause>,
    /// The same after it.
    #[serde(default)]
    pub(crate) after: Option<Pause>,
    /// Whether the step fails, and says that it cannot tell how it ended, after all that.
    #[serde(default)]
    pub(crate) unsure: bool,
    /// Whether it then computes for ever and hears nothing.
    #[serde(default)]
    pub(crate) deaf: bool,
}

/// A command that takes its time.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pause {
    /// The profile.
    pub(crate) profile: String,
    /// Its argument `seconds`.
    pub(crate) seconds: u32,
}

/// How many tickets there are.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Output {
    tickets: u64,
}

fettle_step::step! {
    kind: "testing.ticket@v1",
    summary: "Draws a ticket, once.",
    effect: Consume,
    requests: {
        files: "keeps the tickets",
        exec: "takes its time",
    },
    run: run,
    probe: probe,
}

fn run(input: &Input) -> Result<Output, Failure> {
    pause(input.before.as_ref())?;
    let mut lines = files::read_if_present(&input.file, MOST)?.unwrap_or_default();
    lines.extend_from_slice(b"ticket\n");
    files::write(&input.file, &lines, files::mode(0o644))?;
    pause(input.after.as_ref())?;
    if input.deaf {
        loop {
            std::hint::black_box(&lines);
        }
    }
    if input.unsure {
        return Err(Failure::unknown("ticket.unsure", "the ticket office did not answer"));
    }
    Ok(Output { tickets: count(&lines) })
}

/// Beside the file a test may say that nobody can tell.
fn probe(input: &Input) -> Result<Observation<Output>, Failure> {
    if files::read_if_present(&format!("{}.hidden", input.file), MOST)?.is_some() {
        return Ok(Observation::Unknown("the ticket office is closed".to_owned()));
    }
    Ok(match files::read_if_present(&input.file, MOST)? {
        Some(lines) => Observation::Satisfied(Output { tickets: count(&lines) }),
        None => Observation::Unsatisfied("would draw a ticket".to_owned()),
    })
}

fn pause(pause: Option<&Pause>) -> Result<(), Failure> {
    let Some(Pause { profile, seconds }) = pause else { return Ok(()) };
    let seconds = [("seconds".to_owned(), seconds.to_string())];
    let arguments: Vec<exec::Argument> =
        seconds.into_iter().map(|(name, value)| exec::Argument { name, value }).collect();
    let outcome = exec::run(profile, &arguments)?;
    if outcome.expected {
        return Ok(());
    }
    Err(Failure::permanent("ticket.interrupted", "the pause was cut short"))
}

fn count(lines: &[u8]) -> u64 {
    lines.iter().filter(|byte| **byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests {
    use fettle_step::fake::Trial;
    use serde_json::json;

    #[test]
    fn a_step_is_described() {
        let trial = Trial::new(super::step());
        let refused = trial.run(&json!({"file": "models/tickets", "wrong": 1})).unwrap_err();
        assert_eq!(refused.class, fettle_step::FailureClass::InvalidInput);
    }
}
