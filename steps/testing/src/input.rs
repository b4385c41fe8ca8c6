//! What a test asks the step to do.

use std::collections::BTreeMap;

use fettle_step::FailureClass;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// One way to behave, and what it needs.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// What `run` does.
    pub(crate) mode: Mode,
    /// What `probe` answers; unsatisfied when left out.
    #[serde(default)]
    pub(crate) probe: Answer,
    /// What `ok` answers.
    #[serde(default)]
    pub(crate) value: Value,
    /// How much: bytes of `huge_output`, millions of iterations of `busy`, lines of `log` (0: no end).
    #[serde(default)]
    pub(crate) count: u64,
    /// The path of `read_file`, `write_file` and `stat`.
    #[serde(default)]
    pub(crate) path: String,
    /// What `write_file` writes, and the message of `fail`, `log` and `panic`.
    #[serde(default)]
    pub(crate) text: String,
    /// The command profile of `exec`, and the fact of `facts`.
    #[serde(default)]
    pub(crate) name: String,
    /// The arguments of `exec`.
    #[serde(default)]
    pub(crate) arguments: BTreeMap<String, String>,
    /// The class of `fail`.
    #[serde(default)]
    pub(crate) class: Class,
}

/// What `run` does.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    /// Answers `value`.
    Ok,
    /// Loops and never ends.
    Loop,
    /// Works for `count` million iterations, then answers.
    Busy,
    /// Takes memory until there is none.
    Allocate,
    /// Logs `text`, `count` times or without end.
    Log,
    /// Panics with `text`.
    Panic,
    /// Answers text that is not JSON.
    InvalidJson,
    /// Answers JSON that the output schema refuses.
    WrongSchema,
    /// Answers `count` bytes.
    HugeOutput,
    /// Fails with `class` and `text`.
    Fail,
    /// Runs the command profile `name`.
    Exec,
    /// Reads `path`.
    ReadFile,
    /// Writes `text` to `path`.
    WriteFile,
    /// Looks at `path`.
    Stat,
    /// Reads the fact `name`.
    Facts,
    /// Reads the GPUs.
    Gpu,
    /// Answers a number by which hash maps are shuffled: chance, where there is any.
    Chance,
    /// Asks `count` times for the fact `name`, and answers how often it was refused.
    Ask,
}

/// What `probe` answers.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// Satisfied, with `value`.
    Satisfied,
    /// Not satisfied.
    #[default]
    Unsatisfied,
    /// It cannot tell.
    Unknown,
    /// It loops and never ends.
    Loop,
    /// It fails with `class` and `text`.
    Fail,
}

/// A failure class, by its name in documents.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Class {
    InvalidInput,
    Denied,
    Transient,
    #[default]
    Permanent,
    Unknown,
    Canceled,
}

impl From<Class> for FailureClass {
    fn from(class: Class) -> Self {
        match class {
            Class::InvalidInput => Self::InvalidInput,
            Class::Denied => Self::Denied,
            Class::Transient => Self::Transient,
            Class::Permanent => Self::Permanent,
            Class::Unknown => Self::Unknown,
            Class::Canceled => Self::Canceled,
        }
    }
}
