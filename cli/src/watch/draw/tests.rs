//! Frames, as they are on a terminal of 80 columns.

use serde_json::{Value, json};

use super::*;
use crate::plane::{Followed, LogLine, Operation};

const SCREEN: Screen = Screen { width: 80, height: 24, color: false, unicode: true };

fn operation() -> Operation {
    let step = |id: &str, kind: &str, needs: &[&str]| json!({"step_id": id, "kind": kind, "component": "c", "needs": needs, "status": "pending"});
    serde_json::from_value(json!({
        "operation_id": "01J", "operation_type": "model.artifact.stage", "version": "v1", "status": "queued",
        "target_selector": {"node": "gpu-17"}, "created_at": "2026-11-20T10:00:00Z",
        "steps": [
            step("health", "health.check@v1", &[]),
            step("pull", "artifact.pull_oci@v1", &[]),
            step("render", "file.render@v1", &["pull"]),
            step("prove_that_all_is_well", "command.exec_allowlisted@v1", &["render"]),
        ],
    }))
    .unwrap()
}

fn event(at: &str, name: &str, payload: &Value) -> Followed {
    let whole = json!({"cursor": "1", "event": name, "at": at, "payload": payload});
    Followed::Event { event: Box::new(serde_json::from_value(whole.clone()).unwrap()), whole: Box::new(whole) }
}

fn progress(at: &str, payload: &Value) -> Followed {
    event(at, "operation.progress", payload)
}

fn started(step: &str, attempt: u32) -> Followed {
    let at = "2026-11-20T10:00:01Z";
    let payload =
        json!({"current_step_name": step, "step_status": "running", "step_started_at": at, "attempt_number": attempt});
    progress(at, &payload)
}

fn log(step: &str, text: &str) -> Followed {
    Followed::Log(LogLine {
        node_id: None,
        cursor: "1".to_owned(),
        step_id: step.to_owned(),
        attempt: 1,
        at: None,
        level: "info".to_owned(),
        text: text.to_owned(),
    })
}

fn running() -> WatchState {
    let mut state = WatchState::new(&operation());
    state.hear(started("health", 1));
    state.hear(progress(
        "2026-11-20T10:00:02Z",
        &json!({"current_step_name": "health", "step_status": "succeeded", "attempt_number": 1, "duration_ms": 640, "changed": false}),
    ));
    state.hear(started("pull", 2));
    state.hear(progress(
        "2026-11-20T10:00:09Z",
        &json!({"current_step_name": "pull", "step_status": "running", "attempt_number": 2, "step_percent": 7,
            "step_started_at": "2026-11-20T10:00:01Z", "step_message": "layer 1 of 3"}),
    ));
    state
}

fn now() -> Timestamp {
    "2026-11-20T10:01:13.250Z".parse().unwrap()
}

fn drawn(state: &WatchState, screen: Screen) -> String {
    let lines = frame(state, now(), screen, 0);
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[test]
fn a_frame_tells_a_line_per_step() {
    let mut state = running();
    state.hear(log("pull", "blob sha256:0123 \u{1b}[31mfrom\u{1b}[0m registry.internal:5000 arrives"));
    assert_eq!(drawn(&state, SCREEN), include_str!("frame.txt"));
}

#[test]
fn every_line_has_the_width_of_the_screen_less_one_on_any_screen() {
    let mut state = running();
    state.hear(log("pull", &"模型下载 ".repeat(40)));
    for width in [1, 20, 40, 60, 79, 80, 81, 200] {
        for (color, unicode) in [(false, true), (true, true), (true, false)] {
            let screen = Screen { width, color, unicode, ..SCREEN };
            for line in frame(&state, now(), screen, 3) {
                assert_eq!(line_width(&line), width.max(20) - 1, "{width} {line}");
                assert!(!line.contains('\n'));
            }
        }
    }
}

fn line_width(line: &str) -> usize {
    console::measure_text_width(line)
}

#[test]
fn a_failure_is_told_where_it_happened() {
    let mut state = running();
    state.hear(progress(
        "2026-11-20T10:01:00Z",
        &json!({"current_step_name": "pull", "step_status": "failed", "attempt_number": 2, "duration_ms": 59_000,
            "failure": {"class": "permanent", "code": "disk.full", "message": "the disk is full"}}),
    ));
    for step in ["render", "prove_that_all_is_well"] {
        state.hear(progress(
            "2026-11-20T10:01:00Z",
            &json!({"current_step_name": step, "step_status": "skipped", "attempt_number": 0, "because_of": "pull"}),
        ));
    }
    state.hear(event("2026-11-20T10:01:01Z", "operation.failed", &json!({"status": "failed"})));
    let text = drawn(&state, SCREEN);
    let lines = text.lines().collect::<Vec<_>>();
    assert!(lines[0].ends_with("failed   1m00s"), "{text}");
    assert!(lines[2].starts_with("✗ pull") && lines[2].contains(" 59.0s  the disk is full"), "{text}");
    assert!(lines[3].starts_with("– render") && lines[3].ends_with("because pull failed"), "{text}");
    assert_eq!(lines[5], "");
}

#[test]
fn a_retry_says_why_the_attempt_before_failed() {
    let mut state = running();
    state.hear(progress(
        "2026-11-20T10:01:00Z",
        &json!({"current_step_name": "pull", "step_status": "running", "attempt_number": 2, "retry_in_ms": 2000,
            "failure": {"class": "transient", "code": "registry.down", "message": "no answer"}}),
    ));
    let text = drawn(&state, Screen { width: 120, ..SCREEN });
    assert!(text.contains("attempt 2: attempt 2 failed: no answer [registry.down]"), "{text}");
}

#[test]
fn a_plane_that_is_away_is_told_until_it_is_back() {
    let mut state = running();
    state.hear(Followed::Lost);
    assert!(drawn(&state, SCREEN).ends_with("the plane does not answer; trying again\n"));
    state.hear(Followed::Back);
    assert!(drawn(&state, SCREEN).ends_with("ctrl-c stops watching; the operation goes on\n"));
}

#[test]
fn a_small_screen_shows_the_steps_that_run() {
    let state = running();
    let text = drawn(&state, Screen { height: 6, ..SCREEN });
    let lines = text.lines().collect::<Vec<_>>();
    assert_eq!(lines.len(), 5, "{text}");
    assert_eq!((lines[1], lines[3]), ("  1 above are done", "  2 more below"));
    assert!(lines[2].starts_with("⠋ pull"), "{text}");
    for height in 0..12 {
        let lines = frame(&state, now(), Screen { height, ..SCREEN }, 0).len();
        assert!(lines <= height.max(5), "{lines} lines for {height}");
    }
}

#[test]
fn without_unicode_a_frame_is_ascii() {
    let text = drawn(&running(), Screen { unicode: false, ..SCREEN });
    assert!(text.is_ascii(), "{text}");
    assert!(text.contains("+ health") && text.contains("| pull"), "{text}");
}
