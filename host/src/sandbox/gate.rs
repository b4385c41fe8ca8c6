//! The one way from a component to a capability: every call passes here, before and after.
//!
//! What holds for all capability calls is done here once. A capability itself knows nothing of it.

use fettle_telemetry::SPANS;
use serde::{Serialize, de::DeserializeOwned};
use tracing::{Instrument as _, field::Empty};

use super::{size, state::AttemptState};

/// A function of a capability, as the contract names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    /// The capability: `files`.
    pub(crate) capability: &'static str,
    /// The function: `stat`.
    pub(crate) name: &'static str,
}

/// What a function of a capability answers.
pub(crate) trait Answer: Serialize + DeserializeOwned {
    /// Whether the capability refused the call for want of a grant.
    fn is_denied(&self) -> bool;
}

/// The error of a capability.
pub(crate) trait CapabilityError: Serialize + DeserializeOwned {
    /// Whether it says that a grant is missing.
    fn is_denied(&self) -> bool;
}

impl Answer for () {
    fn is_denied(&self) -> bool {
        false
    }
}

impl<T: Serialize + DeserializeOwned, E: CapabilityError> Answer for Result<T, E> {
    fn is_denied(&self) -> bool {
        matches!(self, Err(error) if error.is_denied())
    }
}

impl AttemptState {
    /// Before a call: it is recorded, and answered here when answers come from a cassette. An error here
    /// ends the attempt.
    pub(crate) fn begin<A: Answer>(
        &mut self,
        function: Function,
        arguments: &impl Serialize,
    ) -> wasmtime::Result<Option<A>> {
        self.meter.call(size::of(arguments))?;
        tracing::trace!(capability = function.capability, function = function.name, "capability call");
        match &self.tape {
            Some(tape) => tape.begin(function, arguments).map_err(wasmtime::Error::msg),
            None => Ok(None),
        }
    }

    /// After a call. An error here ends the attempt.
    pub(crate) fn end<A: Answer>(&mut self, function: Function, answer: A) -> wasmtime::Result<A> {
        if let Some(tape) = &self.tape {
            tape.answer(&answer);
        }
        if answer.is_denied() {
            self.capabilities.denials.record(function.capability, function.name);
        } else {
            self.capabilities.denials.forget();
        }
        self.meter.carry(size::of(&answer))?;
        Ok(answer)
    }
}

/// Makes a call in a span of its own, when somebody collects spans. Its arguments and its answer are not in it.
pub(crate) async fn traced<A: Answer>(function: Function, call: impl Future<Output = A> + Send) -> A {
    let span = tracing::trace_span!(
        target: SPANS,
        "capability",
        otel.name = format!("{}.{}", function.capability, function.name),
        capability = function.capability,
        function = function.name,
        denied = Empty,
        resolved_profile = Empty,
    );
    let answer = call.instrument(span.clone()).await;
    span.record("denied", answer.is_denied());
    answer
}

/// `call!(self, files.stat(path))`: calls `self.capabilities.files.stat(path)` through the gate.
macro_rules! call {
    ($state:ident, $capability:ident.$function:ident($($argument:ident),*)) => {{
        const FUNCTION: $crate::sandbox::gate::Function = $crate::sandbox::gate::Function {
            capability: stringify!($capability),
            name: stringify!($function),
        };
        let answer = match $state.begin(FUNCTION, &($(&$argument,)*))? {
            Some(answer) => answer,
            None => $crate::sandbox::gate::traced(FUNCTION, $state.capabilities.$capability.$function($($argument),*)).await,
        };
        $state.end(FUNCTION, answer)
    }};
}
pub(crate) use call;
