//! Making a frame of text from what is known. Pure: the same state, time and screen give the same frame.

use console::Style;
use fettle_model::operation::{OperationStatus, StepStatus};
use jiff::Timestamp;

use super::{
    state::{StepState, WatchState},
    text::{duration, fit},
};

/// What a frame is drawn for.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    /// Columns.
    pub width: usize,
    /// Lines; a frame has at most as many.
    pub height: usize,
    /// Whether colours are wanted.
    pub color: bool,
    /// Whether more than ASCII can be shown.
    pub unicode: bool,
}

/// Widest name and kind of a step; more is cut.
const NAME: usize = 16;
const KIND: usize = 27;
const LEAST_KIND: usize = 10;
/// Columns of percent and duration with their gaps.
const NUMBERS: usize = 14;
/// A kind is cut to leave this much for what the step says.
const TEXT: usize = 24;

/// Draws a frame: a title, a line per step, and a last line. Each is exactly as wide as the screen,
/// less one column, so that no terminal wraps it.
#[must_use]
pub fn frame(state: &WatchState, now: Timestamp, screen: Screen, tick: usize) -> Vec<String> {
    let screen = Screen { width: screen.width.max(20) - 1, ..screen };
    let room = screen.height.saturating_sub(3).max(1);
    let (steps, before, after) = window(&state.steps, room);
    let columns = Columns::of(&state.steps, screen);
    let mut lines = vec![title(state, now, screen)];
    if before > 0 {
        lines.push(screen.dim(&fit(&format!("  {before} above are done"), screen.width, screen.tail())));
    }
    lines.extend(steps.iter().map(|step| step_line(step, now, screen, columns, tick)));
    if after > 0 {
        lines.push(screen.dim(&fit(&format!("  {after} more below"), screen.width, screen.tail())));
    }
    lines.push(footer(state, screen));
    lines
}

/// The steps that fit on the screen: the unfinished ones, with what came right before.
fn window(steps: &[StepState], room: usize) -> (&[StepState], usize, usize) {
    if steps.len() <= room {
        return (steps, 0, 0);
    }
    let first = steps.iter().position(|step| !step.status.is_final()).unwrap_or(steps.len());
    let mut start = first.saturating_sub(usize::from(room >= 5)).min(steps.len() - 1);
    // What is left out above or below takes a line to say so.
    let mut shown = (room - usize::from(start > 0)).max(1);
    if start + shown < steps.len() {
        shown = (shown - 1).max(1);
    } else {
        start = steps.len() - shown;
    }
    (&steps[start..start + shown], start, steps.len() - start - shown)
}

#[derive(Clone, Copy)]
struct Columns {
    name: usize,
    kind: usize,
    text: usize,
}

impl Columns {
    fn of(steps: &[StepState], screen: Screen) -> Self {
        let widest = |text: fn(&StepState) -> &str, most: usize| {
            steps.iter().map(|step| console::measure_text_width(text(step))).max().unwrap_or(0).min(most)
        };
        let name = widest(|step| &step.id, NAME);
        // Symbol and gaps: `x name kind `.
        let fixed = 2 + name + 1 + NUMBERS;
        let spare = screen.width.saturating_sub(fixed + TEXT);
        // A kind that is cut to nothing says nothing.
        let most = if spare < LEAST_KIND { 0 } else { KIND.min(spare) };
        let kind = widest(|step| &step.kind, most);
        Self { name, kind, text: screen.width.saturating_sub(fixed + kind) }
    }
}

fn title(state: &WatchState, now: Timestamp, screen: Screen) -> String {
    let elapsed = state.elapsed(now).map(|elapsed| format!("  {:>6}", duration(elapsed))).unwrap_or_default();
    let right = format!("{}{elapsed}", state.status);
    let left = format!("{} on {}", state.title, state.node);
    let room = screen.width.saturating_sub(console::measure_text_width(&right) + 1);
    let style = match state.status {
        OperationStatus::Succeeded => Style::new().green(),
        OperationStatus::Failed => Style::new().red(),
        OperationStatus::Canceled => Style::new().yellow(),
        OperationStatus::Queued | OperationStatus::Running => Style::new().cyan(),
    };
    let left = screen.paint(&fit(&left, room, screen.tail()), &Style::new().bold());
    format!("{left} {}", screen.paint(&right, &style))
}

fn footer(state: &WatchState, screen: Screen) -> String {
    if state.lost {
        let text = fit("the plane does not answer; trying again", screen.width, screen.tail());
        return screen.paint(&text, &Style::new().yellow());
    }
    let text = if state.status.is_final() { "" } else { "ctrl-c stops watching; the operation goes on" };
    screen.dim(&fit(text, screen.width, screen.tail()))
}

fn step_line(step: &StepState, now: Timestamp, screen: Screen, columns: Columns, tick: usize) -> String {
    let (symbol, style) = symbol(step.status, screen, tick);
    let percent = match (step.status, step.percent) {
        (StepStatus::Running, Some(percent)) => format!("{percent:>3}%"),
        _ => String::new(),
    };
    let elapsed = step.elapsed(now).map(duration).unwrap_or_default();
    let name = fit(&step.id, columns.name, screen.tail());
    let kind = fit(&step.kind, columns.kind, screen.tail());
    let text = fit(&says(step), columns.text, screen.tail());
    let text = if step.status == StepStatus::Failed { screen.paint(&text, &style) } else { screen.dim(&text) };
    let symbol = screen.paint(symbol, &style);
    let line = format!("{symbol} {name} {} {percent:>4} {elapsed:>6}  {text}", screen.dim(&kind));
    // On a very narrow screen even the columns without text are too wide.
    fit(&line, screen.width, "")
}

/// What there is to say of a step beside its numbers.
fn says(step: &StepState) -> String {
    match step.status {
        StepStatus::Pending if step.needs.is_empty() => String::new(),
        StepStatus::Pending => format!("after {}", step.needs.join(", ")),
        StepStatus::Running if step.attempt > 1 && step.text.is_empty() => format!("attempt {}", step.attempt),
        StepStatus::Running if step.attempt > 1 => format!("attempt {}: {}", step.attempt, step.text),
        StepStatus::Running => step.text.clone(),
        StepStatus::Succeeded if step.changed == Some(false) => "unchanged".to_owned(),
        StepStatus::Succeeded => step.text.clone(),
        StepStatus::Failed => step.failure.clone().unwrap_or_default(),
        StepStatus::Skipped => {
            step.because_of.as_ref().map_or_else(|| "not started".to_owned(), |other| format!("because {other} failed"))
        }
        StepStatus::Canceled => "canceled".to_owned(),
    }
}

fn symbol(status: StepStatus, screen: Screen, tick: usize) -> (&'static str, Style) {
    const TURNING: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
    const TURNING_ASCII: [&str; 4] = ["|", "/", "-", "\\"];
    let (unicode, ascii, style) = match status {
        StepStatus::Pending => ("·", ".", Style::new().dim()),
        StepStatus::Running => {
            (TURNING[tick % TURNING.len()], TURNING_ASCII[tick % TURNING_ASCII.len()], Style::new().cyan())
        }
        StepStatus::Succeeded => ("✓", "+", Style::new().green()),
        StepStatus::Failed => ("✗", "x", Style::new().red()),
        StepStatus::Skipped => ("–", "-", Style::new().dim()),
        StepStatus::Canceled => ("■", "#", Style::new().yellow()),
    };
    (if screen.unicode { unicode } else { ascii }, style)
}

impl Screen {
    const fn tail(self) -> &'static str {
        if self.unicode { "…" } else { "..." }
    }

    fn paint(self, text: &str, style: &Style) -> String {
        if self.color { style.clone().force_styling(true).apply_to(text).to_string() } else { text.to_owned() }
    }

    fn dim(self, text: &str) -> String {
        self.paint(text, &Style::new().dim())
    }
}

#[cfg(test)]
mod tests;
