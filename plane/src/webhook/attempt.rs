//! One request to a receiver.

use std::{error::Error, fmt, time::Duration};

use fettle_egress::{
    Client,
    http::{Error as RequestError, HeaderMap, Method, Response},
    refusal,
};
use fettle_store::{event::Event, webhook::Webhook};
use jiff::Timestamp;
use zeroize::Zeroizing;

use super::{message, signature, vault::VaultError};
use crate::state::State;

/// Bytes of an answer that are read, so that its connection can be used again. Nothing is done with them.
const ANSWER_BYTES: usize = 64 << 10;

/// How long reading them may take.
const ANSWER_TIME: Duration = Duration::from_secs(1);

/// Characters of a cause that are kept.
const CAUSE: usize = 200;

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// A status from 200 to 299.
    Accepted(u16),
    /// 410: the receiver wants no more.
    Unwanted,
    /// Another status from 400 to 499: the receiver finds something wrong with the request.
    Refused(u16),
    /// Any other status: it may go better later, perhaps after what the receiver asks for.
    Later { status: u16, wait: Option<Duration> },
    /// No answer, and why.
    Failed(String),
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted(status) | Self::Refused(status) => write!(f, "status {status}"),
            Self::Unwanted => f.write_str("status 410: the receiver wants no more"),
            Self::Later { status: status @ 300..=399, .. } => {
                write!(f, "status {status}: redirects are not followed; register the address that it leads to")
            }
            Self::Later { status, wait: Some(wait) } => {
                write!(f, "status {status}: the receiver asks for {} s", wait.as_secs())
            }
            Self::Later { status, wait: None } => write!(f, "status {status}"),
            Self::Failed(cause) => f.write_str(cause),
        }
    }
}

/// Sends an event.
pub(super) async fn send(state: &State, client: &Client, webhook: &Webhook, event: &Event) -> Answer {
    let body = message::body(event);
    let id = message::id(event);
    let now = state.clock.now();
    let secrets = match signing(state, webhook, now) {
        Ok(secrets) => secrets,
        Err(error) => return Answer::Failed(unsigned(&error)),
    };
    let Ok(url) = webhook.url.parse() else { return Answer::Failed("the address is no URL".to_owned()) };
    let request = match client.request(Method::POST, url) {
        Ok(request) => request,
        Err(refused) => return Answer::Failed(inside(&refused)),
    };
    let seconds = now.as_second().to_string();
    let request = request
        .timeout(state.config.webhooks.timeout)
        .header("content-type", "application/json")
        .header("webhook-signature", signature::header(&secrets, &id, &seconds, &body))
        .header("webhook-timestamp", seconds)
        .header("webhook-id", id)
        .body(body);
    match request.send().await {
        Ok(response) => {
            let answer = read(response.status().as_u16(), response.headers(), now);
            drain(response).await;
            answer
        }
        Err(error) => Answer::Failed(cause(&error, state.config.webhooks.timeout)),
    }
}

/// What signs now: the secret, and while it is being rotated the one before it. It may be rotated because the key of the one
/// before is lost.
fn signing(state: &State, webhook: &Webhook, now: Timestamp) -> Result<Vec<Zeroizing<String>>, VaultError> {
    let open = |secret| state.vault.open(webhook.id, secret);
    let previous = webhook.previous.as_ref().filter(|(_, until)| *until > now);
    let previous = previous.and_then(|(secret, _)| open(secret).ok());
    Ok(std::iter::once(open(&webhook.secret)?).chain(previous).collect())
}

fn unsigned(error: &VaultError) -> String {
    format!(
        "nothing was sent, because it cannot be signed: {error}; rotate the secret, or have an administrator of the \
         platform start the plane with the key of before (`--secret-key`)"
    )
}

fn read(status: u16, headers: &HeaderMap, now: Timestamp) -> Answer {
    match status {
        200..=299 => Answer::Accepted(status),
        410 => Answer::Unwanted,
        408 | 425 | 429 => Answer::Later { status, wait: retry_after(headers, now) },
        400..=499 => Answer::Refused(status),
        _ => Answer::Later { status, wait: retry_after(headers, now) },
    }
}

/// Seconds, or a date.
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get("retry-after")?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    Duration::try_from(at.duration_since(now)).ok()
}

async fn drain(mut response: Response) {
    let mut left = ANSWER_BYTES;
    let read = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            left = left.saturating_sub(chunk.len());
            if left == 0 {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(ANSWER_TIME, read).await;
}

/// Says nothing of the address that was found: a tenant should not learn how names resolve inside.
fn inside(refused: &fettle_egress::Refused) -> String {
    format!(
        "the host leads to {}, where webhooks are not sent; an administrator of the platform can allow it with \
         `--webhook-private`",
        refused.range.name
    )
}

fn cause(error: &RequestError, timeout: Duration) -> String {
    if let Some(refused) = refusal(error) {
        return inside(refused);
    }
    if error.is_timeout() {
        return format!("no answer within {} s", timeout.as_secs_f32());
    }
    let first = std::iter::successors(error.source(), |&cause| cause.source()).last();
    let text = first.map_or_else(|| "the request could not be sent".to_owned(), ToString::to_string);
    text.chars().filter(|character| !character.is_control()).take(CAUSE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_read_as_seconds_and_as_a_date() {
        let now: Timestamp = "2027-01-15T08:00:00Z".parse().unwrap();
        let asked = |text: &'static str| {
            let headers = HeaderMap::from_iter([("retry-after".parse().unwrap(), text.parse().unwrap())]);
            retry_after(&headers, now)
        };
        assert_eq!(asked("120"), Some(Duration::from_secs(120)));
        assert_eq!(asked("Fri, 15 Jan 2027 08:01:30 GMT"), Some(Duration::from_secs(90)));
        assert_eq!(asked("Fri, 15 Jan 2027 07:00:00 GMT"), None);
        assert_eq!(asked("soon"), None);
    }

    #[test]
    fn statuses_mean_what_the_standard_says() {
        let now = Timestamp::UNIX_EPOCH;
        let told = |status| read(status, &HeaderMap::new(), now);
        assert_eq!([told(200), told(204)], [Answer::Accepted(200), Answer::Accepted(204)]);
        assert_eq!([told(400), told(404)], [Answer::Refused(400), Answer::Refused(404)]);
        assert_eq!(told(410), Answer::Unwanted);
        for status in [302, 408, 429, 500, 503] {
            assert_eq!(told(status), Answer::Later { status, wait: None });
        }
        assert!(told(302).to_string().contains("redirects are not followed"));
    }
}
