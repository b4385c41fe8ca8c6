//! Where work continues: the header `traceparent` of W3C Trace Context.

use std::{fmt, str::FromStr};

use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};

/// Digits of a header of the one version there is.
const LENGTH: usize = 55;

/// A span, wherever it runs, under which other work continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceParent {
    trace: TraceId,
    span: SpanId,
    sampled: bool,
}

/// A text that is no `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a traceparent is written `00-<32 hexadecimal digits>-<16 hexadecimal digits>-<2 hexadecimal digits>`, and no id is zero"
)]
pub struct NotATraceParent;

impl TraceParent {
    /// One that nobody records. The bytes must be fresh, and not all zero.
    #[must_use]
    pub const fn unrecorded(trace: [u8; 16], span: [u8; 8]) -> Self {
        Self { trace: TraceId::from_bytes(trace), span: SpanId::from_bytes(span), sampled: false }
    }

    /// The trace, as it is written in logs.
    #[must_use]
    pub fn trace_id(&self) -> String {
        self.trace.to_string()
    }

    /// The span, as it is written in logs.
    #[must_use]
    pub fn span_id(&self) -> String {
        self.span.to_string()
    }

    /// Whether spans below it are sent to a collector.
    #[must_use]
    pub const fn is_sampled(&self) -> bool {
        self.sampled
    }

    /// None for a span that no layer looks after.
    pub(crate) fn of(context: &SpanContext) -> Option<Self> {
        let (trace, span) = (context.trace_id(), context.span_id());
        context.is_valid().then(|| Self { trace, span, sampled: context.is_sampled() })
    }

    /// As the parent of a span of this process.
    pub(crate) fn remote(&self) -> SpanContext {
        let flags = if self.sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
        SpanContext::new(self.trace, self.span, flags, true, TraceState::default())
    }
}

/// The number in lowercase hexadecimal digits: anything else has another form too.
fn digits(text: &str) -> Result<&str, NotATraceParent> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.bytes().all(is_digit).then_some(text).ok_or(NotATraceParent)
}

impl FromStr for TraceParent {
    type Err = NotATraceParent;

    fn from_str(text: &str) -> Result<Self, NotATraceParent> {
        if !text.is_ascii() || text.len() < LENGTH {
            return Err(NotATraceParent);
        }
        let (known, rest) = text.split_at(LENGTH);
        let [version, trace, span, flags] = known.split('-').collect::<Vec<_>>()[..] else {
            return Err(NotATraceParent);
        };
        // A later version may say more after a dash; `ff` is none.
        let says_more = version != "00" && rest.starts_with('-');
        let lengths = [version.len(), trace.len(), span.len(), flags.len()] == [2, 32, 16, 2];
        if !lengths || digits(version)? == "ff" || !(rest.is_empty() || says_more) {
            return Err(NotATraceParent);
        }
        let trace = TraceId::from_hex(digits(trace)?).map_err(|_| NotATraceParent)?;
        let span = SpanId::from_hex(digits(span)?).map_err(|_| NotATraceParent)?;
        let flags = u8::from_str_radix(digits(flags)?, 16).map_err(|_| NotATraceParent)?;
        if trace == TraceId::INVALID || span == SpanId::INVALID {
            return Err(NotATraceParent);
        }
        Ok(Self { trace, span, sampled: flags & 1 == 1 })
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace, self.span, u8::from(self.sampled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_header_is_written_as_it_was_read() {
        for text in [SAMPLED, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"] {
            let parent: TraceParent = text.parse().unwrap();
            assert_eq!((parent.to_string().as_str(), parent.is_sampled()), (text, text == SAMPLED));
            assert_eq!(TraceParent::of(&parent.remote()), Some(parent));
        }
    }

    #[test]
    fn a_later_version_may_say_more_and_the_first_may_not() {
        let later = SAMPLED.replacen("00", "01", 1);
        assert!(later.parse::<TraceParent>().is_ok() && format!("{later}-more").parse::<TraceParent>().is_ok());
        assert!(format!("{SAMPLED}-more").parse::<TraceParent>().is_err());
        assert!(format!("{later}more").parse::<TraceParent>().is_err());
    }

    #[test]
    fn what_is_no_header_is_refused() {
        for text in [
            "",
            "00",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0g",
            "00-4bf92f3577b34da6a3ce929d0e0e47-3600f067aa0ba902b7-01",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-ébf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
        ] {
            assert_eq!(text.parse::<TraceParent>(), Err(NotATraceParent), "{text}");
        }
    }
}
