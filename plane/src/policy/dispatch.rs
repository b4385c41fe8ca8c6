//! Whether a node may be given a task now.

use super::{
    decision::{Broken, RegoTaken},
    input::DispatchInput,
    rego::{Entry, Rego},
};

/// What was decided about a task that is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DispatchDecision {
    /// It may go.
    Go,
    /// It waits. Asked again later, the answer may be another.
    Wait {
        /// Every rule that denies.
        broken: Vec<Broken>,
        /// What was asked.
        taken: RegoTaken,
    },
}

/// Asks `data.fettle.dispatch.deny`. Without such a policy everything goes.
pub(crate) async fn decide(rego: &Rego, input: &DispatchInput) -> DispatchDecision {
    if !rego.has(Entry::Dispatch) {
        return DispatchDecision::Go;
    }
    let verdict = rego.decide(Entry::Dispatch, input).await;
    if verdict.broken.is_empty() {
        DispatchDecision::Go
    } else {
        DispatchDecision::Wait { broken: verdict.broken, taken: verdict.taken }
    }
}
