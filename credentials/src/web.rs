//! Asking a service: addresses of the administrator's choice, whole answers of bounded size, and no secret in errors.

use std::time::Duration;

use fettle_egress::{
    Client, ClientOptions, Guard,
    http::{Method, RequestBuilder},
    is_confidential,
};
use serde::de::DeserializeOwned;
use url::Url;
use zeroize::Zeroizing;

use crate::provider::ProviderError;

/// How long a service may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// The most bytes of an answer.
const LARGEST: usize = 64 << 10;

/// A service that gives credentials.
pub(crate) struct Service {
    url: Url,
    client: Client,
}

/// Why an address is none of a service.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AddressError {
    #[error(
        "`{0}` is not reached by https, so secrets would be read on the way; only loopback may be spoken to in clear"
    )]
    Insecure(Url),
    #[error("`{0}` has a user, a query or a fragment; write the address alone")]
    Surplus(String),
    #[error(transparent)]
    Client(#[from] fettle_egress::ClientError),
}

impl Service {
    pub(crate) fn at(url: Url, authorities: Vec<Vec<u8>>) -> Result<Self, AddressError> {
        if !is_confidential(&url) {
            return Err(AddressError::Insecure(url));
        }
        if url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() || url.password().is_some() {
            return Err(AddressError::Surplus(url.host_str().unwrap_or_default().to_owned()));
        }
        let options = ClientOptions { authorities, ..ClientOptions::default() };
        let client = Client::new(Guard::of_configuration(), &options)?;
        Ok(Self { url, client })
    }

    /// How it is called in errors.
    pub(crate) fn name(&self) -> String {
        format!("`{}`", self.url)
    }

    pub(crate) fn unavailable(&self, reason: impl Into<String>) -> ProviderError {
        ProviderError::Unavailable { provider: self.name(), reason: reason.into() }
    }

    pub(crate) fn malformed(&self, reason: impl Into<String>) -> ProviderError {
        ProviderError::Malformed { provider: self.name(), reason: reason.into() }
    }

    /// Begins a question.
    pub(crate) fn ask(&self, method: Method) -> Result<RequestBuilder, ProviderError> {
        self.client.request(method, self.url.clone()).map_err(|refused| self.unavailable(refused.to_string()))
    }

    /// Sends it, and reads a document from the answer.
    pub(crate) async fn answer<A: DeserializeOwned>(&self, question: RequestBuilder) -> Result<A, ProviderError> {
        let answered = tokio::time::timeout(PATIENCE, self.read(question)).await;
        let late = |_| self.unavailable(format!("it did not answer within {} s", PATIENCE.as_secs()));
        let body = answered.map_err(late)??;
        // What serde says of a document may quote it.
        serde_json::from_slice(&body).map_err(|_| self.malformed("it is of another form"))
    }

    async fn read(&self, question: RequestBuilder) -> Result<Zeroizing<Vec<u8>>, ProviderError> {
        let response = question.send().await.map_err(|error| self.unavailable(shown(error)))?;
        let status = response.status();
        if status.is_server_error() || matches!(status.as_u16(), 408 | 429) {
            return Err(self.unavailable(format!("it answered {status}")));
        }
        if !status.is_success() {
            return Err(ProviderError::Refused { provider: self.name(), reason: format!("it answered {status}") });
        }
        let (mut response, mut body) = (response, Zeroizing::new(Vec::new()));
        while let Some(chunk) = response.chunk().await.map_err(|error| self.unavailable(shown(error)))? {
            if body.len() + chunk.len() > LARGEST {
                return Err(self.malformed(format!("it is larger than {LARGEST} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

/// What went wrong, without the address: its query says for whom a token is.
fn shown(error: fettle_egress::http::Error) -> String {
    let error = error.without_url();
    let mut last: &dyn std::error::Error = &error;
    while let Some(next) = last.source() {
        last = next;
    }
    last.to_string()
}
