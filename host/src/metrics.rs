//! What a host counts, under the names of seed 003. Tokens and costs of inference come with inference.

use fettle_telemetry::metric::{Counter, Gauge, Histogram, Labelled, Metrics, Registrar, milliseconds};

/// The numbers of one host; cheap to clone.
#[derive(Clone, Debug)]
pub struct HostMetrics {
    /// Leases that arrived.
    pub leases_received: Counter,
    /// Leases that the plane was told have arrived.
    pub leases_acknowledged: Counter,
    /// Tasks that succeeded here.
    pub leases_completed: Counter,
    /// Tasks that failed here.
    pub leases_failed: Counter,
    /// Attempts of steps.
    pub executions: Counter,
    /// Attempts that failed, by the class of their failure.
    pub execution_errors: Labelled<1, Counter>,
    /// What was not done for the plane, by code.
    pub refusals: Labelled<1, Counter>,
    /// Streams of leases that broke.
    pub stream_errors: Counter,
    /// Streams of leases that were opened again.
    pub stream_reconnects: Counter,
    /// Certificates that were renewed.
    pub certificates_renewed: Counter,
    /// Milliseconds that this node's clock was ahead of the plane's, at the last heartbeat, its way included.
    pub clock_ahead: Gauge,
    /// Milliseconds from the start of a task to its end.
    pub lease_duration: Histogram,
    /// Milliseconds of an attempt.
    pub execution_duration: Histogram,
    /// Tasks on their way.
    pub active_leases: Gauge,
    /// Tasks that could be taken now.
    pub available_slots: Gauge,
    /// All of them.
    pub all: Metrics,
}

impl Default for HostMetrics {
    fn default() -> Self {
        let mut make = Registrar::default();
        Self {
            leases_received: make.counter("leases_received_total", "Leases that arrived from the plane."),
            leases_acknowledged: make
                .counter("leases_acknowledged_total", "Leases that the plane knows to have arrived."),
            leases_completed: make.counter("leases_completed_total", "Tasks that succeeded on this node."),
            leases_failed: make.counter(
                "leases_failed_total",
                "Tasks that failed on this node; one that was canceled is not counted.",
            ),
            executions: make.counter("agent_executions_total", "Attempts of steps that ended on this node."),
            execution_errors: make.counters(
                "agent_execution_errors_total",
                ["class"],
                "Attempts that failed, by class: invalid_input, denied, transient, permanent, unknown or canceled.",
            ),
            refusals: make.counters(
                "refusals_total",
                ["code"],
                "What this node did not do for its plane, by reason; `fettle-host refusals` lists them.",
            ),
            stream_errors: make.counter("lease_stream_errors_total", "Streams of leases that broke."),
            stream_reconnects: make
                .counter("lease_stream_reconnects_total", "Attempts to open the stream of leases again."),
            certificates_renewed: make.counter("certificates_renewed_total", "Certificates that were renewed."),
            clock_ahead: make.gauge(
                "clock_ahead_milliseconds",
                "How far the node's clock was ahead of the plane's at the last heartbeat, with the way there and back.",
            ),
            lease_duration: make.histogram(
                "lease_processing_duration_ms",
                "Milliseconds from the start of a task on this node to its end.",
                milliseconds,
            ),
            execution_duration: make.histogram(
                "agent_execution_duration_ms",
                "Milliseconds of an attempt of a step.",
                milliseconds,
            ),
            active_leases: make.gauge("active_leases", "Tasks on their way on this node."),
            available_slots: make
                .gauge("available_slots", "Tasks that this node could take now; 0 while anything on it is waited for."),
            all: make.finish(),
        }
    }
}
