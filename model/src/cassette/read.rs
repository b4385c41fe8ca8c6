//! A cassette as it is read back: complete and consistent, or an error that names the line.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{Blobs, DecodeError, End, Function, Header, Outcome, Truncated, VERSION, decode};
use crate::digest::Digest;

/// Why something is no cassette.
#[derive(Debug, thiserror::Error)]
pub enum CassetteError {
    /// A line is not what the format says.
    #[error("line {line} of the cassette is wrong: {reason}")]
    Line {
        /// 1 for the first.
        line: usize,
        /// Which rule it breaks.
        reason: String,
    },
    /// The end is missing.
    #[error("the cassette has no end: it was cut off; export it again")]
    NoEnd,
    /// Another format.
    #[error(
        "the cassette has format {found}, and this program reads format {VERSION}; use the program of that version"
    )]
    Version {
        /// What it says.
        found: u32,
    },
}

/// One recorded attempt.
#[derive(Clone, Debug)]
pub struct Cassette {
    /// Of all its bytes.
    pub digest: Digest,
    /// Which attempt of what.
    pub header: Header,
    /// The functions in the order in which they ran.
    pub functions: Vec<Played>,
    /// Why not everything is in it, when that is so.
    pub truncated: Option<Truncated>,
    /// Bulk bytes that calls refer to.
    pub blobs: Blobs,
}

/// One function of the component.
#[derive(Clone, Debug)]
pub struct Played {
    /// Which.
    pub function: Function,
    /// What an undo was told.
    pub output: Option<String>,
    /// Its capability calls, in order.
    pub calls: Vec<Call>,
    /// What it came to.
    pub outcome: Outcome,
}

/// One capability call.
#[derive(Clone, Debug)]
pub struct Call {
    /// `files.stat`
    pub name: String,
    /// The arguments, as JSON text.
    pub arguments: String,
    /// What came of it.
    pub answer: Answer,
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The component was answered this, as JSON text.
    Given(String),
    /// The call ended the component.
    Trapped(String),
    /// The attempt ended while the call was under way.
    Missing,
}

/// Any line but the header.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    function: Option<Function>,
    output: Option<String>,
    call: Option<String>,
    arguments: Option<Box<RawValue>>,
    // `null` is an answer: that of a function without a value.
    #[serde(default, deserialize_with = "given")]
    answer: Option<Box<RawValue>>,
    trap: Option<String>,
    outcome: Option<Outcome>,
    truncated: Option<Truncated>,
    blob: Option<Digest>,
    base64: Option<String>,
    end: Option<End>,
}

fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

impl Cassette {
    /// Reads a cassette.
    ///
    /// # Errors
    /// When it is cut off, of another format, or a line is not what the format says.
    pub fn read(content: &[u8]) -> Result<Self, CassetteError> {
        let lines = content.split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty());
        let mut lines = lines.map(|(index, line)| (index + 1, line));
        let Some((_, header)) = lines.next() else { return Err(CassetteError::NoEnd) };
        let mut reader = Reader {
            cassette: Self {
                digest: Digest::of(content),
                header: read_header(header)?,
                functions: Vec::new(),
                truncated: None,
                blobs: Blobs::new(),
            },
            open: None,
            calls: 0,
            ended: false,
        };
        for (number, line) in lines {
            reader.line(line).map_err(|reason| CassetteError::Line { line: number, reason })?;
        }
        if reader.ended { Ok(reader.cassette) } else { Err(CassetteError::NoEnd) }
    }

    /// Its calls, in order, whichever function made them.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.functions.iter().flat_map(|played| &played.calls)
    }

    /// What it came to in the end.
    #[must_use]
    pub fn outcome(&self) -> Option<&Outcome> {
        self.functions.last().map(|played| &played.outcome)
    }
}

impl Call {
    /// The recorded answer as the contract's type.
    ///
    /// # Errors
    /// When the text is not what the contract says.
    pub fn decode<T: serde::de::DeserializeOwned>(text: &str, blobs: &Blobs) -> Result<T, DecodeError> {
        let value = serde_json::from_str(text).map_err(<DecodeError as serde::de::Error>::custom)?;
        decode(value, blobs)
    }
}

fn read_header(line: &[u8]) -> Result<Header, CassetteError> {
    #[derive(Deserialize)]
    struct Format {
        cassette: u32,
    }
    let wrong = |error: serde_json::Error| CassetteError::Line { line: 1, reason: error.to_string() };
    let Format { cassette: found } = serde_json::from_slice(line).map_err(wrong)?;
    if found == VERSION { serde_json::from_slice(line).map_err(wrong) } else { Err(CassetteError::Version { found }) }
}

struct Reader {
    cassette: Cassette,
    open: Option<(Function, Option<String>, Vec<Call>)>,
    calls: u32,
    ended: bool,
}

impl Reader {
    fn line(&mut self, text: &[u8]) -> Result<(), String> {
        if self.ended {
            return Err("it comes after the end".to_owned());
        }
        let line: Line = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        match line {
            Line { function: Some(function), output, .. } => self.function(function, output),
            Line { call: Some(name), arguments: Some(arguments), answer, trap, .. } => {
                let answer = match (answer, trap) {
                    (Some(answer), None) => Answer::Given(answer.get().to_owned()),
                    (None, Some(reason)) => Answer::Trapped(reason),
                    (None, None) => Answer::Missing,
                    (Some(_), Some(_)) => return Err("a call has either `answer` or `trap`".to_owned()),
                };
                self.call(Call { name, arguments: arguments.get().to_owned(), answer })
            }
            Line { outcome: Some(outcome), .. } => self.outcome(outcome),
            Line { truncated: Some(truncated), .. } => {
                self.cassette.truncated = Some(truncated);
                Ok(())
            }
            Line { blob: Some(digest), base64: Some(text), .. } => self.blob(digest, &text),
            Line { end: Some(end), .. } => self.end(end),
            _ => Err("it is no function, call, outcome, blob or end".to_owned()),
        }
    }

    fn function(&mut self, function: Function, output: Option<String>) -> Result<(), String> {
        if self.open.is_some() {
            return Err("the function before it has no outcome".to_owned());
        }
        self.open = Some((function, output, Vec::new()));
        Ok(())
    }

    fn call(&mut self, call: Call) -> Result<(), String> {
        let (_, _, calls) = self.open.as_mut().ok_or("a call is outside of a function")?;
        calls.push(call);
        self.calls += 1;
        Ok(())
    }

    fn outcome(&mut self, outcome: Outcome) -> Result<(), String> {
        let (function, output, calls) = self.open.take().ok_or("an outcome is outside of a function")?;
        self.cassette.functions.push(Played { function, output, calls, outcome });
        Ok(())
    }

    fn blob(&mut self, digest: Digest, text: &str) -> Result<(), String> {
        use base64::{Engine as _, engine::general_purpose::STANDARD};
        let bytes = STANDARD.decode(text).map_err(|error| format!("blob {digest} is not base64: {error}"))?;
        if Digest::of(&bytes) != digest {
            return Err(format!("blob {digest} has other content than its digest says"));
        }
        self.cassette.blobs.insert(digest, bytes);
        Ok(())
    }

    fn end(&mut self, end: End) -> Result<(), String> {
        if self.open.is_some() {
            return Err("the last function has no outcome".to_owned());
        }
        let blobs = u32::try_from(self.cassette.blobs.len()).unwrap_or(u32::MAX);
        let found = End { calls: self.calls, blobs };
        if found != end {
            return Err(format!(
                "it promises {} calls and {} blobs, and there are {} and {}",
                end.calls, end.blobs, found.calls, found.blobs
            ));
        }
        self.ended = true;
        Ok(())
    }
}
