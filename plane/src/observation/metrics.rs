//! What a plane counts.

use fettle_store::fact::Fact;
use fettle_telemetry::metric::{
    Counter, Gauge, Histogram, Labelled, Metrics, Registrar, counts, milliseconds, seconds,
};

/// The numbers of one plane. Labels are names that administrators choose, and codes; never an id.
#[derive(Clone, Debug)]
pub struct PlaneMetrics {
    operations_requested: Labelled<2, Counter>,
    operations_ended: Labelled<3, Counter>,
    operations_failed: Labelled<2, Counter>,
    steps_ended: Labelled<2, Counter>,
    steps_failed: Labelled<2, Counter>,
    step_duration: Labelled<1, Histogram>,
    leases_given: Counter,
    leases_ended: Labelled<1, Counter>,
    /// What nodes said under leases that they no longer hold.
    pub(crate) stale_reports: Labelled<1, Counter>,
    /// Connections and calls of nodes that were refused, by the reason.
    pub(crate) refused_nodes: Labelled<1, Counter>,
    pub(crate) lockouts: Labelled<1, Counter>,
    /// Tasks that wait for their node, and tasks that nodes hold.
    pub(crate) tasks: Labelled<1, Gauge>,
    /// Streams that are open now.
    pub(crate) streams: Labelled<1, Gauge>,
    /// Requests that were answered.
    pub(crate) requests: Labelled<3, Counter>,
    /// How long they took.
    pub(crate) request_duration: Labelled<2, Histogram>,
    /// How long writes took, from the question to the answer.
    pub(crate) store_verb: Labelled<1, Histogram>,
    /// Writes that became durable together.
    pub(crate) store_commit: Histogram,
    /// Attempts to tell a receiver of an event.
    pub(crate) webhook_deliveries: Labelled<1, Counter>,
    /// Events that could not be told.
    pub(crate) dead_letters: Gauge,
    /// Records that were old enough and were removed.
    pub(crate) removed: Labelled<1, Counter>,
    /// Segments of logs that were closed.
    pub(crate) log_segments: Counter,
    /// Lines that were over the bound of their node.
    pub(crate) log_lines_dropped: Counter,
    /// Credentials that were given.
    pub(crate) credentials_minted: Labelled<1, Counter>,
    /// Credentials that were refused.
    pub credentials_denied: Labelled<1, Counter>,
    /// Upgrades of hosts that failed or were rolled back. Nothing counts here before hosts are upgraded.
    pub agent_upgrades_failed: Labelled<1, Counter>,
    /// All of them.
    pub all: Metrics,
}

impl Default for PlaneMetrics {
    #[expect(clippy::too_many_lines, reason = "a list")]
    fn default() -> Self {
        let mut make = Registrar::default();
        Self {
            operations_requested: make.counters(
                "fettle_operations_requested_total",
                ["operation_type", "org"],
                "Operations that were accepted.",
            ),
            operations_ended: make.counters(
                "fettle_operations_ended_total",
                ["operation_type", "org", "status"],
                "Operations that are over, by status: succeeded, failed or canceled.",
            ),
            operations_failed: make.counters(
                "fettle_operations_failed_total",
                ["operation_type", "error_code"],
                "Operations that failed, by the code of the first failure.",
            ),
            steps_ended: make.counters(
                "fettle_steps_ended_total",
                ["step_kind", "status"],
                "Steps with a result: succeeded, failed, skipped or canceled.",
            ),
            steps_failed: make.counters(
                "fettle_steps_failed_total",
                ["step_kind", "error_code"],
                "Steps that failed for good, by the code of the failure.",
            ),
            step_duration: make.histograms(
                "fettle_step_duration_ms",
                ["step_kind"],
                "Milliseconds of the last attempt of a step, by the clock of its node.",
                milliseconds,
            ),
            leases_given: make.counter("fettle_leases_given_total", "Tasks that were leased to their node."),
            leases_ended: make.counters(
                "fettle_leases_ended_total",
                ["reason"],
                "Leases that ended before their task: expired, or lost by a host that came back without it.",
            ),
            stale_reports: make.counters(
                "fettle_stale_reports_total",
                ["call"],
                "What nodes said under a lease that they no longer hold, and that was refused.",
            ),
            lockouts: make.counters(
                "fettle_lockouts_total",
                ["of"],
                "Addresses that showed too many tokens which do not count, and identities that were refused too often: \
                 address or identity.",
            ),
            refused_nodes: make.counters(
                "fettle_nodes_refused_total",
                ["code"],
                "Connections and calls at the listener of nodes that were refused, by the reason.",
            ),
            tasks: make.gauges(
                "fettle_tasks",
                ["status"],
                "Tasks that are ready and wait for their node, and tasks that are leased.",
            ),
            streams: make.gauges(
                "fettle_streams_open",
                ["stream"],
                "Open streams: pull (one per connected node), report, and followers of events and logs.",
            ),
            requests: make.counters(
                "fettle_requests_total",
                ["method", "endpoint", "status"],
                "REST requests that were answered, by the template of their endpoint.",
            ),
            request_duration: make.histograms(
                "fettle_request_duration_seconds",
                ["method", "endpoint"],
                "Seconds until a REST request was answered, or its stream began.",
                seconds,
            ),
            store_verb: make.histograms(
                "fettle_store_write_duration_seconds",
                ["verb"],
                "Seconds from asking for a write until it is durable.",
                seconds,
            ),
            store_commit: make.histogram(
                "fettle_store_commit_writes",
                "Writes that became durable in one commit.",
                counts,
            ),
            webhook_deliveries: make.counters(
                "fettle_webhook_attempts_total",
                ["result"],
                "Attempts to tell a receiver of an event: delivered, retried later, dead, or unwanted (410).",
            ),
            dead_letters: make.gauge("fettle_webhook_dead_letters", "Events that webhooks could not be told."),
            removed: make.counters(
                "fettle_retention_removed_total",
                ["record"],
                "Records that were kept for long enough and were removed: log, event, operation or dead_letter.",
            ),
            log_segments: make.counter("fettle_log_segments_closed_total", "Segments of logs that were compressed."),
            log_lines_dropped: make.counter(
                "fettle_log_lines_dropped_total",
                "Lines that were dropped because a node wrote more in one operation than is kept.",
            ),
            credentials_minted: make.counters(
                "fettle_credentials_minted_total",
                ["credential_type"],
                "Credentials that were given to nodes for a step of a task.",
            ),
            credentials_denied: make.counters(
                "fettle_credential_mint_denied_total",
                ["credential_type"],
                "Credentials that nodes asked for and were refused.",
            ),
            agent_upgrades_failed: make.counters(
                "fettle_agent_upgrades_failed_total",
                ["result"],
                "Upgrades of hosts that failed or were rolled back; always 0 in this version, which upgrades none.",
            ),
            all: make.finish(),
        }
    }
}

impl PlaneMetrics {
    /// Counts what happened.
    pub(super) fn count(&self, fact: &Fact) {
        match fact {
            Fact::OperationRequested { about } => {
                self.operations_requested.with([&about.operation_type, &about.org_id]).inc();
            }
            Fact::OperationEnded { about, status, error_code } => {
                self.operations_ended.with([&about.operation_type, &about.org_id, status.name()]).inc();
                if let Some(code) = error_code {
                    self.operations_failed.with([&about.operation_type, code]).inc();
                }
            }
            Fact::StepEnded { step_kind, status, error_code, duration_ms, .. } => {
                self.steps_ended.with([step_kind, status.name()]).inc();
                if let Some(code) = error_code {
                    self.steps_failed.with([step_kind, code]).inc();
                }
                let duration = f64::from(u32::try_from(*duration_ms).unwrap_or(u32::MAX));
                self.step_duration.with([step_kind]).observe(duration);
            }
            Fact::TaskLeased { .. } => drop(self.leases_given.inc()),
            Fact::LeaseEnded { action, .. } => {
                let reason = if *action == "task.lease_expire" { "expired" } else { "lost" };
                self.leases_ended.with([reason]).inc();
            }
        }
    }
}
