//! Tokens for a registry that trusts a certificate of ours: this plane is its token service ("Token Authentication
//! Implementation" of the CNCF project Distribution).

use std::time::Duration;

use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde::Serialize;
use zeroize::Zeroizing;

use crate::provider::{Minted, Provider, ProviderError, Wanted};

/// How far a registry's clock may be behind.
const SKEW: i64 = 30;

/// What a registry's tokens are signed with.
pub(crate) struct RegistryKey {
    pub(crate) key: EncodingKey,
    /// Its certificate, DER.
    pub(crate) certificate: Vec<u8>,
    pub(crate) issuer: String,
    /// What the registry calls itself.
    pub(crate) audience: String,
    pub(crate) lifetime: Duration,
}

#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    sub: String,
    aud: &'a str,
    exp: i64,
    nbf: i64,
    iat: i64,
    jti: &'a str,
    access: [Access<'a>; 1],
}

#[derive(Serialize)]
struct Access<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'a str,
    actions: [&'static str; 1],
}

#[async_trait]
impl Provider for RegistryKey {
    async fn mint(&self, wanted: &Wanted<'_>) -> Result<Minted, ProviderError> {
        let provider = || format!("the registry key of `{}`", self.audience);
        let malformed = |reason: &str| ProviderError::Malformed { provider: provider(), reason: reason.to_owned() };
        let artifact = wanted.intent.artifact().ok_or_else(|| malformed("no artifact is named"))?;
        let now = wanted.now.as_second();
        let lifetime = i64::try_from(self.lifetime.as_secs()).unwrap_or(i64::MAX);
        let name = artifact.repository.path();
        let claims = Claims {
            iss: &self.issuer,
            sub: format!("nodes/{}", wanted.bearer.node_id),
            aud: &self.audience,
            exp: now.saturating_add(lifetime),
            nbf: now.saturating_sub(SKEW),
            iat: now,
            jti: wanted.id,
            access: [Access { kind: "repository", name, actions: ["pull"] }],
        };
        let mut header = Header::new(Algorithm::ES256);
        header.x5c = Some(vec![STANDARD.encode(&self.certificate)]);
        let token = jsonwebtoken::encode(&header, &claims, &self.key).map_err(|_| malformed("it cannot be signed"))?;
        Ok(Minted::of("token", Zeroizing::new(token), self.lifetime))
    }
}
