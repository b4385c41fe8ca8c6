//! One line per event, for pipes and files: time, step, what happened.

use std::time::Duration;

use fettle_model::operation::StepStatus;

use super::{
    state::{StepState, WatchState},
    text::{clean, duration},
};
use crate::plane::{Event, Followed, LogLine};

/// The line for what was heard; `state` is what was known before.
#[must_use]
pub fn line(state: &WatchState, heard: &Followed) -> Option<String> {
    match heard {
        Followed::Event { event, .. } => event_line(state, event),
        Followed::Log(log) => Some(log_line(state, log)),
        Followed::Lost if !state.lost => Some("the plane does not answer; trying again".to_owned()),
        Followed::Back if state.lost => Some("the plane is back".to_owned()),
        Followed::Lost | Followed::Back => None,
    }
}

fn event_line(state: &WatchState, event: &Event) -> Option<String> {
    let told = &event.payload;
    let Some(name) = &told.current_step_name else {
        let word = event.event.strip_prefix("operation.").unwrap_or(&event.event);
        return Some(format!("{} {:width$}  operation {word}", time(&event.at), "-", width = width(state)));
    };
    let known = state.steps.iter().find(|step| step.id == *name);
    Some(row(state, &event.at, name, &happened(known, event)))
}

fn happened(known: Option<&StepState>, event: &Event) -> String {
    let told = &event.payload;
    let took = |word: &str| match told.duration_ms.map(Duration::from_millis) {
        Some(took) if told.attempt_number.unwrap_or(0) > 0 => format!(" {word} {}", duration(took)),
        _ => String::new(),
    };
    let why = || told.failure.as_ref().map(|failure| format!(": {}", clean(&failure.to_string()))).unwrap_or_default();
    let attempt = told.attempt_number.unwrap_or(0);
    if let Some(settlement) = &told.settlement {
        return format!("{}: {}", settlement.finding.words(), clean(&settlement.message));
    }
    match told.step_status.unwrap_or(StepStatus::Running) {
        StepStatus::Pending => "pending".to_owned(),
        StepStatus::Running => match told.retry_in_ms.map(Duration::from_millis) {
            Some(wait) => format!("attempt {attempt} failed, the next in {}{}", duration(wait), why()),
            None if known.is_none_or(|step| step.status != StepStatus::Running || step.attempt != attempt) => {
                if attempt > 1 { format!("started, attempt {attempt}") } else { "started".to_owned() }
            }
            None => {
                let percent = told.step_percent.map(|percent| format!("{percent}% ")).unwrap_or_default();
                format!("{percent}{}", clean(told.step_message.as_deref().unwrap_or_default())).trim_end().to_owned()
            }
        },
        StepStatus::Succeeded if told.changed == Some(false) => format!("succeeded{}, unchanged", took("in")),
        StepStatus::Succeeded => format!("succeeded{}", took("in")),
        StepStatus::Failed => format!("failed{}{}", took("after"), why()),
        StepStatus::Skipped => {
            let other = told
                .because_of
                .as_deref()
                .filter(|other| !other.is_empty())
                .map(|other| format!(" because {} failed", clean(other)));
            format!("skipped{}", other.unwrap_or_default())
        }
        StepStatus::Canceled => "canceled".to_owned(),
    }
}

fn log_line(state: &WatchState, log: &LogLine) -> String {
    row(state, log.at.as_deref().unwrap_or_default(), &log.step_id, &logged(log))
}

/// A log line's text, with its level when that matters.
#[must_use]
pub fn logged(log: &LogLine) -> String {
    let level = match log.level.as_str() {
        "info" => "",
        "debug" => "debug: ",
        "warn" => "warning: ",
        _ => "error: ",
    };
    format!("| {level}{}", clean(&log.text))
}

fn row(state: &WatchState, at: &str, step: &str, text: &str) -> String {
    format!("{} {:width$}  {text}", time(at), clean(step), width = width(state)).trim_end().to_owned()
}

fn width(state: &WatchState) -> usize {
    state.steps.iter().map(|step| console::measure_text_width(&step.id)).max().unwrap_or(0)
}

/// RFC 3339 to the second; as it came when it is no time.
#[must_use]
pub fn time(at: &str) -> String {
    let parsed = at.parse::<jiff::Timestamp>().ok();
    parsed.map_or_else(|| clean(at), |at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn state() -> WatchState {
        let operation = json!({
            "operation_id": "01J", "operation_type": "a", "version": "v1", "status": "queued",
            "created_at": "2026-11-20T10:00:00Z", "target_selector": {"node": "n"},
            "steps": [{"step_id": "pull", "kind": "k@v1", "component": "c", "status": "pending"}],
        });
        WatchState::new(&serde_json::from_value(operation).unwrap())
    }

    fn told(payloads: &[Value]) -> Vec<String> {
        let mut state = state();
        let mut lines = Vec::new();
        for payload in payloads {
            let name =
                if payload.get("current_step_name").is_some() { "operation.progress" } else { "operation.completed" };
            let whole = json!({"event": name, "at": "2026-11-20T10:00:00.123Z", "payload": payload});
            let event = Box::new(serde_json::from_value(whole.clone()).unwrap());
            let heard = Followed::Event { event, whole: Box::new(whole) };
            lines.extend(line(&state, &heard).map(|line| line.replace("2026-11-20T10:00:00Z ", "")));
            state.hear(heard);
        }
        lines
    }

    #[test]
    fn a_line_says_what_changed() {
        let step = |fields: Value| {
            let mut payload = json!({"current_step_name": "pull", "step_status": "running", "attempt_number": 1});
            payload.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            payload
        };
        let failure = json!({"class": "transient", "code": "a.b", "message": "no\nanswer"});
        let lines = told(&[
            step(json!({})),
            step(json!({"step_percent": 40, "step_message": "layer 1"})),
            step(json!({"failure": failure, "retry_in_ms": 2000})),
            step(json!({"attempt_number": 2})),
            step(json!({"attempt_number": 2, "step_status": "succeeded", "duration_ms": 1500, "changed": true})),
            json!({"status": "succeeded"}),
        ]);
        assert_eq!(
            lines,
            [
                "pull  started",
                "pull  40% layer 1",
                "pull  attempt 1 failed, the next in 2.0s: no answer [a.b]",
                "pull  started, attempt 2",
                "pull  succeeded in 1.5s",
                "-     operation completed",
            ]
        );
    }

    #[test]
    fn an_outage_is_told_once() {
        let mut state = state();
        assert!(line(&state, &Followed::Lost).is_some() && line(&state, &Followed::Back).is_none());
        state.hear(Followed::Lost);
        assert!(line(&state, &Followed::Lost).is_none() && line(&state, &Followed::Back).is_some());
    }
}
