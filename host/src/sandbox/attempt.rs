//! One call of a component: a fresh store, the call, and what became of it in words.

use std::time::Duration;

use fettle_model::failure::{Failure, FailureClass};
use wasmtime::{Store, Trap, UpdateDeadline, component::InstancePre};

use super::{
    AttemptState, Step,
    bindings::{Component, exports::fettle::step::step::Context, fettle::step::types},
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
    /// What the attempt has taken already, in earlier calls.
    pub elapsed: Duration,
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
        self.call(capabilities, (DESCRIBE_TIMEOUT, Duration::ZERO), async |component, store| {
            component.fettle_step_step().call_describe(store).await.map(Ok)
        })
        .await
    }

    /// Looks, changes nothing.
    ///
    /// # Errors
    /// The step's own failure, or the limit it exceeded.
    pub async fn probe(&self, call: Call, input: &str) -> Result<Observation, Failure> {
        let Call { context, capabilities, timeout, elapsed } = call;
        let observed = self
            .call(capabilities, (timeout, elapsed), async |component, store| {
                component.fettle_step_step().call_probe(store, &context, input).await
            })
            .await?;
        Ok(match observed {
            types::Observation::Satisfied(output) => Observation::Satisfied(self.json(&output)?),
            types::Observation::Unsatisfied(diff) => Observation::Unsatisfied(cut(diff, 64 << 10)),
            types::Observation::Unknown(reason) => Observation::Unknown(cut(reason, 4 << 10)),
        })
    }

    /// Does the work.
    ///
    /// # Errors
    /// The step's own failure, or the limit it exceeded.
    pub async fn run(&self, call: Call, input: &str) -> Result<serde_json::Value, Failure> {
        let Call { context, capabilities, timeout, elapsed } = call;
        let output = self
            .call(capabilities, (timeout, elapsed), async |component, store| {
                component.fettle_step_step().call_run(store, &context, input).await
            })
            .await?;
        self.json(&output)
    }

    /// Takes back what `run` did.
    ///
    /// # Errors
    /// The step's own failure, or the limit it exceeded.
    pub async fn undo(&self, call: Call, input: &str, output: Option<&str>) -> Result<(), Failure> {
        let Call { context, capabilities, timeout, elapsed } = call;
        self.call(capabilities, (timeout, elapsed), async |component, store| {
            component.fettle_step_step().call_undo(store, &context, input, output).await
        })
        .await
    }

    async fn call<T>(
        &self,
        capabilities: Prepared,
        (timeout, elapsed): (Duration, Duration),
        body: impl AsyncFnOnce(&Component, &mut Store<AttemptState>) -> wasmtime::Result<Result<T, types::Failure>>,
    ) -> Result<T, Failure> {
        // Waiting for a slot is not the step's time.
        let permit = self.sandbox.slots.acquire().await;
        let _permit = permit.map_err(|_| permanent("host.stopped", "the host is shutting down"))?;
        let mut store = self.store(capabilities);
        let result = {
            let whole = async {
                let component = instantiate(&self.instance, &mut store).await?;
                body(&component, &mut store).await
            };
            tokio::time::timeout(timeout.saturating_sub(elapsed), whole).await
        };
        match result {
            Err(_) => Err(permanent(
                "limit.wall-clock",
                format!(
                    "the step was stopped after {}: its timeout; raise `timeout` in the definition if it needs longer",
                    humantime(timeout)
                ),
            )),
            Ok(Err(error)) => Err(explain(&error, store.data())),
            Ok(Ok(Err(failure))) => Err(from_step(failure)),
            Ok(Ok(Ok(value))) => Ok(value),
        }
    }

    fn store(&self, capabilities: Prepared) -> Store<AttemptState> {
        let state = AttemptState::new(capabilities, self.sandbox.limits.clone());
        let host_call = self.sandbox.limits.host_call;
        let mut store = Store::new(self.sandbox.engine.engine(), state);
        store.limiter(|state| &mut state.meter);
        store.set_hostcall_fuel(host_call);
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(|mut context| {
            let state = context.data_mut();
            match state.ticks_left.checked_sub(1) {
                Some(left) => {
                    state.ticks_left = left;
                    Ok(UpdateDeadline::Yield(1))
                }
                None => {
                    state.meter.exceeded = Some("processor time");
                    Ok(UpdateDeadline::Interrupt)
                }
            }
        });
        store
    }

    fn json(&self, text: &str) -> Result<serde_json::Value, Failure> {
        let limit = self.sandbox.limits.output;
        if text.len() > limit {
            return Err(permanent(
                "limit.output",
                format!("the step answered {} bytes and may answer {limit}; return less, or write a file", text.len()),
            ));
        }
        serde_json::from_str(text).map_err(|error| {
            permanent(
                "step.invalid-json",
                format!("the step answered something that is not JSON: {error}; fix the component"),
            )
        })
    }
}

async fn instantiate(
    instance: &InstancePre<AttemptState>,
    store: &mut Store<AttemptState>,
) -> wasmtime::Result<Component> {
    let instance = instance.instantiate_async(&mut *store).await?;
    Component::new(store, &instance)
}

fn permanent(code: &str, message: impl Into<String>) -> Failure {
    Failure::new(FailureClass::Permanent, code, message)
}

fn humantime(duration: Duration) -> String {
    if duration.as_secs() > 0 { format!("{} s", duration.as_secs()) } else { format!("{} ms", duration.as_millis()) }
}

/// Why a component stopped without answering.
fn explain(error: &wasmtime::Error, state: &AttemptState) -> Failure {
    let limits = state.meter.limits();
    match state.meter.exceeded {
        Some("processor time") => {
            return permanent(
                "limit.cpu",
                format!(
                    "the step computed for {} without ending and was stopped; its limit is processor time",
                    humantime(limits.cpu)
                ),
            );
        }
        Some("memory") => {
            return permanent(
                "limit.memory",
                format!("the step wanted more than its {} MiB of memory and was stopped", limits.memory >> 20),
            );
        }
        Some(what) => {
            return permanent("limit.tables", format!("the step exceeded its limit of {what} and was stopped"));
        }
        None => {}
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::UnreachableCodeReached) => {
            permanent("step.panicked", format!("the step panicked: {}", cut(state.standard_error(), 1 << 10)))
        }
        Some(trap) => permanent("step.trapped", format!("the step was stopped: {trap}")),
        None => permanent("step.trapped", format!("the step was stopped: {error:#}")),
    }
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

fn cut(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        let end = (0..=limit).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
    }
    text
}
