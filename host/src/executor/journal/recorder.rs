//! Log lines and progress of one attempt on their way into the journal: gathered, then written
//! together a few times a second.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use fettle_model::{
    name::StepId,
    task::{LogLevel, LogLine, StepEvent},
};
use tokio::{sync::Notify, task::JoinHandle};

use super::{Journal, JournalError};
use crate::{capabilities::report::Sink, clock::Milliseconds};

/// How long lines are gathered before they are written.
const INTERVAL: Duration = Duration::from_millis(250);

/// Gathers what one attempt reports. Cheap to clone.
#[derive(Clone)]
pub struct Recorder(Arc<Shared>);

struct Shared {
    journal: Journal,
    task_id: String,
    step_id: StepId,
    attempt: u32,
    gathered: Mutex<Gathered>,
    news: Notify,
    writer: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Gathered {
    lines: Vec<LogLine>,
    progress: Option<(u8, Option<String>)>,
}

impl Recorder {
    /// Starts to gather.
    #[must_use]
    pub fn start(journal: Journal, task_id: String, step_id: StepId, attempt: u32) -> Self {
        let shared = Shared {
            journal,
            task_id,
            step_id,
            attempt,
            gathered: Mutex::default(),
            news: Notify::new(),
            writer: Mutex::default(),
        };
        let recorder = Self(Arc::new(shared));
        let writer = tokio::spawn(write(Arc::downgrade(&recorder.0)));
        *recorder.0.writer.lock().unwrap_or_else(PoisonError::into_inner) = Some(writer);
        recorder
    }

    /// Adds a line of the host itself.
    pub fn say(&self, at: Milliseconds, text: String) {
        self.line(LogLine { at, level: LogLevel::Info, text });
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub async fn finish(&self) -> Result<(), JournalError> {
        let writer = self.0.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            writer.abort();
            // Never in the middle of a transaction: wait until it is gone.
            let _ = writer.await;
        }
        self.0.flush().await
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Gathered> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn flush(&self) -> Result<(), JournalError> {
        let Gathered { lines, progress } = std::mem::take(&mut *self.lock());
        let mut events = Vec::new();
        if !lines.is_empty() {
            events.push(StepEvent::Log { step_id: self.step_id.clone(), attempt: self.attempt, lines });
        }
        if let Some((percent, message)) = progress {
            events.push(StepEvent::Progress { step_id: self.step_id.clone(), percent, message });
        }
        if events.is_empty() { Ok(()) } else { self.journal.append(&self.task_id, events).await }
    }
}

async fn write(shared: std::sync::Weak<Shared>) {
    loop {
        {
            let Some(shared) = shared.upgrade() else { return };
            shared.news.notified().await;
        }
        tokio::time::sleep(INTERVAL).await;
        let Some(shared) = shared.upgrade() else { return };
        if let Err(error) = shared.flush().await {
            tracing::error!(error = &error as &dyn std::error::Error, "log lines could not be journaled");
        }
    }
}

impl Sink for Recorder {
    fn line(&self, line: LogLine) {
        self.0.lock().lines.push(line);
        self.0.news.notify_one();
    }

    fn progress(&self, percent: u8, message: Option<String>) {
        self.0.lock().progress = Some((percent, message));
        self.0.news.notify_one();
    }
}
