//! What `policies/monitoring` asks of Prometheus and Grafana exists, and does what it says.

#![expect(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests")]

mod alerts;
mod dashboard;
mod names;
mod promtool;
mod reference;

use std::path::{Path, PathBuf};

use fettle_host::metrics::HostMetrics;
use fettle_plane::PlaneMetrics;
use fettle_telemetry::metric::Description;

/// The repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The metrics of the plane, and those of the host.
fn descriptions() -> [(&'static str, Vec<Description>); 2] {
    [
        ("The plane", PlaneMetrics::default().all.descriptions().to_vec()),
        ("The host", HostMetrics::default().all.descriptions().to_vec()),
    ]
}
