//! Log lines and progress of one attempt on their way into the journal: gathered, then written
//! together a few times a second.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use fettle_model::{
    denial::Denial,
    digest::Digest,
    name::StepId,
    task::{LogLevel, LogLine, StepEvent},
};
use tokio::{sync::Notify, task::JoinHandle};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Journal, JournalError};
use crate::{capabilities::report::Sink, clock::Milliseconds};

/// How long lines are gathered before they are written.
const INTERVAL: Duration = Duration::from_millis(250);

/// The task that writes, and what it ends with.
type Writing = JoinHandle<Result<(), JournalError>>;

/// Gathers what one attempt reports. Cheap to clone; when the last clone is dropped, what was gathered is
/// still written.
#[derive(Clone)]
pub struct Recorder {
    shared: Arc<Shared>,
    /// The task that writes, once there was something to write.
    writer: Arc<Mutex<Option<Writing>>>,
    _stop_when_dropped: Arc<DropGuard>,
}

/// Whose attempt it is.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The operation.
    pub operation_id: String,
    /// Its task on this node.
    pub task_id: String,
    /// Follows the operation through every log.
    pub correlation_id: String,
    /// The step.
    pub step_id: StepId,
    /// 1 for the first.
    pub attempt: u32,
    /// The component that is run.
    pub component: Digest,
}

struct Shared {
    journal: Journal,
    subject: Subject,
    gathered: Mutex<Gathered>,
    news: Notify,
    stop: CancellationToken,
}

#[derive(Default)]
struct Gathered {
    lines: Vec<LogLine>,
    denials: Vec<Denial>,
    progress: Option<(u8, Option<String>)>,
}

impl Recorder {
    /// Starts to gather.
    #[must_use]
    pub fn start(journal: Journal, subject: Subject) -> Self {
        let stop = CancellationToken::new();
        let shared =
            Arc::new(Shared { journal, subject, gathered: Mutex::default(), news: Notify::new(), stop: stop.clone() });
        Self { shared, writer: Arc::default(), _stop_when_dropped: Arc::new(stop.drop_guard()) }
    }

    /// Sees to it that what was gathered is written.
    fn wake(&self) {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if writer.is_none() && !self.shared.stop.is_cancelled() {
            *writer = Some(tokio::spawn(write(Arc::clone(&self.shared))));
        }
        drop(writer);
        self.shared.news.notify_one();
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
        self.shared.stop.cancel();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        match writer {
            // It is let to end by itself: what it has taken is not lost.
            Some(writer) => writer.await.unwrap_or(Err(JournalError::Closed)),
            None => Ok(()),
        }
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Gathered> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn flush(&self) -> Result<(), JournalError> {
        let Gathered { lines, denials, progress } = std::mem::take(&mut *self.lock());
        let Subject { step_id, attempt, component, .. } = &self.subject;
        let (step_id, attempt, component) = (|| step_id.clone(), *attempt, *component);
        let mut events = Vec::new();
        if !denials.is_empty() {
            events.push(StepEvent::Denied { step_id: step_id(), attempt, component, denials });
        }
        if !lines.is_empty() {
            events.push(StepEvent::Log { step_id: step_id(), attempt, lines });
        }
        if let Some((percent, message)) = progress {
            events.push(StepEvent::Progress { step_id: step_id(), percent, message });
        }
        if events.is_empty() { Ok(()) } else { self.journal.append(&self.subject.task_id, events).await }
    }
}

/// Writes a few times a second, and what is left at the end.
async fn write(shared: Arc<Shared>) -> Result<(), JournalError> {
    loop {
        tokio::select! {
            () = shared.stop.cancelled() => return shared.flush().await,
            () = shared.news.notified() => {}
        }
        tokio::select! {
            () = shared.stop.cancelled() => {}
            () = tokio::time::sleep(INTERVAL) => {}
        }
        if let Err(error) = shared.flush().await {
            tracing::error!(error = &error as &dyn std::error::Error, "log lines could not be journaled");
        }
    }
}

impl Sink for Recorder {
    fn line(&self, line: LogLine) {
        self.shared.lock().lines.push(line);
        self.wake();
    }

    fn denied(&self, denial: Denial) {
        let Subject { operation_id, task_id, correlation_id, step_id, attempt, component } = &self.shared.subject;
        tracing::warn!(
            target: "fettle::audit",
            operation_id, task_id, correlation_id, %step_id, attempt, %component,
            capability = denial.capability, function = denial.function, rule = denial.rule,
            subject = denial.subject, number = denial.number, dropped = denial.dropped,
            "a step was denied"
        );
        let text = denial.sentence(step_id);
        {
            let mut gathered = self.shared.lock();
            gathered.lines.push(LogLine { at: denial.at, level: LogLevel::Warn, text });
            gathered.denials.push(denial);
        }
        self.wake();
    }

    fn progress(&self, percent: u8, message: Option<String>) {
        self.shared.lock().progress = Some((percent, message));
        self.wake();
    }
}
