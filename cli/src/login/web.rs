//! Questions to an issuer: over TLS or to this machine, without redirects, with answers of bounded size.

use std::time::Duration;

use oauth2::{HttpRequest, HttpResponse, http};
use reqwest::{Url, redirect};
use serde::de::DeserializeOwned;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// The most bytes of an answer.
const LARGEST: usize = 256 << 10;

/// Asks an issuer.
pub(super) struct Web(reqwest::Client);

/// Why there is no answer. No text of it holds a token.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// Nothing came.
    #[error("{0}")]
    Lost(String),
    /// It answered something else.
    #[error("it answered {0}")]
    Status(u16),
    /// It answered without end.
    #[error("its answer is larger than {LARGEST} bytes")]
    TooLarge,
    /// It answered in another form.
    #[error("its answer is of another form")]
    Form,
    /// It speaks for another one.
    #[error("it says that it is `{0}`; write the issuer letter by letter as it writes itself")]
    OtherIssuer(String),
    /// Anybody between could read the token.
    #[error(
        "`{0}` is not reached by https, so tokens would be read on the way; only loopback may be spoken to in clear"
    )]
    Insecure(String),
}

/// Whether nobody in between reads what is said there.
pub(super) fn is_safe(url: &str) -> bool {
    let Ok(url) = url.parse::<Url>() else { return false };
    let is_loopback = url.host_str().is_some_and(|host| {
        let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    });
    url.scheme() == "https" || url.scheme() == "http" && is_loopback
}

fn lost(error: reqwest::Error) -> WebError {
    let error = error.without_url();
    let mut last: &dyn std::error::Error = &error;
    while let Some(next) = last.source() {
        last = next;
    }
    WebError::Lost(last.to_string())
}

impl Web {
    /// For an issuer that may be spoken to; none for another.
    pub(super) fn for_issuer(issuer: &str) -> Option<Self> {
        let client = reqwest::Client::builder().redirect(redirect::Policy::none()).timeout(PATIENCE).build().ok()?;
        is_safe(issuer).then_some(Self(client))
    }

    /// Reads a document.
    pub(super) async fn document<T: DeserializeOwned>(&self, place: &str) -> Result<T, WebError> {
        let response = self.0.get(place).send().await.map_err(lost)?;
        if !response.status().is_success() {
            return Err(WebError::Status(response.status().as_u16()));
        }
        serde_json::from_slice(&whole(response).await?).map_err(|_| WebError::Form)
    }

    /// Sends what OAuth asks.
    pub(super) async fn send(&self, request: HttpRequest) -> Result<HttpResponse, WebError> {
        let request = request.try_into().map_err(lost)?;
        let response = self.0.execute(request).await.map_err(lost)?;
        let mut answer = http::Response::builder().status(response.status());
        if let Some(headers) = answer.headers_mut() {
            headers.extend(response.headers().clone());
        }
        answer.body(whole(response).await?).map_err(|_| WebError::Form)
    }
}

async fn whole(mut response: reqwest::Response) -> Result<Vec<u8>, WebError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(lost)? {
        if body.len() + chunk.len() > LARGEST {
            return Err(WebError::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::is_safe;

    #[test]
    fn tokens_are_not_sent_in_clear() {
        for (url, safe) in [
            ("https://login.example", true),
            ("http://127.0.0.1:8080/a", true),
            ("http://localhost:1", true),
            ("http://[::1]:1", true),
            ("http://login.example", false),
            ("http://127.0.0.1.example", false),
            ("login.example", false),
        ] {
            assert_eq!(is_safe(url), safe, "{url}");
        }
    }
}
