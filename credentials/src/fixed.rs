//! A secret that is always the same, for services that make none for a while. The host forgets it in time; it goes on
//! working.

use std::time::Duration;

use async_trait::async_trait;
use zeroize::Zeroizing;

use crate::provider::{Minted, Provider, ProviderError, Wanted};

/// A secret.
pub(crate) struct Fixed {
    pub(crate) token: Zeroizing<String>,
    pub(crate) lifetime: Duration,
}

#[async_trait]
impl Provider for Fixed {
    async fn mint(&self, _wanted: &Wanted<'_>) -> Result<Minted, ProviderError> {
        Ok(Minted::of("token", self.token.clone(), self.lifetime))
    }
}
