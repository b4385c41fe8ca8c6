//! A cassette while it is recorded: one buffer that only grows, and is the cassette when it is finished.

use std::io::Write as _;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Serialize;

use super::{
    End, Function, Header, Outcome, Truncated,
    encode::{Encoder, Side},
    name,
};

/// What most attempts need; a buffer that is large enough is not moved.
const USUAL_BYTES: usize = 2 << 10;

/// Records one attempt.
#[derive(Debug)]
pub struct Recording {
    text: Vec<u8>,
    side: Side,
    bound: usize,
    calls: u32,
    truncated: bool,
    /// Where the line of the call that has no answer yet begins.
    open_call: Option<usize>,
    open_function: bool,
}

/// Where in the buffer the arguments of the last call are.
#[derive(Clone, Copy, Debug)]
struct Span {
    begin: usize,
    end: usize,
}

impl Recording {
    /// Begins one. Calls are recorded while all of them together take at most `bound` bytes.
    #[must_use]
    pub fn new(header: &Header, bound: usize) -> Self {
        let mut recording = Self {
            text: Vec::with_capacity(USUAL_BYTES),
            side: Side::default(),
            bound,
            calls: 0,
            truncated: false,
            open_call: None,
            open_function: false,
        };
        recording.line(header);
        recording
    }

    /// A function of the component begins; `output` is what an undo is told.
    pub fn begin(&mut self, function: Function, output: Option<&str>) {
        #[derive(Serialize)]
        struct Begin<'a> {
            function: Function,
            #[serde(skip_serializing_if = "Option::is_none")]
            output: Option<&'a str>,
        }
        self.interrupt();
        self.line(&Begin { function, output });
        self.open_function = true;
    }

    /// The component calls `function` of `interface`. Answers the arguments as they are recorded, none when
    /// nothing is recorded any more.
    pub fn call<A: Serialize + ?Sized>(&mut self, interface: &str, function: &str, arguments: &A) -> Option<&str> {
        self.close_call();
        if self.truncated {
            return None;
        }
        let start = self.text.len();
        self.text.extend_from_slice(b"{\"call\":\"");
        name::push_wit(&mut self.text, interface);
        self.text.push(b'.');
        name::push_wit(&mut self.text, function);
        self.text.extend_from_slice(b"\",\"arguments\":");
        let mut span = self.value(start, arguments)?;
        if &self.text[span.begin..] == b"null" {
            self.text.truncate(span.begin);
            self.text.extend_from_slice(b"[]");
            span.end = self.text.len();
        }
        self.open_call = Some(start);
        std::str::from_utf8(&self.text[span.begin..span.end]).ok()
    }

    /// The host answers the last call.
    pub fn answer<A: Serialize + ?Sized>(&mut self, answer: &A) -> Option<&str> {
        let start = self.open_call.take()?;
        self.text.extend_from_slice(b",\"answer\":");
        let span = self.value(start, answer)?;
        self.end_call();
        std::str::from_utf8(&self.text[span.begin..span.end]).ok()
    }

    /// The last call ended the component.
    pub fn trap(&mut self, reason: &str) {
        if self.open_call.take().is_some() {
            self.text.extend_from_slice(b",\"trap\":");
            let _ = serde_json::to_writer(&mut self.text, reason);
            self.end_call();
        }
    }

    /// What the function came to.
    pub fn end(&mut self, outcome: &Outcome) {
        #[derive(Serialize)]
        struct Ended<'a> {
            outcome: &'a Outcome,
        }
        self.close_call();
        self.open_function = false;
        self.line(&Ended { outcome });
    }

    /// The finished cassette. A function without an outcome was interrupted.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        #[derive(Serialize)]
        struct Ended {
            end: End,
        }
        self.interrupt();
        let blobs = std::mem::take(&mut self.side.blobs);
        for (digest, bytes) in &blobs {
            let _ = writeln!(self.text, "{{\"blob\":\"{digest}\",\"base64\":\"{}\"}}", STANDARD.encode(bytes));
        }
        let blobs = u32::try_from(blobs.len()).unwrap_or(u32::MAX);
        self.line(&Ended { end: End { calls: self.calls, blobs } });
        self.text
    }

    fn interrupt(&mut self) {
        self.close_call();
        if std::mem::take(&mut self.open_function) {
            self.end(&Outcome::Interrupted);
        }
    }

    /// A call that was never answered.
    fn close_call(&mut self) {
        if self.open_call.take().is_some() {
            self.end_call();
        }
    }

    fn end_call(&mut self) {
        self.text.extend_from_slice(b"}\n");
        self.calls += 1;
    }

    /// Adds a value to the line that begins at `start`; takes the line back when it is too much.
    fn value<T: Serialize + ?Sized>(&mut self, start: usize, value: &T) -> Option<Span> {
        let begin = self.text.len();
        let encoded = value.serialize(&mut Encoder::new(&mut self.text, &mut self.side));
        let reason = match encoded {
            Err(error) => format!("a value has no form here: {error}"),
            Ok(()) if self.text.len() + self.side.blob_bytes > self.bound => {
                format!("the calls take more than {} bytes", self.bound)
            }
            Ok(()) => return Some(Span { begin, end: self.text.len() }),
        };
        self.text.truncate(start);
        self.truncate(reason);
        None
    }

    fn truncate(&mut self, reason: String) {
        #[derive(Serialize)]
        struct Cut {
            truncated: Truncated,
        }
        self.truncated = true;
        self.line(&Cut { truncated: Truncated { after_calls: self.calls, reason } });
    }

    fn line<T: Serialize>(&mut self, value: &T) {
        // Writing plain records to memory does not fail.
        let _ = serde_json::to_writer(&mut self.text, value);
        self.text.push(b'\n');
    }
}
