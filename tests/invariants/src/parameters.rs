//! Time and randomness are parameters.
//!
//! `Instant::now` is not looked for outside `model` and steps: it measures how long something took, and
//! its value cannot leave the process.

use crate::{
    report::{holds, holds_except},
    source::{is_within, shipped, text},
};

/// What reads the clock, makes random numbers, or waits for time.
const SOURCES_OF_CHANGE: [&str; 7] =
    ["::SystemTime::now", "::Timestamp::now", "::Zoned::now", "::thread::sleep", "getrandom", "rand", "::Ulid::new"];

/// The places that hand them to everybody else. May only shrink.
const PLACES: [&str; 5] = [
    // Clocks, and where secrets of a node and of a plane come from.
    "host/src/clock.rs",
    "host/src/command/data.rs",
    "plane/src/clock.rs",
    // The client: what a person sees as "now", and the idempotency key of a submission.
    "cli/src/watch/mod.rs",
    "cli/src/command/operation/submit.rs",
];

/// The methods that clippy refuses.
const DISALLOWED: [&str; 6] = [
    "std::process::Command::new",
    "tokio::process::Command::new",
    "std::time::SystemTime::now",
    "std::thread::sleep",
    "wasmtime::component::Component::deserialize_file",
    "wasmtime::component::Component::new",
];

#[test]
fn time_and_randomness_are_parameters() {
    let mut found = Vec::new();
    for source in shipped() {
        for path in source.names().paths {
            if SOURCES_OF_CHANGE.iter().any(|pattern| is_within(&path.what, pattern)) {
                found.push((source.path.clone(), format!("{}:{}: names `{}`", source.path, path.line, path.what)));
            }
        }
    }
    holds_except(
        "time and randomness are parameters",
        "take a Clock (host/src/clock.rs, plane/src/clock.rs), or the value itself",
        &found,
        &PLACES,
    );
}

#[test]
fn clippy_refuses_what_must_be_a_parameter() {
    let clippy = text("clippy.toml");
    let line = |method: &str| clippy.lines().find(|line| line.contains(&format!("\"{method}\""))).map(str::to_owned);
    let findings: Vec<String> = DISALLOWED
        .iter()
        .filter(|method| !line(method).is_some_and(|line| line.contains("reason = \"")))
        .map(|method| format!("clippy.toml: `{method}` is not disallowed with a reason"))
        .collect();
    holds("clippy's disallowed-methods refuses what must be a parameter", "put it back, with its reason", &findings);
}

/// Product sources where clippy is told to look away. May only shrink.
const LOOKS_AWAY: [&str; 4] = [
    "cli/src/author/program.rs",
    "host/src/capabilities/exec/spawn.rs",
    "plane/src/clock.rs",
    "supply/src/testing/mod.rs",
];

#[test]
fn who_uses_a_disallowed_method_is_on_the_list() {
    let mut found = Vec::new();
    for source in shipped() {
        if source.text.contains("clippy::disallowed_methods") {
            let what = format!("{}: lets clippy look away from disallowed methods", source.path);
            found.push((source.path.clone(), what));
        }
    }
    holds_except(
        "a disallowed method is used in few places, each with its reason",
        "use the place that exists (a Clock, the spawner of host/src/capabilities/exec)",
        &found,
        &LOOKS_AWAY,
    );
}
