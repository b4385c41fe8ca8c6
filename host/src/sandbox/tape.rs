//! What runs along at the gate: the recording of an attempt, and for a replay the answers of another one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fettle_model::cassette::{Answer as Recorded, Blobs, Call, Function as Export, Header, Outcome, Recording};
use serde::Serialize;

use super::gate::{Answer, Function};

/// Most bytes that the calls of one attempt take on a node. What is over is not recorded, and the cassette
/// says so.
pub const BOUND: usize = 8 << 20;

/// The recording of one attempt, shared by its calls. What was recorded is there however the attempt ends.
#[derive(Clone)]
pub struct Tape(Arc<Mutex<Inner>>);

struct Inner {
    recording: Option<Recording>,
    answers: Option<Box<dyn Answers>>,
}

/// Where the answers of capability calls come from, when not from this machine.
pub trait Answers: Send {
    /// A function of the component begins.
    fn begin(&mut self, function: Export);

    /// Answers a call; `arguments` is their recorded form.
    ///
    /// # Errors
    /// When there is no answer to this call; the attempt ends with this reason.
    fn answer(&mut self, name: &str, arguments: &str) -> Result<Given, String>;

    /// The answer that was given does not fit the contract; the attempt ends with the reason.
    fn unfit(&mut self, name: &str, reason: &str) -> String;
}

/// An answer to a call.
pub struct Given {
    /// What came of the call when it was recorded.
    pub answer: Recorded,
    /// What the answer refers to.
    pub blobs: Arc<Blobs>,
}

impl Tape {
    /// A tape that records.
    #[must_use]
    pub fn record(header: &Header, bound: usize) -> Self {
        Self::new(header, bound, None)
    }

    /// A tape that records while something else than this machine answers.
    #[must_use]
    pub fn play(header: &Header, bound: usize, answers: Box<dyn Answers>) -> Self {
        Self::new(header, bound, Some(answers))
    }

    fn new(header: &Header, bound: usize, answers: Option<Box<dyn Answers>>) -> Self {
        Self(Arc::new(Mutex::new(Inner { recording: Some(Recording::new(header, bound)), answers })))
    }

    /// What was recorded; once. A function that has not ended counts as interrupted.
    #[must_use]
    pub fn finish(&self) -> Option<Vec<u8>> {
        self.lock().recording.take().map(Recording::finish)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn function(&self, function: Export, output: Option<&str>) {
        let mut inner = self.lock();
        if let Some(recording) = &mut inner.recording {
            recording.begin(function, output);
        }
        if let Some(answers) = &mut inner.answers {
            answers.begin(function);
        }
    }

    pub(super) fn outcome(&self, outcome: &Outcome) {
        if let Some(recording) = &mut self.lock().recording {
            recording.end(outcome);
        }
    }

    /// Records a call, and answers it when something else than this machine does.
    pub(super) fn begin<A: Answer>(&self, function: Function, arguments: &impl Serialize) -> Result<Option<A>, String> {
        let mut inner = self.lock();
        let Inner { recording, answers } = &mut *inner;
        let Some(recording) = recording else { return Ok(None) };
        let recorded = recording.call(function.capability, function.name, arguments);
        let Some(answers) = answers else { return Ok(None) };
        let name = format!(
            "{}.{}",
            fettle_model::cassette::wit_name(function.capability),
            fettle_model::cassette::wit_name(function.name)
        );
        let given = answers.answer(&name, recorded.unwrap_or_default()).and_then(|given| match given.answer {
            Recorded::Given(text) => {
                Call::decode(&text, &given.blobs).map_err(|error| answers.unfit(&name, &error.to_string()))
            }
            Recorded::Trapped(reason) => Err(reason),
            Recorded::Missing => Err(STOPPED.to_owned()),
        });
        if let Err(reason) = &given
            && reason != STOPPED
        {
            recording.trap(reason);
        }
        given.map(Some)
    }

    /// Records the answer of the last call.
    pub(super) fn answer(&self, answer: &impl Serialize) {
        if let Some(recording) = &mut self.lock().recording {
            recording.answer(answer);
        }
    }
}

/// Why a replayed attempt ends where its recording was interrupted.
pub(super) const STOPPED: &str = "the recorded attempt was stopped during this call";
