//! One call of a component: a fresh store, the call, and what became of it in words.

use std::time::Duration;

use fettle_model::{
    cassette::{Function, Outcome},
    failure::{Failure, FailureClass},
};
use wasmtime::{Store, component::InstancePre};

use super::{
    AttemptState, Step, Tape,
    bindings::{Component, exports::fettle::step::step::Context, fettle::step::types},
    ending::{self, exceeded, permanent},
    limits::{self, Limit},
    spent::Spent,
};
use crate::capabilities::Prepared;

/// What a call needs besides its input.
pub struct Call {
    /// Which attempt it is.
    pub context: Context,
    /// The capabilities, prepared for this attempt.
    pub capabilities: Prepared,
    /// The longest that the attempt may take, host calls included.
    pub timeout: Duration,
    /// How long the attempt has taken already, in earlier calls.
    pub elapsed: Duration,
    /// What the attempt has spent already; its calls share one.
    pub spent: Spent,
    /// Records the call, or answers for the capabilities.
    pub tape: Option<Tape>,
}

/// How far a call may go.
struct Allowance {
    timeout: Duration,
    elapsed: Duration,
    spent: Spent,
    tape: Option<Tape>,
}

/// What a probe found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// The desired state holds; the step's output.
    Satisfied(serde_json::Value),
    /// It does not; what would change.
    Unsatisfied(String),
    /// It cannot be told; why.
    Unknown(String),
}

/// How long a description may take.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(5);

impl Step {
    /// The component's descriptor, as text.
    ///
    /// # Errors
    /// When the component fails or exceeds a limit.
    pub(super) async fn describe(&self) -> Result<String, Failure> {
        let capabilities = Prepared::default();
        let allowance =
            Allowance { timeout: DESCRIBE_TIMEOUT, elapsed: Duration::ZERO, spent: Spent::default(), tape: None };
        self.call(capabilities, allowance, async |component, store| {
            component.fettle_step_step().call_describe(store).await.map(Ok)
        })
        .await
    }

    /// Looks, changes nothing.
    ///
    /// # Errors
    /// The step's own failure, or the limit it exceeded.
    pub async fn probe(&self, call: Call, input: &str) -> Result<Observation, Failure> {
        let (context, capabilities, allowance) = call.begin(Function::Probe, None);
        let tape = allowance.tape.clone();
        let observed = self
            .call(capabilities, allowance, async |component, store| {
                component.fettle_step_step().call_probe(store, &context, input).await
            })
            .await;
        recorded(tape.as_ref(), observed.and_then(|observed| self.observation(observed)))
    }

    /// An observation, and how it is recorded.
    fn observation(&self, observed: types::Observation) -> Result<(Observation, Outcome), Failure> {
        Ok(match observed {
            types::Observation::Satisfied(output) => {
                (Observation::Satisfied(self.json(&output)?), Outcome::Satisfied(output))
            }
            types::Observation::Unsatisfied(difference) => {
                let difference = cut(difference, 64 << 10);
                (Observation::Unsatisfied(difference.clone()), Outcome::Unsatisfied(difference))
            }
            types::Observation::Unknown(reason) => {
                let reason = cut(reason, 4 << 10);
                (Observation::Unknown(reason.clone()), Outcome::Unknown(reason))
            }
        })
    }

    /// Does the work.
    ///
    /// # Errors
    /// The step's own failure, or the limit it exceeded.
    pub async fn run(&self, call: Call, input: &str) -> Result<serde_json::Value, Failure> {
        let (context, capabilities, allowance) = call.begin(Function::Run, None);
        let tape = allowance.tape.clone();
        let output = self
            .call(capabilities, allowance, async |component, store| {
                component.fettle_step_step().call_run(store, &context, input).await
            })
            .await;
        recorded(tape.as_ref(), output.and_then(|output| Ok((self.json(&output)?, Outcome::Answered(output)))))
    }

    /// Takes back what `run` did.
    ///
    /// # Errors
    /// The step's own failure, or the limit it exceeded.
    pub async fn undo(&self, call: Call, input: &str, output: Option<&str>) -> Result<(), Failure> {
        let (context, capabilities, allowance) = call.begin(Function::Undo, output);
        let tape = allowance.tape.clone();
        let undone = self
            .call(capabilities, allowance, async |component, store| {
                component.fettle_step_step().call_undo(store, &context, input, output).await
            })
            .await;
        recorded(tape.as_ref(), undone.map(|()| ((), Outcome::Undone)))
    }

    async fn call<T>(
        &self,
        capabilities: Prepared,
        allowance: Allowance,
        body: impl AsyncFnOnce(&Component, &mut Store<AttemptState>) -> wasmtime::Result<Result<T, types::Failure>>,
    ) -> Result<T, Failure> {
        // Waiting for a place is not the step's time.
        let place = self.sandbox.place(self.allocation).enter().await;
        let _place = place.map_err(|closed| permanent("host.stopped", closed.to_string()))?;
        let Allowance { timeout, elapsed, spent, tape } = allowance;
        let mut store = self.store(capabilities, spent.clone(), tape);
        let result = {
            let whole = async {
                let component = instantiate(&self.instance, &mut store).await?;
                body(&component, &mut store).await
            };
            let shared = self.sandbox.processor.share(&spent, whole);
            tokio::time::timeout(timeout.saturating_sub(elapsed), shared).await
        };
        match result {
            Err(_) => Err(exceeded(Limit::WallClock, &limits::duration(timeout))),
            Ok(Err(error)) => Err(ending::explain(&error, store.data())),
            Ok(Ok(Err(failure))) => Err(from_step(failure)),
            Ok(Ok(Ok(value))) => Ok(value),
        }
    }

    fn store(&self, capabilities: Prepared, spent: Spent, tape: Option<Tape>) -> Store<AttemptState> {
        let limits = &self.limits.limits;
        let state = AttemptState::new(capabilities, limits, spent, tape);
        let mut store = Store::new(self.instance.engine(), state);
        store.limiter(|state| &mut state.meter);
        store.set_hostcall_fuel(limits.host_call);
        store.set_max_component_handles(limits.handles);
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(|mut context| context.data_mut().tick());
        store
    }

    fn json(&self, text: &str) -> Result<serde_json::Value, Failure> {
        let limits = &self.limits.limits;
        if text.len() > limits.output {
            return Err(exceeded(Limit::Output, &Limit::Output.amount(limits)));
        }
        serde_json::from_str(text).map_err(|error| {
            permanent(
                "step.invalid-json",
                format!("the step answered something that is not JSON: {error}; fix the component"),
            )
        })
    }
}

impl Call {
    fn begin(self, function: Function, output: Option<&str>) -> (Context, Prepared, Allowance) {
        let Self { context, capabilities, timeout, elapsed, spent, tape } = self;
        if let Some(tape) = &tape {
            tape.function(function, output);
        }
        (context, capabilities, Allowance { timeout, elapsed, spent, tape })
    }
}

/// Records what a call came to.
fn recorded<T>(tape: Option<&Tape>, result: Result<(T, Outcome), Failure>) -> Result<T, Failure> {
    match (result, tape) {
        (Ok((value, _)), None) => Ok(value),
        (Ok((value, outcome)), Some(tape)) => {
            tape.outcome(&outcome);
            Ok(value)
        }
        (Err(failure), None) => Err(failure),
        (Err(failure), Some(tape)) => {
            tape.outcome(&Outcome::Failed(failure.clone()));
            Err(failure)
        }
    }
}

async fn instantiate(
    instance: &InstancePre<AttemptState>,
    store: &mut Store<AttemptState>,
) -> wasmtime::Result<Component> {
    let instance = instance.instantiate_async(&mut *store).await?;
    Component::new(store, &instance)
}

/// A failure that the step itself tells, cut to the contract's sizes.
fn from_step(failure: types::Failure) -> Failure {
    let class = match failure.class {
        types::FailureClass::InvalidInput => FailureClass::InvalidInput,
        types::FailureClass::Denied => FailureClass::Denied,
        types::FailureClass::Transient => FailureClass::Transient,
        types::FailureClass::Permanent => FailureClass::Permanent,
        types::FailureClass::Unknown => FailureClass::Unknown,
        types::FailureClass::Canceled => FailureClass::Canceled,
    };
    Failure::new(class, cut(failure.code, 64), cut(failure.message, 4 << 10))
}

pub(super) fn cut(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        let end = (0..=limit).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
    }
    text
}
