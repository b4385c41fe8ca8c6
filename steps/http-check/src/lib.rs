//! `http.check@v1`: asks a service whether it is as it should be, and changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use fettle_step::{
    CallError, Failure,
    http::{self, Error, Header, Request},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bytes of the answer that are put out.
const SHOWN: usize = 16 * 1024;

/// What to ask, and what to expect.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The address, in the one spelling in which it is read.
    url: String,
    /// `GET`, or `HEAD` for no body.
    #[serde(default)]
    method: Method,
    /// Headers by name.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Milliseconds for the whole exchange; 30,000 when left out, at most 300,000.
    #[serde(default)]
    timeout_ms: u32,
    /// The statuses that are right.
    #[serde(default = "ok")]
    #[schemars(length(min = 1))]
    expected_statuses: BTreeSet<u16>,
    /// A text that the answer must hold.
    #[serde(default)]
    contains: Option<String>,
}

fn ok() -> BTreeSet<u16> {
    BTreeSet::from([200])
}

/// A method that changes nothing.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
enum Method {
    #[default]
    Get,
    Head,
}

/// What came.
#[derive(Debug, Serialize, JsonSchema)]
struct Output {
    status: u16,
    /// The first 16 KiB, as text.
    body: String,
    /// Whether there was more.
    body_truncated: bool,
}

fettle_step::step! {
    kind: "http.check@v1",
    summary: "Asks a service over HTTP and checks its answer.",
    effect: Observe,
    requests: { http: "sends the request that the input names" },
    run: run,
}

fn run(input: &Input) -> Result<Output, Failure> {
    let shown = input.url.split('?').next().unwrap_or_default();
    let response = http::send(&request(input)).map_err(read_again)?;
    if !input.expected_statuses.contains(&response.status) {
        let expected: Vec<String> = input.expected_statuses.iter().map(ToString::to_string).collect();
        let message = format!(
            "`{shown}` answered {}, and {} is expected; look at the service, or correct `expected_statuses`",
            response.status,
            expected.join(" or ")
        );
        return Err(match response.status {
            408 | 429 | 500..=599 => Failure::transient("http-check.status", message),
            _ => Failure::permanent("http-check.status", message),
        });
    }
    let body = String::from_utf8_lossy(&response.body);
    if let Some(text) = input.contains.as_ref().filter(|text| !body.contains(text.as_str())) {
        let message =
            format!("the answer of `{shown}` does not hold `{text}`; look at the service, or correct `contains`");
        return Err(Failure::permanent("http-check.content", message));
    }
    let end = (0..=SHOWN.min(body.len())).rev().find(|end| body.is_char_boundary(*end)).unwrap_or(0);
    let shown = body.get(..end).unwrap_or_default();
    Ok(Output { status: response.status, body: shown.to_owned(), body_truncated: end < body.len() })
}

fn request(input: &Input) -> Request {
    let headers = input.headers.iter().map(|(name, value)| Header { name: name.clone(), value: value.clone() });
    let method = match input.method {
        Method::Get => http::Method::Get,
        Method::Head => http::Method::Head,
    };
    let (url, timeout_ms) = (input.url.clone(), input.timeout_ms);
    Request { method, url, headers: headers.collect(), body: Vec::new(), timeout_ms }
}

/// What only reads may be asked again, however far it came.
fn read_again(error: CallError<Error>) -> Failure {
    match error.cause {
        Error::BrokeOff(reason) => CallError { attempted: error.attempted, cause: Error::Unreachable(reason) }.into(),
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests;
