//! Rows of what became of steps whose end nobody saw, and who may still decide about it.

use std::collections::BTreeSet;

use fettle_model::{
    failure::{Failure, FailureClass},
    name::StepId,
    operation::{OperationStatus, StepOutcome, StepStatus},
    settlement::{Finding, INTERRUPTED, Interruption, NOT_DONE, Settlement},
};
use fettle_store::{
    StoreError,
    context::Context,
    id::OperationId,
    operation::{Decision, Operation},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx_macros::FromRow;

use crate::{
    row,
    subject::{Subject, with},
    task::TaskEnding,
};

const STEP: &str = "operation step";

/// A step with what decides whether its outcome is known.
#[derive(Clone, Debug, FromRow)]
pub struct OutcomeRow {
    /// Its task.
    pub task_id: String,
    /// The node of the task.
    pub node_id: String,
    /// Its name.
    pub step_id: String,
    /// Its status.
    pub status: String,
    outcome: Option<String>,
    settlement: Option<String>,
}

impl OutcomeRow {
    /// Whether nobody knows if it happened, so that a person or a probe has to say so first.
    ///
    /// # Errors
    /// When a column is malformed.
    pub fn is_in_question(&self) -> Result<bool, StoreError> {
        if self.status == StepStatus::Succeeded.name() {
            return Ok(false);
        }
        let settlement: Option<Settlement> = row::optional_document(STEP, self.settlement.as_deref())?;
        let outcome: Option<StepOutcome> = row::optional_document(STEP, self.outcome.as_deref())?;
        let unknown =
            matches!(&outcome, Some(StepOutcome::Failed { failure }) if failure.class == FailureClass::Unknown);
        Ok(unknown || settlement.is_some_and(|settlement| settlement.needs_person))
    }

    /// What is known of it, for a sentence.
    fn said(&self) -> Result<String, StoreError> {
        let settlement: Option<Settlement> = row::optional_document(STEP, self.settlement.as_deref())?;
        let outcome: Option<StepOutcome> = row::optional_document(STEP, self.outcome.as_deref())?;
        Ok(match (outcome, settlement) {
            (Some(StepOutcome::Failed { failure }), _) => failure.message,
            (_, Some(settlement)) => settlement.message,
            _ => self.status.clone(),
        })
    }
}

/// Refuses to run a step again of which nobody knows whether it happened.
///
/// # Errors
/// `Conflict` then.
pub fn refuse_in_question(steps: &[OutcomeRow]) -> Result<(), StoreError> {
    for step in steps {
        if step.is_in_question()? {
            return Err(StoreError::conflict(
                "operation.outcome_unknown",
                format!(
                    "nobody knows whether step `{}` happened on node {}: {}; ask its probe with `fettle operation force-probe`, \
                     or look at the node and say so with `fettle operation recover`, or retry and accept that the step may \
                     happen twice",
                    step.step_id,
                    step.node_id,
                    step.said()?
                ),
            ));
        }
    }
    Ok(())
}

/// What a task only asks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inquiry {
    /// The steps in question.
    pub steps: BTreeSet<StepId>,
    /// Whether the task that it replaces was canceled: then it stays so, unless everything turns out done.
    #[serde(default)]
    pub canceled: bool,
}

impl Inquiry {
    /// How a task ends that only asked.
    #[must_use]
    pub fn ending(&self, reported: TaskEnding) -> TaskEnding {
        match reported {
            TaskEnding::Failed { .. } if self.canceled => TaskEnding::Canceled,
            other => other,
        }
    }
}

/// What is said of a step in question until its node has answered.
#[must_use]
pub fn asked() -> Settlement {
    Settlement {
        cause: Interruption::Inquiry,
        finding: Finding::Unknown,
        needs_person: true,
        probes: 0,
        decided_by: None,
        message: "the node was asked whether this step has happened, and has not answered yet".to_owned(),
    }
}

/// Refuses to ask about an operation, or to decide about it, that still runs or has succeeded.
///
/// # Errors
/// `Conflict` then.
pub fn refuse_what_is_certain(known: &Operation) -> Result<(), StoreError> {
    let id = known.id;
    match known.state.status() {
        OperationStatus::Failed | OperationStatus::Canceled => Ok(()),
        OperationStatus::Succeeded => Err(StoreError::conflict(
            "operation.succeeded",
            format!("operation {id} has succeeded: every step of it happened, and nothing is in question"),
        )),
        status @ (OperationStatus::Queued | OperationStatus::Running) => Err(StoreError::conflict(
            "operation.not_over",
            format!(
                "operation {id} is {status}: its node still finds out by itself what is true; wait until it is over, or \
                 cancel it first"
            ),
        )),
    }
}

/// Nothing of an operation is in question.
#[must_use]
pub fn nothing_in_question(id: OperationId) -> StoreError {
    StoreError::conflict(
        "operation.nothing_in_question",
        format!(
            "of every step of operation {id} it is known how it ended; only steps are asked about that failed with class \
             `unknown`, or were canceled without a trace; `fettle operation retry` runs what failed"
        ),
    )
}

/// The step that a person decides about.
///
/// # Errors
/// `NotFound` when there is none; `Conflict` when several nodes have it in question, or it is known how it ended.
pub fn decided<'a>(steps: &'a [OutcomeRow], decision: &Decision) -> Result<&'a OutcomeRow, StoreError> {
    let named: Vec<&OutcomeRow> = steps
        .iter()
        .filter(|step| step.step_id == decision.step_id.as_str())
        .filter(|step| decision.node_id.is_none_or(|node| step.node_id == node.to_string()))
        .collect();
    let mut open = Vec::new();
    for step in &named {
        if step.is_in_question()? {
            open.push(*step);
        }
    }
    match (open.as_slice(), named.first()) {
        ([one], _) => Ok(one),
        ([], Some(known)) => Err(StoreError::conflict(
            "step.not_in_question",
            format!(
                "step `{}` on node {} is {}, and it is known how it ended; a person decides only about a step of which \
                 nobody knows whether it happened",
                known.step_id, known.node_id, known.status
            ),
        )),
        ([], None) => Err(StoreError::not_found("step", &decision.step_id)),
        (several, _) => Err(StoreError::conflict(
            "step.on_several_nodes",
            format!("step `{}` is in question on {} nodes; say which one with `node`", decision.step_id, several.len()),
        )),
    }
}

/// What a person's word makes of a step.
#[must_use]
pub fn judged(decision: &Decision, context: &Context) -> (StepOutcome, Settlement) {
    let actor = context.actor.to_string();
    let (finding, outcome, message) = match &decision.happened {
        Some(output) => {
            let outcome = StepOutcome::Succeeded { output: output.clone(), changed: true };
            (Finding::Finished, outcome, format!("{actor} says that it happened"))
        }
        None => {
            let message = format!("{actor} says that it did not happen");
            let failure = Failure::new(FailureClass::Permanent, NOT_DONE, message.clone());
            (Finding::NotDone, StepOutcome::Failed { failure }, message)
        }
    };
    let settlement = Settlement {
        cause: Interruption::Inquiry,
        finding,
        needs_person: false,
        probes: 0,
        decided_by: Some(actor),
        message,
    };
    (outcome, settlement)
}

/// The failure of an operation whose failure was that nobody knew; none where it failed of something else.
#[must_use]
pub fn failure_after(known: Option<&Failure>, outcome: &StepOutcome) -> Option<Failure> {
    known.filter(|failure| failure.class == FailureClass::Unknown)?;
    Some(match outcome {
        StepOutcome::Failed { failure } => failure.clone(),
        StepOutcome::Succeeded { .. } | StepOutcome::Skipped { .. } | StepOutcome::Canceled => Failure::new(
            FailureClass::Permanent,
            "operation.unfinished",
            "what was in question has happened, and other steps are still to be done; go on with `fettle operation retry`",
        ),
    })
}

/// The payload of the event of a decision.
#[must_use]
pub fn decision_payload(subject: &Subject, step: &OutcomeRow, outcome: &StepOutcome, settlement: &Settlement) -> Value {
    let fields = json!({
        "node_id": step.node_id,
        "current_step_name": step.step_id,
        "step_status": outcome.status(),
        "settlement": settlement,
    });
    with(subject.payload(), fields)
}

/// What the audit trail says of a decision.
#[must_use]
pub fn decision_details(decision: &Decision, step: &OutcomeRow, continues: bool) -> Value {
    json!({
        "step_id": step.step_id,
        "node_id": step.node_id,
        "happened": decision.happened.is_some(),
        "continues": continues,
    })
}

/// Why a task fails that was leased too often.
#[must_use]
pub fn leased_too_often(times: i64) -> Failure {
    Failure::new(
        FailureClass::Permanent,
        "task.leases_exhausted",
        format!(
            "the task was leased to its node {times} times, and the node lost it each time before it had ended; look at the \
             host's log on the node, then retry the operation"
        ),
    )
}

/// What is said of a step that ran on a node which was not heard of again.
#[must_use]
pub fn unheard() -> Settlement {
    Settlement {
        cause: Interruption::Canceled,
        finding: Finding::Unknown,
        needs_person: true,
        probes: 0,
        decided_by: None,
        message: format!(
            "the step ran when its node was last heard of, and the node has not said how it ended [{INTERRUPTED}]; ask it with \
             `fettle operation force-probe`, or say so with `fettle operation recover`"
        ),
    }
}
