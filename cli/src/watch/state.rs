//! What is known of an operation while it is followed.

use std::time::Duration;

use fettle_model::operation::{OperationStatus, StepStatus};
use jiff::Timestamp;

use super::text::clean;
use crate::plane::{Event, Followed, Operation, Step};

/// An operation as it is drawn.
#[derive(Clone, Debug)]
pub struct WatchState {
    /// `operation_type@version`
    pub title: String,
    /// The node, as it was asked for.
    pub node: String,
    /// Where it is.
    pub status: OperationStatus,
    /// When a node took it.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// Its steps, in the order of the plan.
    pub steps: Vec<StepState>,
    /// Whether the plane is away.
    pub lost: bool,
}

/// A step as it is drawn.
#[derive(Clone, Debug)]
pub struct StepState {
    /// The node, by its id.
    node_id: Option<String>,
    /// Its name in the definition.
    step_id: String,
    /// What it is called.
    pub id: String,
    /// Its kind.
    pub kind: String,
    /// Steps before it.
    pub needs: Vec<String>,
    /// Where it is.
    pub status: StepStatus,
    /// The latest attempt; 0 when none was started.
    pub attempt: u32,
    /// How far it is, 0 to 100.
    pub percent: Option<u8>,
    /// The last that was heard of it: what it says it is doing, or its last log line.
    pub text: String,
    /// When its attempt started.
    pub started_at: Option<Timestamp>,
    /// How long its last attempt took.
    pub duration: Option<Duration>,
    /// False when there was nothing to do.
    pub changed: Option<bool>,
    /// Why it failed.
    pub failure: Option<String>,
    /// The step whose failure kept it from starting.
    pub because_of: Option<String>,
}

impl WatchState {
    /// What is known before anything is heard. Where the steps are is heard from the beginning.
    #[must_use]
    pub fn new(operation: &Operation) -> Self {
        Self {
            title: format!("{}@{}", operation.operation_type, operation.version),
            node: clean(&operation.place()),
            status: OperationStatus::Queued,
            started_at: None,
            finished_at: None,
            steps: operation.steps.iter().flatten().map(|step| StepState::new(operation, step)).collect(),
            lost: false,
        }
    }

    /// Takes the plane's last word.
    pub fn refresh(&mut self, operation: &Operation) {
        let time = |text: &Option<String>| text.as_deref().and_then(|text| text.parse().ok());
        self.status = operation.status;
        self.started_at = time(&operation.started_at);
        self.finished_at = time(&operation.finished_at);
        self.lost = false;
        for (known, told) in self.steps.iter_mut().zip(operation.steps.iter().flatten()) {
            known.status = told.status;
            known.duration = told.duration_ms.map(Duration::from_millis).filter(|_| told.attempt_number > 0);
            known.changed = told.changed;
            known.failure = told.failure.as_ref().map(|failure| clean(&failure.to_string()));
            known.because_of = told.because_of.as_deref().map(clean).filter(|other| !other.is_empty());
        }
    }

    /// Takes what was heard.
    pub fn hear(&mut self, heard: Followed) {
        match heard {
            Followed::Event { event, .. } => self.event(&event),
            Followed::Log(line) => {
                if let Some(step) = self.step(line.node_id.as_deref(), &line.step_id) {
                    step.text = clean(&line.text);
                }
            }
            Followed::Lost => self.lost = true,
            Followed::Back => self.lost = false,
        }
    }

    /// How long it has been running, or ran.
    #[must_use]
    pub fn elapsed(&self, now: Timestamp) -> Option<Duration> {
        between(self.started_at?, self.finished_at.unwrap_or(now))
    }

    fn event(&mut self, event: &Event) {
        match event.event.as_str() {
            "operation.completed" => self.status = OperationStatus::Succeeded,
            "operation.failed" => self.status = OperationStatus::Failed,
            "operation.canceled" => self.status = OperationStatus::Canceled,
            "operation.progress" => {
                self.status = OperationStatus::Running;
                self.started_at = self.started_at.or_else(|| event.at.parse().ok());
            }
            _ => {}
        }
        if self.status.is_final() {
            self.finished_at = event.at.parse().ok();
        }
        let Some(name) = &event.payload.current_step_name else { return };
        if let Some(step) = self.step(event.payload.node_id.as_deref(), name) {
            step.event(event);
        }
    }

    /// The same step runs on each node.
    fn step(&mut self, node_id: Option<&str>, step_id: &str) -> Option<&mut StepState> {
        self.steps
            .iter_mut()
            .find(|step| step.step_id == step_id && (node_id.is_none() || step.node_id.as_deref() == node_id))
    }
}

impl StepState {
    fn new(operation: &Operation, step: &Step) -> Self {
        Self {
            node_id: step.node_id.clone(),
            step_id: step.step_id.clone(),
            id: clean(&operation.step_name(step)),
            kind: clean(&step.kind),
            needs: step.needs.iter().map(|id| clean(&operation.name_on_node(step.node_id.as_deref(), id))).collect(),
            status: StepStatus::Pending,
            attempt: 0,
            percent: None,
            text: String::new(),
            started_at: None,
            duration: None,
            changed: None,
            failure: None,
            because_of: None,
        }
    }

    fn event(&mut self, event: &Event) {
        let told = &event.payload;
        if let Some(settlement) = &told.settlement {
            // It says what an attempt came to, and nothing of how far the step is.
            self.text = clean(&settlement.message);
            return;
        }
        self.status = told.step_status.unwrap_or(self.status);
        self.attempt = told.attempt_number.unwrap_or(self.attempt);
        self.percent = told.step_percent;
        self.started_at = told.step_started_at.as_deref().and_then(|at| at.parse().ok()).or(self.started_at);
        self.duration = told.duration_ms.map(Duration::from_millis).filter(|_| self.attempt > 0);
        self.changed = told.changed;
        if let Some(message) = &told.step_message {
            self.text = clean(message);
        }
        self.because_of = told.because_of.as_deref().map(clean).filter(|other| !other.is_empty());
        let failure = told.failure.as_ref().map(|failure| clean(&failure.to_string()));
        match (failure, told.retry_in_ms) {
            (Some(failure), Some(_)) => self.text = format!("attempt {} failed: {failure}", self.attempt),
            (failure, _) => self.failure = failure,
        }
    }

    /// How long its attempt has been running, or ran.
    #[must_use]
    pub fn elapsed(&self, now: Timestamp) -> Option<Duration> {
        match self.status {
            StepStatus::Running => between(self.started_at?, now),
            StepStatus::Pending
            | StepStatus::Succeeded
            | StepStatus::Failed
            | StepStatus::Skipped
            | StepStatus::Canceled => self.duration,
        }
    }
}

/// Nothing when the clocks of node and watcher disagree about the order.
fn between(from: Timestamp, to: Timestamp) -> Option<Duration> {
    Duration::try_from(to.duration_since(from)).ok()
}
