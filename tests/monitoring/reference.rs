//! `docs/reference/metrics.md`, written from what the programs register.

use std::fmt::Write as _;

use fettle_telemetry::metric::{COMBINATIONS, Kind};

use crate::{descriptions, root};

const PATH: &str = "docs/reference/metrics.md";
const COMMAND: &str = "UPDATE_DOCS=1 cargo test -p fettle-tests --test monitoring";

fn document() -> String {
    let mut text = format!(
        "# Metrics\n\nWhat `GET /metrics` answers ([how to turn it on](../how-to/monitor-a-fleet.md)). This page is written from the code by\n\
         `tests/monitoring/reference.rs`; `{COMMAND}` rewrites it.\n\n\
         Labels are names that administrators choose, and codes, never ids. A metric tells {COMBINATIONS} combinations of its labels apart;\n\
         what comes later is counted with `other` in every label. Histograms add `_bucket`, `_sum` and `_count` to their name.\n\
         Counters begin at 0 when the program starts.\n",
    );
    for (program, descriptions) in descriptions() {
        let _ = write!(text, "\n## {program}\n\n| metric | kind | labels | meaning |\n|---|---|---|---|\n");
        for description in descriptions {
            let kind = match description.kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
                Kind::Histogram => "histogram",
            };
            let labels = description.labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
            let _ = writeln!(text, "| `{}` | {kind} | {labels} | {} |", description.name, description.help);
        }
    }
    text
}

#[test]
fn the_reference_of_metrics_is_what_the_programs_register() {
    let path = root().join(PATH);
    let expected = document();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "{PATH} is stale; run `{COMMAND}`, and commit it");
}
