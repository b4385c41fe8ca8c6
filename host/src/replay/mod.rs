//! Running components where the answers of the node come from elsewhere: a cassette, or an author's table.
//!
//! The component runs in the real sandbox, under the real limits, through the real gate; only what is
//! behind the gate is replaced.

pub mod cases;
pub mod coverage;
mod player;
mod script;

use std::{sync::Arc, time::Duration};

use fettle_model::{
    cassette::{Call as RecordedCall, Cassette, CassetteError, Context, Function, Header, Outcome, VERSION},
    descriptor::Descriptor,
    digest::Digest,
    limits::AttemptLimits,
};
use serde::Serialize;

use self::player::{Player, Position};
pub use self::script::{Script, Scripted};
use crate::{
    capabilities::Prepared,
    sandbox::{
        Call, Compiled, LoadError, Observation, Sandbox, Spent, Step, Tape,
        bindings::exports::fettle::step::step::Context as WitContext,
        tape::{self, Answers},
    },
};

/// How long a call may take here, whatever its definition allowed: answers come at once.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Why something could not be run at all.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The component cannot be loaded.
    #[error("the component cannot be run")]
    Load(#[source] LoadError),
    /// What was recorded just now cannot be read.
    #[error("the new recording is not sound; this is a fault of this program")]
    Recording(#[source] CassetteError),
}

/// What a replay found.
#[derive(Clone, Debug, Serialize)]
pub struct Replayed {
    /// Whether everything was the same, as far as it was compared.
    pub same: bool,
    /// The component that was recorded.
    pub recorded_component: Digest,
    /// The component that ran now.
    pub component: Digest,
    /// What ran.
    pub kind: String,
    /// Calls that were compared.
    pub calls: u32,
    /// Functions that were compared.
    pub functions: u32,
    /// Where it first differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<Difference>,
    /// Why not everything was compared, when that is so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
    /// Whether the limits here are other ones than when it was recorded.
    pub other_limits: bool,
}

/// Where a replay first differs from its recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "difference")]
pub enum Difference {
    /// Another call, or the same one with other arguments.
    Call {
        /// The function that was called.
        function: Function,
        /// 1 for its first call.
        call: usize,
        /// What was recorded.
        expected: String,
        /// What came now.
        actual: String,
    },
    /// A call that the recording does not have.
    ExtraCall {
        /// The function that was called.
        function: Function,
        /// 1 for its first call.
        call: usize,
        /// What came now.
        actual: String,
    },
    /// Calls of the recording that were not made.
    MissingCalls {
        /// The function that was called.
        function: Function,
        /// 1 for its first call.
        call: usize,
        /// What was recorded.
        expected: String,
        /// What the function came to instead.
        actual: String,
    },
    /// The same calls and another end.
    Outcome {
        /// The function that was called.
        function: Function,
        /// What was recorded.
        expected: String,
        /// What came now.
        actual: String,
    },
    /// A recorded answer is none that the contract of this program knows.
    Answer {
        /// The function that was called.
        function: Function,
        /// 1 for its first call.
        call: usize,
        /// The call.
        name: String,
        /// What is wrong.
        reason: String,
    },
}

impl Replayed {
    /// Whether the step itself is to blame: the same component, asked and answered the same, did something
    /// else.
    #[must_use]
    pub fn is_nondeterministic(&self) -> bool {
        !self.same
            && !self.other_limits
            && self.component == self.recorded_component
            && !matches!(self.difference, Some(Difference::Answer { .. }))
    }
}

/// Replays a cassette with a component, which is the recorded one or another one.
///
/// # Errors
/// When the component cannot be run at all.
pub async fn replay(sandbox: &Sandbox, compiled: &Compiled, cassette: &Cassette) -> Result<Replayed, ReplayError> {
    let step = sandbox.link_answered(compiled).map_err(ReplayError::Load)?;
    let step = step.with_limits(&cassette.header.changed_limits, &AttemptLimits::default());
    let position = Position::shared();
    let header = Header { component: step.digest, ..cassette.header.clone() };
    let tape = Tape::play(&header, usize::MAX, Box::new(Player::new(Arc::clone(&position), cassette)));
    let mut ran = 0;
    let stage = Stage::new(&step, &tape, &header.context, &header.input);
    for played in &cassette.functions {
        stage.call(played.function, played.output.as_deref(), Prepared::default()).await;
        ran += 1;
        if position.is_over() {
            break;
        }
    }
    let recorded = tape.finish().unwrap_or_default();
    let now = Cassette::read(&recorded).map_err(ReplayError::Recording)?;
    let mut replayed = Replayed {
        same: true,
        recorded_component: cassette.header.component,
        component: step.digest,
        kind: cassette.header.kind.to_string(),
        calls: position.compared(),
        functions: ran,
        difference: position.difference(),
        partial: position.stopped(),
        other_limits: cassette.header.limits != step.limits_digest(),
    };
    if replayed.difference.is_none() {
        replayed.difference = compare(cassette, &now, &mut replayed.partial);
    }
    replayed.same = replayed.difference.is_none();
    Ok(replayed)
}

/// Compares what the functions came to; their calls were compared one by one.
fn compare(before: &Cassette, now: &Cassette, partial: &mut Option<String>) -> Option<Difference> {
    for (expected, actual) in before.functions.iter().zip(&now.functions) {
        if expected.outcome == actual.outcome && expected.calls.len() == actual.calls.len() {
            continue;
        }
        if partial.is_some() {
            return None;
        }
        if expected.outcome.depends_on_time() {
            *partial = Some(format!("`{}` was ended by time when it was recorded", expected.function.name()));
            return None;
        }
        let function = expected.function;
        return Some(match expected.calls.get(actual.calls.len()) {
            Some(missing) => Difference::MissingCalls {
                function,
                call: actual.calls.len() + 1,
                expected: shown(missing),
                actual: shown_outcome(&actual.outcome),
            },
            None => Difference::Outcome {
                function,
                expected: shown_outcome(&expected.outcome),
                actual: shown_outcome(&actual.outcome),
            },
        });
    }
    None
}

/// What an attempt came to that was answered by something else than this machine.
pub struct Answered {
    /// The cassette of it.
    pub cassette: Vec<u8>,
    /// The same, read.
    pub recorded: Cassette,
}

/// Runs one function of a component with answers from elsewhere, and records it.
///
/// # Errors
/// When the component cannot be run at all.
pub async fn answered(
    sandbox: &Sandbox,
    compiled: &Compiled,
    descriptor: &Descriptor,
    request: &Request<'_>,
    answers: Box<dyn Answers>,
) -> Result<Answered, ReplayError> {
    let step = sandbox.link_answered(compiled).map_err(ReplayError::Load)?;
    let header = header(&step, descriptor, request);
    let tape = Tape::play(&header, usize::MAX, answers);
    let stage = Stage::new(&step, &tape, &header.context, request.input);
    stage.call(request.function, request.output, Prepared::default()).await;
    let cassette = tape.finish().unwrap_or_default();
    let recorded = Cassette::read(&cassette).map_err(ReplayError::Recording)?;
    Ok(Answered { cassette, recorded })
}

/// Runs one function of a component with the answers of a cassette, in their order, and records it.
///
/// Answers too where the calls differ from the recorded ones.
///
/// # Errors
/// When the component cannot be run at all.
pub async fn against(
    sandbox: &Sandbox,
    compiled: &Compiled,
    descriptor: &Descriptor,
    request: &Request<'_>,
    cassette: &Cassette,
) -> Result<(Answered, Option<Difference>), ReplayError> {
    let mut only = cassette.clone();
    only.functions.retain(|played| played.function == request.function);
    only.functions.truncate(1);
    let position = Position::shared();
    let player = Box::new(Player::new(Arc::clone(&position), &only));
    let ran = answered(sandbox, compiled, descriptor, request, player).await?;
    Ok((ran, position.difference()))
}

/// Runs one function of a component on this machine, and records it.
///
/// # Errors
/// When the new recording cannot be read.
pub async fn locally(
    step: &Step,
    descriptor: &Descriptor,
    request: &Request<'_>,
    capabilities: Prepared,
) -> Result<Answered, ReplayError> {
    let header = header(step, descriptor, request);
    let tape = Tape::record(&header, tape::BOUND);
    let stage = Stage::new(step, &tape, &header.context, request.input);
    stage.call(request.function, request.output, capabilities).await;
    let cassette = tape.finish().unwrap_or_default();
    let recorded = Cassette::read(&cassette).map_err(ReplayError::Recording)?;
    Ok(Answered { cassette, recorded })
}

/// What to call.
pub struct Request<'a> {
    /// The function.
    pub function: Function,
    /// JSON.
    pub input: &'a str,
    /// What an undo is told.
    pub output: Option<&'a str>,
}

/// The header of an attempt that no operation asked for.
#[must_use]
pub fn header(step: &Step, descriptor: &Descriptor, request: &Request<'_>) -> Header {
    let local = || "local".to_owned();
    Header {
        cassette: VERSION,
        component: step.digest,
        kind: descriptor.kind.clone(),
        effect: descriptor.effect,
        limits: step.limits_digest(),
        changed_limits: step.changed_limits(),
        context: Context {
            operation_id: local(),
            task_id: local(),
            step_id: local(),
            attempt: 1,
            correlation_id: local(),
        },
        input: request.input.to_owned(),
    }
}

/// Where functions are called.
struct Stage<'a> {
    step: &'a Step,
    tape: &'a Tape,
    context: &'a Context,
    input: &'a str,
    /// The functions of an attempt share its limits, here as on a node.
    spent: Spent,
}

impl<'a> Stage<'a> {
    fn new(step: &'a Step, tape: &'a Tape, context: &'a Context, input: &'a str) -> Self {
        Self { step, tape, context, input, spent: Spent::default() }
    }

    /// Calls a function; what it came to is on the tape.
    async fn call(&self, function: Function, output: Option<&str>, capabilities: Prepared) {
        let call = Call {
            context: context(self.context),
            capabilities,
            timeout: TIMEOUT,
            elapsed: Duration::ZERO,
            spent: self.spent.clone(),
            tape: Some(self.tape.clone()),
        };
        match function {
            Function::Probe => drop::<Result<Observation, _>>(self.step.probe(call, self.input).await),
            Function::Run => drop(self.step.run(call, self.input).await),
            Function::Undo => drop(self.step.undo(call, self.input, output).await),
        }
    }
}

/// The context as a component is told it.
#[must_use]
pub fn context(context: &Context) -> WitContext {
    let Context { operation_id, task_id, step_id, attempt, correlation_id } = context.clone();
    WitContext { operation_id, task_id, step_id, attempt, correlation_id }
}

/// Most characters of what a difference shows.
const SHOWN: usize = 300;

/// A call in one short line.
fn shown(call: &RecordedCall) -> String {
    shorten(&format!("{}{}", call.name, call.arguments))
}

/// An outcome in one short line.
#[must_use]
pub fn shown_outcome(outcome: &Outcome) -> String {
    shorten(&match outcome {
        Outcome::Satisfied(text) | Outcome::Unsatisfied(text) | Outcome::Unknown(text) | Outcome::Answered(text) => {
            format!("{}: {text}", outcome.name())
        }
        Outcome::Failed(failure) => format!("failed: {failure}"),
        Outcome::Undone | Outcome::Interrupted => outcome.name().to_owned(),
    })
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
