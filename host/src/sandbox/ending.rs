//! Why a component stopped without answering, in words.

use fettle_model::failure::{Failure, FailureClass};
use wasmtime::Trap;

use super::{AttemptState, attempt::cut, limits::Limit};

/// What wasmtime says when a limit that it counts itself is reached. It has no types for these.
const WORDS: [(&str, Limit); 7] = [
    ("resource limit exceeded: instance", Limit::Instances),
    ("resource limit exceeded: memory", Limit::Memories),
    ("resource limit exceeded: table", Limit::Tables),
    ("store handle limit exceeded", Limit::Handles),
    ("resource table has no free keys", Limit::Handles),
    ("fuel allocated for hostcalls has been exhausted", Limit::HostCall),
    ("requested len ", Limit::HostCall),
];

pub(super) fn permanent(code: &str, message: impl Into<String>) -> Failure {
    Failure::new(FailureClass::Permanent, code, message)
}

/// The failure of an attempt that reached a limit of `amount`.
pub(super) fn exceeded(limit: Limit, amount: &str) -> Failure {
    let what = match limit {
        Limit::Memory => "wanted more memory than",
        Limit::Memories => "has more memories than its",
        Limit::Tables => "has more tables than its",
        Limit::TableElements => "wanted larger tables than",
        Limit::Instances => "has more core instances than its",
        Limit::Stack => "recursed beyond the call stack of",
        Limit::Handles => "held more than its",
        Limit::Cpu => "computed for longer than",
        Limit::WallClock => "took longer than its timeout of",
        Limit::HostCall => "passed more in one host call than",
        Limit::HostBytes => "passed more in all host calls than",
        Limit::HostCalls => "made more than its",
        Limit::Output => "answered more than",
    };
    permanent(limit.code(), format!("the step {what} {amount} and was stopped; {}", limit.advice()))
}

/// Why a component stopped without answering.
pub(super) fn explain(error: &wasmtime::Error, state: &AttemptState) -> Failure {
    let limits = state.meter.limits();
    if let Some(limit) = state.meter.exceeded.or_else(|| reached(error)) {
        return exceeded(limit, &limit.amount(limits));
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::UnreachableCodeReached) => {
            permanent("step.panicked", format!("the step panicked: {}", cut(state.standard_error(), 1 << 10)))
        }
        Some(trap) => permanent("step.trapped", format!("the step was stopped: {trap}")),
        None => permanent("step.trapped", format!("the step was stopped: {error:#}")),
    }
}

fn reached(error: &wasmtime::Error) -> Option<Limit> {
    if matches!(error.downcast_ref::<Trap>(), Some(Trap::StackOverflow)) {
        return Some(Limit::Stack);
    }
    let text = format!("{error:#}");
    let own = Limit::ALL.into_iter().map(|limit| (limit.code(), limit));
    WORDS.into_iter().chain(own).find(|(words, _)| text.contains(words)).map(|(_, limit)| limit)
}
