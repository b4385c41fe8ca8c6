//! How the tasks of an operation stand when one of them ends.

use fettle_model::{
    failure::{Failure, FailureClass},
    operation::OperationStatus,
};
use fettle_store::{StoreError, event::EventKind};
use serde::Deserialize;
use serde_json::{Value, json};
use sqlx_macros::FromRow;

use crate::{
    row,
    subject::{Subject, with},
    task::TaskEnding,
};

/// The tasks of the newest run, counted.
#[derive(FromRow, Deserialize)]
pub struct Tally {
    /// Of which operation.
    pub operation_id: String,
    /// That wait for their nodes.
    pub ready: i64,
    leased: i64,
    failed: i64,
    canceled: i64,
    failure: Option<String>,
    failure_budget: Option<i64>,
}

impl Tally {
    /// Whether so many nodes have failed that no further one is started.
    #[must_use]
    pub fn is_budget_exhausted(&self) -> bool {
        self.failure_budget.is_some_and(|budget| self.failed > budget)
    }

    /// Whether nothing of the operation is left to do.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.leased == 0 && (self.ready == 0 || self.is_budget_exhausted())
    }

    /// How the operation ended, and what is told of that.
    #[must_use]
    pub const fn ending(&self) -> (OperationStatus, EventKind) {
        if self.failure.is_some() {
            (OperationStatus::Failed, EventKind::Failed)
        } else if self.canceled > 0 {
            (OperationStatus::Canceled, EventKind::Canceled)
        } else {
            (OperationStatus::Succeeded, EventKind::Completed)
        }
    }

    fn failure(&self) -> Result<Option<Failure>, StoreError> {
        row::optional_document("failure", self.failure.as_deref())
    }

    /// The code of the operation's failure.
    ///
    /// # Errors
    /// When a column is malformed.
    pub fn error_code(&self) -> Result<Option<String>, StoreError> {
        Ok(self.failure()?.map(|failure| failure.code))
    }

    /// The payload of the last event.
    ///
    /// # Errors
    /// When a column is malformed.
    pub fn payload(&self, subject: &Subject, ending: &TaskEnding) -> Result<Value, StoreError> {
        let failure = self.failure()?;
        let failed_step = if let TaskEnding::Failed { step_id, .. } = ending { step_id.clone() } else { None };
        let fields = json!({ "status": self.ending().0, "failure": failure, "failed_step": failed_step });
        Ok(with(subject.payload(), fields))
    }
}

/// Why an operation fails whose deadline has passed.
#[must_use]
pub fn deadline_exceeded() -> Failure {
    Failure {
        class: FailureClass::Permanent,
        code: "operation.deadline_exceeded".to_owned(),
        message: "the operation was not over by its deadline; give it a longer timeout, or find out what it waited for"
            .to_owned(),
    }
}
