//! What reports change, as a function of what is stored. A store reads the tasks and steps that reports are about,
//! has them folded, and writes what is different: a few statements, however many reports there are.

use std::collections::{HashMap, HashSet};

use fettle_model::{name::StepId, task::StepEvent};
use fettle_store::{
    StoreError,
    audit::{AuditRecord, DeniedCall},
    change::Change,
    context::Context,
    fact::Fact,
    id::TaskId,
    task::{Report, Verdict},
};
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    audit::{denied, report_key},
    log::Kept,
    step::{StepRow, of_event},
    task::{Fence, Held},
};

/// Denied calls stored of one report. A host reports fewer of a whole attempt.
const DENIALS: usize = 64;

/// Tasks and steps while reports of them are stored.
pub struct Folding<'r> {
    tasks: HashMap<String, Held>,
    steps: HashMap<(String, String), StepRow>,
    moved: HashSet<String>,
    /// What is to be written besides tasks and steps.
    pub effects: Effects<'r>,
}

/// What follows from reports.
#[derive(Default)]
pub struct Effects<'r> {
    /// Payloads of `operation.progress`, with their operation and time.
    pub events: Vec<(String, Timestamp, Value)>,
    /// Rows of the audit trail that are written once for their key: the row, its operation, its key.
    pub denied: Vec<(AuditRecord, String, String)>,
    /// Lines of logs.
    pub logs: Vec<Lines<'r>>,
    /// Operations that run from now on.
    pub started: Vec<(String, Timestamp)>,
    /// What was witnessed.
    pub facts: Vec<Fact>,
    /// Whom to tell.
    pub changes: Vec<Change>,
}

/// Lines of the log of a step that are kept.
pub struct Lines<'r> {
    /// The operation.
    pub operation_id: String,
    /// The node.
    pub node_id: String,
    /// The step.
    pub step_id: &'r StepId,
    /// The attempt, among those of all runs.
    pub attempt: u32,
    /// In order.
    pub lines: Vec<Kept<'r>>,
}

/// The task has no such step.
#[must_use]
pub fn unknown_step(task_id: TaskId, step_id: &StepId) -> StoreError {
    StoreError::not_found("step", format!("{step_id}` in task `{task_id}"))
}

/// The tasks that reports are about, each once and in order.
#[must_use]
pub fn tasks<'r>(reports: impl Iterator<Item = &'r [Report]>) -> Vec<String> {
    let mut tasks: Vec<String> = reports.flatten().map(|report| report.lease.task_id.to_string()).collect();
    tasks.sort_unstable();
    tasks.dedup();
    tasks
}

/// The steps that reports are about, each once, as pairs of task and step.
#[must_use]
pub fn steps<'r>(reports: impl Iterator<Item = &'r [Report]>) -> Vec<(String, String)> {
    let pair = |report: &Report| (report.lease.task_id.to_string(), of_event(&report.event).to_string());
    let mut steps: Vec<_> = reports.flatten().map(pair).collect();
    steps.sort_unstable();
    steps.dedup();
    steps
}

impl<'r> Folding<'r> {
    /// Begins with what is stored.
    #[must_use]
    pub fn new(tasks: Vec<(String, Held)>, steps: Vec<StepRow>) -> Self {
        let steps = steps.into_iter().map(|step| ((step.task_id.clone(), step.step_id.clone()), step));
        Self {
            tasks: tasks.into_iter().collect(),
            steps: steps.collect(),
            moved: HashSet::new(),
            effects: Effects::default(),
        }
    }

    /// Takes reports of one node. Each is accepted or refused on its own.
    ///
    /// # Errors
    /// When what is stored is malformed.
    pub fn apply(
        &mut self,
        reports: &'r [Report],
        context: &Context,
    ) -> Result<Vec<Result<Verdict, StoreError>>, StoreError> {
        let mut verdicts = Vec::with_capacity(reports.len());
        for report in reports {
            match self.report(report, context) {
                Err(error @ (StoreError::Unavailable { .. } | StoreError::Corrupt { .. })) => return Err(error),
                verdict => verdicts.push(verdict),
            }
        }
        Ok(verdicts)
    }

    /// Steps that are different now.
    pub fn changed_steps(&self) -> Vec<&StepRow> {
        self.steps.values().filter(|step| step.is_changed).collect()
    }

    /// Tasks of which more was told than before, with the number of the last event.
    pub fn moved_tasks(&self) -> Vec<(&str, i64)> {
        let moved = self.tasks.iter().filter(|(task_id, _)| self.moved.contains(*task_id));
        moved.map(|(task_id, held)| (task_id.as_str(), held.last_sequence)).collect()
    }

    fn report(&mut self, report: &'r Report, context: &Context) -> Result<Verdict, StoreError> {
        let task_id = report.lease.task_id.to_string();
        let Some(held) = self.tasks.get_mut(&task_id) else { return Ok(Verdict::Stale) };
        let sequence = i64::try_from(report.sequence).unwrap_or(i64::MAX);
        let seen = sequence <= held.last_sequence;
        match held.fence(&report.lease) {
            Fence::Stale => return Ok(Verdict::Stale),
            Fence::Ended => return Ok(if seen { Verdict::Accepted } else { Verdict::Stale }),
            // A result is guarded by the state of its step and a denial by its own key, so they need no number:
            // should a host count wrongly after a crash, a line of a log may be lost, but neither of them.
            Fence::Current
                if seen && !matches!(report.event, StepEvent::Finished { .. } | StepEvent::Denied { .. }) =>
            {
                return Ok(Verdict::Accepted);
            }
            Fence::Current => {}
        }
        let step_id = of_event(&report.event);
        let step = self.steps.get_mut(&(task_id.clone(), step_id.to_string()));
        let step = step.ok_or_else(|| unknown_step(report.lease.task_id, step_id))?;
        self.effects.take(held, step, report, context)?;
        if !seen {
            held.last_sequence = sequence;
            self.moved.insert(task_id);
        }
        Ok(Verdict::Accepted)
    }
}

impl<'r> Effects<'r> {
    fn take(
        &mut self,
        held: &Held,
        step: &mut StepRow,
        report: &'r Report,
        context: &Context,
    ) -> Result<(), StoreError> {
        let operation_id = &held.subject.operation_id;
        if matches!(report.event, StepEvent::Started { .. }) && held.acknowledged == 0 {
            self.started.push((operation_id.clone(), context.at));
        }
        match &report.event {
            StepEvent::Log { step_id, attempt, lines } => {
                let (attempt, lines) = (step.attempt(*attempt)?, step.log(lines));
                let (operation_id, node_id) = (operation_id.clone(), held.node_id.clone());
                self.logs.push(Lines { operation_id, node_id, step_id, attempt, lines });
            }
            StepEvent::Denied { step_id, attempt, component, denials } => {
                let attempt = step.attempt(*attempt)?;
                for denial in denials.iter().take(DENIALS) {
                    let denial = denial.clone().shortened();
                    let call = DeniedCall { step_id: step_id.clone(), attempt, component: *component, denial };
                    let key = report_key(&step.task_id, &call);
                    self.denied.push((denied(context, &held.subject, &call)?, operation_id.clone(), key));
                }
            }
            event => {
                if let Some(told) = step.apply(held, event, context)? {
                    self.events.push((operation_id.clone(), context.at, told.payload));
                    self.facts.extend(told.fact);
                }
            }
        }
        let change = held.subject.change()?;
        if !self.changes.contains(&change) {
            self.changes.push(change);
        }
        Ok(())
    }
}
