//! Lines of the log, each with what section 13 of seed 001 asks of every operation and step.

use fettle_store::fact::{About, Fact};
use fettle_telemetry::TraceParent;

/// What stands for an error code where there was no error.
const NO_ERROR: &str = "none";

macro_rules! line {
    ($about:expr, $error_code:expr, $($rest:tt)*) => {{
        let about: &About = $about;
        let place = about.trace_parent.as_deref().and_then(|text| text.parse::<TraceParent>().ok());
        tracing::info!(
            correlation_id = about.correlation_id,
            operation_id = about.operation_id,
            operation_type = about.operation_type,
            org_id = about.org_id,
            project_id = about.project_id,
            resource_name = about.resource_name,
            error_code = $error_code,
            trace_id = place.as_ref().map(TraceParent::trace_id),
            span_id = place.as_ref().map(TraceParent::span_id),
            $($rest)*
        );
    }};
}

/// Writes what happened.
pub(super) fn write(fact: &Fact) {
    match fact {
        Fact::OperationRequested { about } => line!(about, NO_ERROR, "an operation was accepted"),
        Fact::OperationEnded { about, status, error_code } => {
            let error_code = error_code.as_deref().unwrap_or(NO_ERROR);
            line!(about, error_code, status = status.name(), "an operation ended");
        }
        Fact::StepEnded { about, step_id, step_kind, attempt_number, status, error_code, duration_ms } => {
            let error_code = error_code.as_deref().unwrap_or(NO_ERROR);
            line!(
                about,
                error_code,
                step_id,
                step_kind,
                attempt_number,
                status = status.name(),
                duration_ms,
                "a step ended"
            );
        }
        Fact::TaskLeased { about, task_id, epoch } => {
            line!(about, NO_ERROR, task_id, epoch, "a task was leased");
        }
        Fact::LeaseEnded { about, task_id, action } => {
            line!(about, NO_ERROR, task_id, action, "a lease ended before its task");
        }
    }
}
