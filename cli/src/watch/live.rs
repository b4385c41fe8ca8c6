//! Frames on a terminal, drawn over each other.

use std::time::Duration;

use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::Timestamp;

use super::{
    draw::{Screen, frame},
    state::WatchState,
};

/// Time between frames.
pub(super) const FRAME: Duration = Duration::from_millis(100);

/// A terminal that frames are drawn on.
pub(super) struct Live {
    terminal: Term,
    /// One bar whose message is the whole frame: a frame is drawn whole or not at all.
    bar: ProgressBar,
    unicode: bool,
    tick: usize,
}

impl Live {
    pub(super) fn new() -> Self {
        let style = ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stdout_with_hz(20)).with_style(style);
        Self { terminal: Term::stdout(), bar, unicode: is_unicode(), tick: 0 }
    }

    fn screen(&self) -> Screen {
        let (height, width) = self.terminal.size();
        Screen { width: width.into(), height: height.into(), color: true, unicode: self.unicode }
    }

    /// Draws a frame over the last one.
    pub(super) fn draw(&mut self, state: &WatchState, now: Timestamp) {
        let lines = frame(state, now, self.screen(), self.tick);
        self.tick += 1;
        self.bar.set_message(lines.join("\n"));
    }

    /// Removes what is drawn.
    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// Removes what is drawn, and the `^C` that the terminal wrote on the line below.
    pub(super) fn clear_after_interrupt(&self) {
        let _ = self.terminal.move_cursor_up(1);
        self.clear();
        let _ = self.terminal.clear_to_end_of_screen();
    }

    /// The frame that stays on the terminal, whatever its height.
    pub(super) fn last_frame(&self, state: &WatchState, now: Timestamp) -> String {
        let screen = Screen { height: usize::MAX, ..self.screen() };
        let lines = frame(state, now, screen, self.tick);
        // The last line only speaks of what is still to come.
        lines.iter().take(lines.len() - 1).map(|line| format!("{}\n", line.trim_end())).collect()
    }
}

/// Whether the locale says UTF-8.
fn is_unicode() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(|name| {
        let value = std::env::var(name).ok()?;
        (!value.is_empty()).then_some(value)
    });
    locale.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}
