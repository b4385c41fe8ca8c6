//! How many streams are open.

use fettle_telemetry::metric::Gauge;

use super::PlaneMetrics;

/// Counts a stream as open until it is dropped.
pub(crate) struct OpenStream(Gauge);

impl OpenStream {
    /// A stream of this kind was opened.
    pub(crate) fn begin(metrics: &PlaneMetrics, stream: &'static str) -> Self {
        let gauge = metrics.streams.with([stream]);
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.dec();
    }
}
