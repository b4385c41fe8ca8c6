//! How an attempt is stopped: at once while it changes nothing; else it is asked to end, and killed when it does not.

use fettle_model::{
    descriptor::Effect,
    settlement::{Finding, Interruption, Settlement},
};

use super::{
    Application, Tried,
    attempt::{Attempt, Phase},
    settle::Unclear,
};

impl Application<'_> {
    /// Works until it is done, or told to stop; none when the task is put down.
    pub(super) async fn until_stopped(&self, attempt: &Attempt<'_>, unclear: Option<Unclear>) -> Option<Tried> {
        if unclear.is_some() {
            attempt.enter(Phase::Settling);
        }
        let tried = {
            // On the heap: it is the largest part of all that waits for it.
            let mut work = Box::pin(async {
                match unclear {
                    Some(unclear) => self.settle(attempt, unclear).await,
                    None => self.fresh(attempt).await,
                }
            });
            tokio::select! {
                tried = &mut work => Some(Some(tried)),
                () = self.signals.put_down.cancelled() => None,
                () = self.stopped(attempt) => {
                    if attempt.is_in(Phase::Running) {
                        self.say_stop(attempt);
                        tokio::select! {
                            tried = &mut work => Some(Some(tried)),
                            () = self.signals.put_down.cancelled() => None,
                            () = tokio::time::sleep(self.executor.cancel_grace) => Some(None),
                        }
                    } else {
                        Some(None)
                    }
                }
            }
        };
        // The work is dropped by now: its store is gone, and the programs that it started are killed.
        let canceled = self.signals.cancel.is_cancelled();
        match tried? {
            Some(done @ Tried::Done { .. }) if canceled && attempt.is_in(Phase::Running) => {
                self.finished_in_time(attempt);
                Some(done)
            }
            Some(tried) => Some(tried),
            None if attempt.is_in(Phase::Running) => Some(Tried::Unclear(Unclear::canceled())),
            None => Some(self.canceled_before(attempt)),
        }
    }

    /// Waits for a cancel. What finds out is bounded, and is let to end.
    async fn stopped(&self, attempt: &Attempt<'_>) {
        self.signals.cancel.cancelled().await;
        attempt.is_settled().await;
    }

    /// The step was stopped before it could change anything.
    pub(super) fn canceled_before(&self, attempt: &Attempt<'_>) -> Tried {
        // What was found out before says more.
        if attempt.settlement().is_none() {
            let (finding, message) = match self.ready.loaded.descriptor.effect {
                Effect::Observe => (Finding::NotDone, "the operation was canceled; this step only looks"),
                Effect::Converge | Effect::Consume => {
                    (Finding::NotStarted, "the operation was canceled before this step changed anything")
                }
            };
            attempt.settle(of_cancel(finding, message));
        }
        Tried::Canceled
    }

    fn finished_in_time(&self, attempt: &Attempt<'_>) {
        let message = "the operation was canceled, and this step came to its end before it was stopped";
        attempt.settle(of_cancel(Finding::Finished, message));
    }

    fn say_stop(&self, attempt: &Attempt<'_>) {
        let seconds = self.executor.cancel_grace.as_secs();
        let text = format!("the operation was canceled: the step is asked to end, and stopped after {seconds} s");
        attempt.recorder.say(self.executor.clock.now(), text);
    }
}

fn of_cancel(finding: Finding, message: &str) -> Settlement {
    Settlement {
        cause: Interruption::Canceled,
        finding,
        needs_person: false,
        probes: 0,
        decided_by: None,
        message: message.to_owned(),
    }
}
