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
        StepStatus::Succeeded if told.changed == Some(false) => format!("succeeded{}, nothing to change", took("in")),
        StepStatus::Succeeded => format!("succeeded{}", took("in")),
        StepStatus::Failed => format!("failed{}{}", took("after"), why()),
        StepStatus::Skipped => {
            let other = told.because_of.as_deref().map(|other| format!(" because {} failed", clean(other)));
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
