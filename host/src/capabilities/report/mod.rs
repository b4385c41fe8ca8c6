//! `report`: log lines and progress of the attempt, capped in size and rate.

mod calls;
pub mod denials;

use std::sync::{Arc, Mutex, PoisonError};

use fettle_model::{
    denial::Denial,
    task::{LogLevel, LogLine},
};

use self::denials::Denials;
use crate::{
    clock::{Clock, Milliseconds},
    sandbox::{bindings::fettle::report::report::Level, limits},
};

const MESSAGE_LIMIT: usize = 256;

/// What one attempt may log; what is over is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Bytes of a line; what is longer is cut.
    pub line: usize,
    /// Bytes of all lines together.
    pub total: usize,
    /// Lines of one second.
    pub lines_per_second: u32,
}

impl Default for Caps {
    fn default() -> Self {
        Self { line: 8 << 10, total: 1 << 20, lines_per_second: 200 }
    }
}

/// Takes what an attempt reports. Must not block.
pub trait Sink: Send + Sync {
    /// A log line, already capped.
    fn line(&self, line: LogLine);
    /// How far the attempt is.
    fn progress(&self, percent: u8, message: Option<String>);
    /// A call that was refused; a bounded number of an attempt.
    fn denied(&self, denial: Denial);
}

/// The state of one attempt.
#[derive(Clone, Default)]
pub struct Report(Option<Handle>);

/// What other capabilities report through.
#[derive(Clone, Default)]
pub struct Handle(Option<Arc<Shared>>);

struct Shared {
    sink: Arc<dyn Sink>,
    clock: Clock,
    caps: Caps,
    state: Mutex<State>,
    denials: Denials,
}

#[derive(Default)]
struct State {
    bytes: usize,
    second: Milliseconds,
    lines_in_second: u32,
    dropped: u64,
    percent: u8,
}

impl Report {
    /// Reports to `sink`.
    #[must_use]
    pub fn new(sink: Arc<dyn Sink>, clock: Clock) -> Self {
        Self::with_caps(sink, clock, Caps::default())
    }

    /// The same, with other caps on what is logged.
    #[must_use]
    pub fn with_caps(sink: Arc<dyn Sink>, clock: Clock, caps: Caps) -> Self {
        let denials = Denials::new(Arc::clone(&sink), clock.clone());
        Self(Some(Handle(Some(Arc::new(Shared { sink, clock, caps, state: Mutex::default(), denials })))))
    }

    /// Where the denials of the attempt are recorded.
    pub(crate) fn denials(&self) -> Denials {
        let shared = self.0.as_ref().and_then(|handle| handle.0.as_ref());
        shared.map(|shared| shared.denials.clone()).unwrap_or_default()
    }

    pub(crate) fn handle(&self) -> Handle {
        self.0.clone().unwrap_or_default()
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self, level: LogLevel, mut text: String) {
        let now = self.clock.now();
        let notice = {
            let mut state = self.lock();
            if now.div_euclid(1000) != state.second {
                state.second = now.div_euclid(1000);
                state.lines_in_second = 0;
            }
            let Caps { line, total, lines_per_second } = self.caps;
            truncate(&mut text, line);
            if state.bytes + text.len() > total || state.lines_in_second >= lines_per_second {
                state.dropped += 1;
                // The first dropped line is said at once, the number when the attempt ends.
                (state.dropped == 1).then(|| {
                    let total = limits::bytes(total as u64);
                    format!(
                        "the step logs more than {total} or {lines_per_second} lines a second; what is over is dropped"
                    )
                })
            } else {
                state.bytes += text.len();
                state.lines_in_second += 1;
                drop(state);
                let text = text.replace(['\n', '\r'], " ");
                self.sink.line(LogLine { at: now, level, text });
                None
            }
        };
        if let Some(text) = notice {
            self.sink.line(LogLine { at: now, level: LogLevel::Warn, text });
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let dropped = self.lock().dropped;
        if dropped > 0 {
            let text = format!("{dropped} log lines of this step were dropped");
            self.sink.line(LogLine { at: self.clock.now(), level: LogLevel::Warn, text });
        }
    }
}

impl Handle {
    /// Reports how far the attempt is; it never moves backwards.
    pub fn progress(&self, percent: u8, message: Option<String>) {
        let Some(shared) = &self.0 else { return };
        let percent = {
            let mut state = shared.lock();
            state.percent = state.percent.max(percent.min(100));
            state.percent
        };
        let message = message.map(|mut text| {
            truncate(&mut text, MESSAGE_LIMIT);
            text
        });
        shared.sink.progress(percent, message);
    }

    /// Adds a line to the step's log.
    pub fn log(&self, level: LogLevel, text: String) {
        if let Some(shared) = &self.0 {
            shared.log(level, text);
        }
    }
}

impl Report {
    pub(super) async fn log(&mut self, level: Level, message: String) {
        let level = match level {
            Level::Debug => LogLevel::Debug,
            Level::Info => LogLevel::Info,
            Level::Warn => LogLevel::Warn,
            Level::Error => LogLevel::Error,
        };
        self.handle().log(level, message);
    }

    pub(super) async fn progress(&mut self, percent: u8, message: Option<String>) {
        self.handle().progress(percent, message);
    }
}

fn truncate(text: &mut String, limit: usize) {
    if text.len() > limit {
        let end = (0..=limit).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
}
