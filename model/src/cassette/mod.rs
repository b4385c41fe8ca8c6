//! The cassette: all that one attempt asked of the node, what it was answered, and what it came to.
//!
//! A cassette is lines of JSON: a header, then functions, their capability calls and their outcomes in the
//! order in which they happened, then the bulk bytes that the calls refer to, then an end.
//! `docs/reference/cassette.md` describes every line; [`Recording`] writes them and [`Cassette::read`] reads
//! them. The same behaviour gives the same bytes: no time, no address, no random number is in it.

mod decode;
mod encode;
mod name;
mod read;
mod write;

use serde::{Deserialize, Serialize};

pub use self::{
    decode::{Blobs, DecodeError, decode},
    name::wit as wit_name,
    read::{Answer, Call, Cassette, CassetteError, Played},
    write::Recording,
};
use crate::{descriptor::Effect, digest::Digest, failure::Failure, limits::AttemptLimits, name::StepKind};

/// The format that is written and read here.
pub const VERSION: u32 = 1;

/// Bytes from which on a list of bytes is kept once, beside the calls, and named by its digest.
pub const INLINE_BYTES: usize = 4 << 10;

/// The WIT record whose content is never recorded: a secret, or a handle of one. It is named by the order
/// in which the attempt met it.
pub const SECRET: &str = "Secret";

/// Which attempt of what was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// [`VERSION`].
    pub cassette: u32,
    /// The component's bytes.
    pub component: Digest,
    /// The kind it implements.
    pub kind: StepKind,
    /// What running it does.
    pub effect: Effect,
    /// The limits that it ran under.
    pub limits: Digest,
    /// Those of them that are not a host's defaults.
    #[serde(default, skip_serializing_if = "AttemptLimits::is_empty")]
    pub changed_limits: AttemptLimits,
    /// What the component was told of where it runs.
    pub context: Context,
    /// The input, the very text that the component was given.
    pub input: String,
}

/// What a component is told of where it runs. Holds no secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Context {
    /// The operation.
    pub operation_id: String,
    /// The operation on this node.
    pub task_id: String,
    /// The step.
    pub step_id: String,
    /// 1 for the first.
    pub attempt: u32,
    /// Follows the operation through every log.
    pub correlation_id: String,
}

/// An exported function of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Function {
    /// Looks.
    Probe,
    /// Does the work.
    Run,
    /// Takes it back.
    Undo,
}

impl Function {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Probe, Self::Run, Self::Undo];

    /// The name in WIT and in documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Probe => "probe",
            Self::Run => "run",
            Self::Undo => "undo",
        }
    }
}

/// What a function came to. Texts are the very bytes that the component answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A probe found the desired state; the output.
    Satisfied(String),
    /// A probe did not; what would change.
    Unsatisfied(String),
    /// A probe cannot tell; why.
    Unknown(String),
    /// A run's output.
    Answered(String),
    /// An undo succeeded.
    Undone,
    /// The component failed, or a limit stopped it.
    Failed(Failure),
    /// The host ended the attempt in the middle: canceled, lease lost, host stopped.
    Interrupted,
}

impl Outcome {
    /// The name in documents: `satisfied`, or the class of a failure.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Satisfied(_) => "satisfied",
            Self::Unsatisfied(_) => "unsatisfied",
            Self::Unknown(_) => "unknown",
            Self::Answered(_) => "answered",
            Self::Undone => "undone",
            Self::Failed(_) => "failed",
            Self::Interrupted => "interrupted",
        }
    }

    /// Whether time ended it, so that it may end elsewhere when it is repeated.
    #[must_use]
    pub fn depends_on_time(&self) -> bool {
        match self {
            Self::Interrupted => true,
            Self::Failed(failure) => {
                matches!(failure.code.as_str(), "limit.cpu" | "limit.wall-clock" | "host.stopped")
            }
            Self::Satisfied(_) | Self::Unsatisfied(_) | Self::Unknown(_) | Self::Answered(_) | Self::Undone => false,
        }
    }
}

/// Why nothing more was recorded. The attempt went on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truncated {
    /// Calls that were recorded before.
    pub after_calls: u32,
    /// Which bound was reached.
    pub reason: String,
}

/// The last line: what a complete cassette holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct End {
    pub(crate) calls: u32,
    pub(crate) blobs: u32,
}

#[cfg(test)]
mod tests;
