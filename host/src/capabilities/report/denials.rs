//! Calls of one attempt that were refused: which rule refused what.
//!
//! The rule is noted where it is decided, in the capability; the gate records it. The step itself hears
//! only that access is denied. What is recorded is bounded: a step that asks a million times makes as
//! many records as one that asks often, and the last says how many are missing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fettle_egress::{Consent, Refused};
use fettle_model::denial::Denial;

use super::Sink;
use crate::clock::{Clock, Milliseconds};

/// Denials of one attempt that are recorded each; of those after them only the last is, with their number.
pub const RECORDED: u32 = 32;

/// Where the denials of one attempt go. Cheap to clone; records nothing by default.
#[derive(Clone, Default)]
pub struct Denials(Option<Arc<Shared>>);

struct Shared {
    sink: Arc<dyn Sink>,
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    noted: Option<Noted>,
    recorded: u32,
    /// The last one that was not recorded; it says how many there were before it.
    unrecorded: Option<Denial>,
}

impl State {
    /// The record of a call that was refused by the rule that was noted.
    fn denial(&mut self, capability: &str, function: &str, at: Milliseconds) -> Denial {
        let noted = self.noted.take().unwrap_or_else(|| Noted {
            rule: format!("{capability}.{function}"),
            allows: Vec::new(),
            subject: String::new(),
        });
        Denial {
            number: self.recorded.saturating_add(1),
            at,
            capability: capability.to_owned(),
            function: function.to_owned(),
            rule: noted.rule,
            allows: noted.allows,
            subject: noted.subject,
            dropped: 0,
        }
    }
}

/// A rule, and what it refused.
struct Noted {
    rule: String,
    allows: Vec<String>,
    subject: String,
}

impl Denials {
    pub(super) fn new(sink: Arc<dyn Sink>, clock: Clock) -> Self {
        Self(Some(Arc::new(Shared { sink, clock, state: Mutex::default() })))
    }

    /// Notes which rule refuses the call that is being made: its name (`files.write`), what it allows, and
    /// what was wanted instead, in the form in which the rule would name it. Never a secret.
    pub(crate) fn note(&self, rule: &str, allows: impl IntoIterator<Item = impl ToString>, subject: impl ToString) {
        let Some(shared) = &self.0 else { return };
        let allows = allows.into_iter().take(fettle_model::denial::ALLOWS_LIMIT).map(|one| one.to_string()).collect();
        shared.lock().noted = Some(Noted { rule: rule.to_owned(), allows, subject: subject.to_string() });
    }

    /// Notes that a host leads to an address that the node does not connect to.
    pub(crate) fn note_address(&self, refused: &Refused) {
        let Refused { host, address, range } = refused;
        let length = if address.is_ipv4() { 32 } else { 128 };
        match range.consent {
            Consent::Never => self.note("egress", [""; 0], format!("{host} at {address}")),
            Consent::Exact | Consent::Network => {
                self.note("egress.private", [""; 0], format!("{host}: [{address}/{length}]"));
            }
        }
    }

    /// Records that a call was refused, by the rule that was noted.
    pub(crate) fn record(&self, capability: &str, function: &str) {
        let Some(shared) = &self.0 else { return };
        let at = shared.clock.now();
        let recorded = {
            let mut state = shared.lock();
            let denial = state.denial(capability, function, at);
            if state.recorded < RECORDED {
                state.recorded = denial.number;
                Some(denial)
            } else {
                let dropped = state.unrecorded.as_ref().map_or(0, |last| last.dropped.saturating_add(1));
                state.unrecorded = Some(Denial { dropped, ..denial });
                None
            }
        };
        if let Some(denial) = recorded {
            shared.sink.denied(denial.shortened());
        }
    }

    /// Forgets what was noted: the call was not refused after all.
    pub(crate) fn forget(&self) {
        if let Some(shared) = &self.0 {
            shared.lock().noted = None;
        }
    }

    /// The attempt is over: records how many denials were not.
    pub(crate) fn close(&self) {
        if let Some(shared) = &self.0 {
            shared.close();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        let unrecorded = self.lock().unrecorded.take();
        if let Some(denial) = unrecorded {
            self.sink.denied(denial.shortened());
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use fettle_model::task::LogLine;

    use super::*;

    #[derive(Default)]
    struct Heard(Mutex<Vec<Denial>>);

    impl Sink for Heard {
        fn line(&self, _line: LogLine) {}
        fn progress(&self, _percent: u8, _message: Option<String>) {}
        fn denied(&self, denial: Denial) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(denial);
        }
    }

    fn denials() -> (Arc<Heard>, Denials) {
        let heard = Arc::new(Heard::default());
        let denials = Denials::new(Arc::<Heard>::clone(&heard), Clock::system());
        (heard, denials)
    }

    #[test]
    fn many_denials_are_a_bounded_number_of_records_and_their_number() {
        let (heard, denials) = denials();
        for index in 0..100_000_u64 {
            denials.note("files.write", ["models"], format!("config/{index}"));
            denials.record("files", "write");
        }
        denials.close();
        drop(denials);
        let heard = heard.0.lock().unwrap();
        assert_eq!(heard.len(), RECORDED as usize + 1);
        let numbers: Vec<u32> = heard.iter().map(|denial| denial.number).collect();
        assert_eq!(numbers, (1..=RECORDED + 1).collect::<Vec<_>>());
        let last = heard.last().unwrap();
        assert_eq!((last.subject.as_str(), last.dropped), ("config/99999", 100_000 - u64::from(RECORDED) - 1));
        assert!(heard.iter().rev().skip(1).all(|denial| denial.dropped == 0));
    }

    #[test]
    fn a_note_counts_for_its_own_call_only() {
        let (heard, denials) = denials();
        denials.note("files.write", ["models"], "config/x");
        denials.forget();
        denials.record("gpu", "read");
        let heard = heard.0.lock().unwrap();
        assert_eq!((heard[0].rule.as_str(), heard[0].subject.as_str()), ("gpu.read", ""));
    }
}
