//! Where an issuer's keys are, and the keys.

use std::fmt;

use async_trait::async_trait;
use fettle_egress::{Client, ClientOptions, Guard, http, is_confidential};
use jsonwebtoken::jwk::JwkSet;
use serde::{Deserialize, de::DeserializeOwned};
use url::Url;

use crate::issuer::{Issuer, IssuerError};

/// Most bytes of a document of an issuer. Those of large providers have some thousands.
const LARGEST: usize = 1 << 20;

/// How long an answer may take.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

/// Where keys of an issuer come from.
#[async_trait]
pub trait Source: Send + Sync {
    /// All that count now.
    ///
    /// # Errors
    /// When the issuer does not say.
    async fn key_set(&self) -> Result<JwkSet, Unavailable>;
}

/// What an issuer says of itself (OpenID Connect Discovery 1.0, 3; RFC 8628, 4).
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Discovered {
    /// Its name.
    pub issuer: String,
    /// Where its keys are.
    pub jwks_uri: Url,
    /// Where tokens are given.
    pub token_endpoint: Option<Url>,
    /// Where a device asks for its person.
    pub device_authorization_endpoint: Option<Url>,
}

/// Why an issuer's keys are not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable(String);

impl Unavailable {
    /// For this reason.
    #[must_use]
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl std::error::Error for Unavailable {}

impl fmt::Display for Unavailable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Asks an issuer over the network.
pub struct Discovery {
    issuer: String,
    client: Client,
}

impl Discovery {
    /// Of this issuer. Nothing is sent yet.
    ///
    /// # Errors
    /// When TLS cannot be set up with its certificates.
    pub fn of(issuer: &Issuer) -> Result<Self, IssuerError> {
        let options = ClientOptions { authorities: issuer.authorities.clone(), ..ClientOptions::default() };
        let client = Client::new(Guard::of_configuration(), &options)
            .map_err(|source| IssuerError::Client { issuer: issuer.issuer.clone(), source })?;
        Ok(Self { issuer: issuer.issuer.clone(), client })
    }

    /// What it says of itself.
    ///
    /// # Errors
    /// When it does not answer, or speaks for another issuer.
    pub async fn discover(&self) -> Result<Discovered, Unavailable> {
        let address = format!("{}/.well-known/openid-configuration", self.issuer.trim_end_matches('/'));
        let address = address.parse().map_err(|_| Unavailable::new("its name is no address"))?;
        let found: Discovered = self.get(&address).await?;
        if found.issuer != self.issuer {
            return Err(Unavailable::new(format!(
                "{address} speaks for the issuer `{}`; write that one, slashes and all",
                crate::refusal::cut(&found.issuer)
            )));
        }
        Ok(found)
    }

    async fn get<T: DeserializeOwned>(&self, address: &Url) -> Result<T, Unavailable> {
        if !is_confidential(address) {
            return Err(Unavailable::new(format!("{address} is not reached by https")));
        }
        let asked = tokio::time::timeout(PATIENCE, self.fetch(address)).await;
        let bytes = asked.map_err(|_| Unavailable::new(format!("{address} did not answer within 10 s")))??;
        serde_json::from_slice(&bytes)
            .map_err(|error| Unavailable::new(format!("the answer of {address} is not what it should be: {error}")))
    }

    async fn fetch(&self, address: &Url) -> Result<Vec<u8>, Unavailable> {
        let failed = |reason: &dyn fmt::Display| Unavailable::new(format!("{address}: {reason}"));
        let request = self.client.request(http::Method::GET, address.clone()).map_err(|refused| failed(&refused))?;
        let mut response = request.send().await.map_err(|error| failed(&error.without_url()))?;
        if !response.status().is_success() {
            return Err(failed(&format!("it answered {}", response.status())));
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| failed(&error.without_url()))? {
            if bytes.len() + chunk.len() > LARGEST {
                return Err(failed(&"the answer is larger than 1 MiB"));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }
}

#[async_trait]
impl Source for Discovery {
    async fn key_set(&self) -> Result<JwkSet, Unavailable> {
        let found = self.discover().await?;
        self.get(&found.jwks_uri).await
    }
}
