//! `testing.hostile@v1`: exceeds one limit after the other, on request. Never part of a catalog.
//!
//! What a Rust program cannot do (many memories, many instances, growing tables) is written as text in
//! host/tests/it/hostile/forms.rs.

mod attack;
#[cfg(target_arch = "wasm32")]
mod wasi;

use fettle_step::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One attack.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Which.
    pub(crate) attack: Attack,
    /// How much of it; 0 has no end where an attack can go on for ever.
    #[serde(default)]
    pub(crate) count: u64,
    /// The file, the command profile or the repository that it uses.
    #[serde(default)]
    pub(crate) target: String,
    /// Digests that `transfer` fetches.
    #[serde(default)]
    pub(crate) digests: Vec<String>,
}

/// What a step may try.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Attack {
    /// None: computes a million rounds and asks for the machine's memory, `count` times. The honest step of
    /// the tests.
    None,
    /// Takes `count` MiB of memory.
    Memory,
    /// Takes and gives back a MiB, `count` thousand times.
    Churn,
    /// Computes `count` million rounds.
    Compute,
    /// Asks for a fact, `count` times.
    Calls,
    /// Logs lines of 60 bytes, `count` times.
    Log,
    /// Logs one line of `count` MiB.
    Argument,
    /// Reads the file `target`, `count` times.
    Answer,
    /// Answers `count` bytes.
    Output,
    /// Recurses `count` times.
    Recursion,
    /// Holds `count` pollables.
    Handles,
    /// Writes `count` MiB to standard output and standard error.
    Streams,
    /// Takes `count` MiB of random bytes at once.
    Random,
    /// Sleeps for `count` seconds.
    Sleep,
    /// Answers what its clocks say.
    Clocks,
    /// Panics.
    Panic,
    /// Runs the command profile `target`, `count` times.
    Children,
    /// Fetches `digests` from the repository `target`, `count` times.
    Transfers,
    /// Asks for the kernel log, which hangs in the tests.
    Hang,
    /// Asks for the mounted file systems, one of which hangs in the tests.
    Mounts,
}

/// What it came to.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Output {
    answer: String,
}

fn run(input: &Input) -> Result<Output, Failure> {
    Ok(Output { answer: attack::launch(input)? })
}

fettle_step::step! {
    kind: "testing.hostile@v1",
    summary: "Exceeds a limit, on request.",
    effect: Observe,
    requests: {
        exec: "floods the node with programs",
        files: "reads without end",
        transfer: "floods the node with transfers",
        facts: "asks without end",
    },
    run: run,
}

#[cfg(test)]
mod tests {
    use fettle_step::{FailureClass, fake::Trial};
    use serde_json::json;

    #[test]
    fn an_attack_that_ends_answers_what_it_did() {
        let trial = Trial::new(super::step());
        assert_eq!(trial.run(&json!({"attack": "output", "count": 3})), Ok(json!({"answer": "xxx"})));
        assert_eq!(trial.run(&json!({"attack": "memory", "count": 2})), Ok(json!({"answer": "2 MiB"})));
        let unknown = trial.run(&json!({"attack": "kindness"})).unwrap_err();
        assert_eq!(unknown.class, FailureClass::InvalidInput);
    }
}
