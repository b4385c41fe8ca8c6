//! Questions to an issuer: over TLS or to this machine, without redirects, with answers of bounded size.

use std::time::Duration;

use fettle_egress::is_confidential;
use oauth2::{HttpRequest, HttpResponse, http};
use reqwest::redirect;
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

/// Whether an address may be spoken to.
pub(super) fn is_safe(url: &str) -> bool {
    url.parse().is_ok_and(|url| is_confidential(&url))
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
