//! The token service of a registry ("Token Authentication Specification" of the CNCF project Distribution): whoever has an
//! account there gets a token for one repository.

use std::time::Duration;

use async_trait::async_trait;
use fettle_egress::http::Method;
use serde::Deserialize;
use zeroize::Zeroizing;

use crate::{
    provider::{Minted, Provider, ProviderError, Wanted},
    web::Service,
};

/// How long a token lasts that does not say so: what the specification says.
const UNSAID: u64 = 60;

/// An account at a token service.
pub(crate) struct TokenService {
    pub(crate) service: Service,
    /// What the registry calls itself there.
    pub(crate) audience: String,
    pub(crate) username: String,
    pub(crate) password: Zeroizing<String>,
}

#[derive(Deserialize)]
struct Answer {
    token: Option<Zeroizing<String>>,
    /// The same under the name that OAuth gives it.
    access_token: Option<Zeroizing<String>>,
    expires_in: Option<u64>,
}

#[async_trait]
impl Provider for TokenService {
    async fn mint(&self, wanted: &Wanted<'_>) -> Result<Minted, ProviderError> {
        let artifact = wanted.intent.artifact().ok_or_else(|| self.service.malformed("no artifact is named"))?;
        let scope = format!("repository:{}:pull", artifact.repository.path());
        let question = self
            .service
            .ask(Method::GET)?
            .query(&[("service", self.audience.as_str()), ("scope", &scope), ("client_id", "fettle")])
            .basic_auth(&self.username, Some(self.password.as_str()));
        let Answer { token, access_token, expires_in } = self.service.answer(question).await?;
        let token = token.or(access_token).filter(|token| !token.is_empty());
        let token = token.ok_or_else(|| self.service.malformed("there is no token in it"))?;
        Ok(Minted::of("token", token, Duration::from_secs(expires_in.unwrap_or(UNSAID))))
    }
}
