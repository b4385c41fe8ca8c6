//! Answers out of a cassette, in its order; the first call that is another one ends the replay.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fettle_model::cassette::{Answer, Blobs, Call, Cassette, Function, Outcome};

use super::{Difference, shorten, shown};
use crate::sandbox::tape::{Answers, Given};

/// How far a replay is; shared with whoever runs it.
pub(super) struct Position(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// 0 before the first.
    function: usize,
    call: usize,
    compared: u32,
    difference: Option<Difference>,
    stopped: Option<String>,
}

/// Answers a component.
pub(super) struct Player {
    position: Arc<Position>,
    functions: Vec<(Function, Vec<Call>, bool)>,
    truncated: Option<String>,
    blobs: Arc<Blobs>,
}

impl Position {
    pub(super) fn shared() -> Arc<Self> {
        Arc::new(Self(Mutex::default()))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing that follows can be compared.
    pub(super) fn is_over(&self) -> bool {
        let inner = self.lock();
        inner.difference.is_some() || inner.stopped.is_some()
    }

    pub(super) fn compared(&self) -> u32 {
        self.lock().compared
    }

    pub(super) fn difference(&self) -> Option<Difference> {
        self.lock().difference.clone()
    }

    pub(super) fn stopped(&self) -> Option<String> {
        self.lock().stopped.clone()
    }
}

impl Player {
    pub(super) fn new(position: Arc<Position>, cassette: &Cassette) -> Self {
        let ends = |outcome: &Outcome| outcome.depends_on_time();
        let functions = cassette.functions.iter();
        Self {
            position,
            functions: functions.map(|played| (played.function, played.calls.clone(), ends(&played.outcome))).collect(),
            truncated: cassette.truncated.as_ref().map(|truncated| {
                format!("the recording ends after {} calls: {}", truncated.after_calls, truncated.reason)
            }),
            blobs: Arc::new(cassette.blobs.clone()),
        }
    }
}

/// Why a component gets no answer.
const DIFFERS: &str = "the replay differs from the recording here";

impl Answers for Player {
    fn begin(&mut self, _function: Function) {
        let mut inner = self.position.lock();
        inner.function += 1;
        inner.call = 0;
    }

    fn answer(&mut self, name: &str, arguments: &str) -> Result<Given, String> {
        let mut inner = self.position.lock();
        let Some((function, calls, ended_by_time)) = self.functions.get(inner.function.saturating_sub(1)) else {
            return Err(DIFFERS.to_owned());
        };
        let actual = || shorten(&format!("{name}{arguments}"));
        let number = inner.call + 1;
        let Some(expected) = calls.get(inner.call) else {
            let reason = match &self.truncated {
                Some(truncated) => Some(truncated.clone()),
                None if *ended_by_time => Some(format!("`{}` was ended by time when it was recorded", function.name())),
                None => None,
            };
            match reason {
                Some(reason) => inner.stopped = Some(reason),
                None => {
                    inner.difference =
                        Some(Difference::ExtraCall { function: *function, call: number, actual: actual() });
                }
            }
            return Err(DIFFERS.to_owned());
        };
        if expected.name != name || expected.arguments != arguments {
            inner.difference = Some(Difference::Call {
                function: *function,
                call: number,
                expected: shown(expected),
                actual: actual(),
            });
            return Err(DIFFERS.to_owned());
        }
        inner.call += 1;
        inner.compared += 1;
        if expected.answer == Answer::Missing {
            inner.stopped = Some(format!("the recorded attempt was stopped during call {number}, {name}"));
        }
        Ok(Given { answer: expected.answer.clone(), blobs: Arc::clone(&self.blobs) })
    }

    fn unfit(&mut self, name: &str, reason: &str) -> String {
        let mut inner = self.position.lock();
        let function = self.functions.get(inner.function.saturating_sub(1)).map_or(Function::Run, |(one, ..)| *one);
        inner.difference =
            Some(Difference::Answer { function, call: inner.call, name: name.to_owned(), reason: reason.to_owned() });
        DIFFERS.to_owned()
    }
}
