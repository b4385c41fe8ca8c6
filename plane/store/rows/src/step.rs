//! Rows of steps, and how what a node tells changes them.

use fettle_model::{
    name::StepId,
    operation::{StepOutcome, StepStatus},
    settlement::Settlement,
    task::{LogLine, StepEvent},
};
use fettle_store::{StoreError, context::Context, fact::Fact};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx_macros::FromRow;

use crate::{
    log::{Kept, kept, prefix},
    row,
    subject::with,
    task::Held,
};

const WHAT: &str = "step";

/// A step of a task: what reports of it look at, and what they change.
#[derive(Clone, Debug, FromRow, Serialize, Deserialize)]
pub struct StepRow {
    /// The task.
    pub task_id: String,
    /// Its name.
    pub step_id: String,
    kind: String,
    step_index: i64,
    status: String,
    attempt_number: i64,
    attempts_before: i64,
    started_at: Option<i64>,
    percent: Option<i64>,
    message: Option<String>,
    log_lines: i64,
    /// How it ended, when that was told now.
    #[sqlx(default)]
    #[serde(default)]
    outcome: Option<String>,
    #[sqlx(default)]
    #[serde(default)]
    duration_ms: Option<i64>,
    #[sqlx(default)]
    #[serde(default)]
    finished_at: Option<i64>,
    /// The newest line of its log, when there is one now.
    #[sqlx(default)]
    #[serde(default)]
    last_log: Option<String>,
    /// What was found out of it, when that was told now.
    #[sqlx(default)]
    #[serde(default)]
    settlement: Option<String>,
    /// Whether it differs from what is stored.
    #[sqlx(default)]
    #[serde(skip)]
    pub is_changed: bool,
}

/// What followers and counters are told of a step.
pub struct Told {
    /// The payload of `operation.progress`.
    pub payload: Value,
    /// What was witnessed.
    pub fact: Option<Fact>,
}

impl StepRow {
    /// The number of an attempt among those of all runs.
    ///
    /// # Errors
    /// When a column is malformed.
    pub fn attempt(&self, attempt: u32) -> Result<u32, StoreError> {
        Ok(attempt.saturating_add(row::number(WHAT, self.attempts_before)?))
    }

    /// Takes lines of its log, and answers those that are kept. They may trail the result.
    pub fn log<'l>(&mut self, lines: &'l [LogLine]) -> Vec<Kept<'l>> {
        let kept = kept(self.log_lines, lines);
        self.log_lines = self.log_lines.saturating_add(i64::try_from(kept.len()).unwrap_or(i64::MAX));
        self.last_log = lines.last().map(|line| clean(prefix(&line.text))).or(self.last_log.take());
        self.is_changed = true;
        kept
    }

    /// Takes an event. Nothing is told once the result was accepted.
    ///
    /// # Errors
    /// When a column is malformed.
    pub fn apply(&mut self, held: &Held, event: &StepEvent, context: &Context) -> Result<Option<Told>, StoreError> {
        if let StepEvent::Settled { settlement, .. } = event {
            return self.settle(held, settlement).map(Some);
        }
        if !matches!(self.status.as_str(), "pending" | "running") {
            return Ok(None);
        }
        let told = match event {
            StepEvent::Started { attempt, at, .. } => {
                self.start(*attempt, host_time(*at, context));
                self.told(held, StepStatus::Running, json!({}))
            }
            StepEvent::Progress { percent, message, .. } => {
                let message = message.as_deref().map(prefix);
                self.percent = Some(i64::from(*percent).min(100));
                self.message = message.map(clean);
                self.told(held, StepStatus::Running, json!({ "step_message": message }))
            }
            StepEvent::Retrying { attempt, failure, wait_ms, .. } => {
                self.percent = None;
                self.message = Some(clean(&format!("attempt {attempt} failed, trying again: {}", failure.message)));
                self.told(held, StepStatus::Running, json!({ "failure": failure, "retry_in_ms": wait_ms }))
            }
            StepEvent::Finished { attempt, result, duration_ms, at, .. } => {
                self.finish(*attempt, result, *duration_ms, host_time(*at, context))?;
                let fact = self.ended(held, *attempt, result, *duration_ms);
                let told = self.told(held, result.status(), finished(result, *duration_ms))?;
                Ok(Told { fact: Some(fact), ..told })
            }
            StepEvent::Log { .. } | StepEvent::Denied { .. } | StepEvent::Settled { .. } => return Ok(None),
        };
        self.is_changed = true;
        told.map(Some)
    }

    /// Keeps what its node has found out, also of a step that is over.
    fn settle(&mut self, held: &Held, settlement: &Settlement) -> Result<Told, StoreError> {
        let status: StepStatus = row::document(WHAT, &format!("\"{}\"", self.status))?;
        self.settlement = Some(row::text("settlement", settlement)?);
        self.is_changed = true;
        self.told(held, status, json!({ "settlement": settlement }))
    }

    fn start(&mut self, attempt: u32, at: i64) {
        StepStatus::Running.name().clone_into(&mut self.status);
        self.count(attempt);
        self.started_at = Some(at);
        (self.percent, self.message) = (None, None);
    }

    fn finish(&mut self, attempt: u32, result: &StepOutcome, duration_ms: u64, at: i64) -> Result<(), StoreError> {
        result.status().name().clone_into(&mut self.status);
        // No attempt was started of a step that was skipped.
        if attempt > 0 {
            self.count(attempt);
        }
        self.outcome = Some(row::text("outcome", result)?);
        self.duration_ms = Some(i64::try_from(duration_ms).unwrap_or(i64::MAX));
        self.finished_at = Some(at);
        Ok(())
    }

    fn count(&mut self, attempt: u32) {
        self.attempt_number = self.attempt_number.max(self.attempts_before.saturating_add(i64::from(attempt)));
    }

    fn ended(&self, held: &Held, attempt: u32, result: &StepOutcome, duration_ms: u64) -> Fact {
        let error_code = if let StepOutcome::Failed { failure } = result { Some(failure.code.clone()) } else { None };
        Fact::StepEnded {
            about: held.subject.about(),
            step_id: self.step_id.clone(),
            step_kind: self.kind.clone(),
            attempt_number: attempt,
            status: result.status(),
            error_code,
            duration_ms,
        }
    }

    fn told(&self, held: &Held, status: StepStatus, fields: Value) -> Result<Told, StoreError> {
        let facts = json!({
            "node_id": held.node_id,
            "current_step_index": self.step_index,
            "current_step_name": self.step_id,
            "step_status": status,
            "step_started_at": row::optional_time(WHAT, self.started_at)?,
            "step_percent": self.percent,
            "attempt_number": self.attempt_number,
        });
        Ok(Told { payload: with(with(held.subject.payload(), facts), fields), fact: None })
    }
}

/// The step that an event is about.
#[must_use]
pub const fn of_event(event: &StepEvent) -> &StepId {
    match event {
        StepEvent::Started { step_id, .. }
        | StepEvent::Progress { step_id, .. }
        | StepEvent::Log { step_id, .. }
        | StepEvent::Denied { step_id, .. }
        | StepEvent::Retrying { step_id, .. }
        | StepEvent::Settled { step_id, .. }
        | StepEvent::Finished { step_id, .. } => step_id,
    }
}

/// What the event of a finished step says beyond that.
fn finished(result: &StepOutcome, duration_ms: u64) -> Value {
    let more = match result {
        StepOutcome::Succeeded { changed, .. } => json!({ "changed": changed }),
        StepOutcome::Failed { failure } => json!({ "failure": failure }),
        StepOutcome::Skipped { because_of } => json!({ "because_of": because_of }),
        StepOutcome::Canceled => json!({}),
    };
    with(json!({ "duration_ms": duration_ms }), more)
}

/// The host's clock, unless it says nonsense.
fn host_time(milliseconds: i64, context: &Context) -> i64 {
    Timestamp::from_millisecond(milliseconds).map_or_else(|_| context.at.as_millisecond(), |_| milliseconds)
}

/// A text without the character NUL: PostgreSQL has none with it, and SQLite's functions end there.
#[must_use]
pub fn clean(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}
