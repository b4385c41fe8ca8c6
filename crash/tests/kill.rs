//! The process dies at the asked hit of the asked point, and at no other.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test that starts itself again")]
#![cfg(feature = "crash-points")]

use std::{os::unix::process::ExitStatusExt as _, process::Command};

const CHILD: &str = "FETTLE_CRASH_TEST_CHILD";

/// Runs this very test binary again, as the process that may die.
fn child(crash_at: &str) -> (std::process::ExitStatus, String) {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("trace");
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "three_hits_each"])
        .env(CHILD, "1")
        .env("FETTLE_CRASH_AT", crash_at)
        .env("FETTLE_CRASH_TRACE", &trace)
        .status()
        .unwrap();
    (status, std::fs::read_to_string(trace).unwrap())
}

#[test]
fn three_hits_each() {
    if std::env::var_os(CHILD).is_some() {
        for _ in 0..3 {
            fettle_crash::point("test::before");
            fettle_crash::point("test::after");
        }
    }
}

#[test]
fn dies_at_the_asked_hit() {
    let (status, trace) = child("test::after:2");
    assert_eq!(status.signal(), Some(9));
    assert_eq!(trace, "test::before:1\ntest::after:1\ntest::before:2\ntest::after:2\n");
}

#[test]
fn lives_when_the_hit_never_comes() {
    let (status, trace) = child("test::after:4");
    assert!(status.success());
    assert_eq!(trace.lines().count(), 6);
}
