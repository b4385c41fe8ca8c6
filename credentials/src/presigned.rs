//! Addresses that read one object for a while: signed here with keys of an account (AWS Signature Version 4). Google Cloud
//! Storage reads the same signatures with HMAC keys.

use std::time::Duration;

use async_trait::async_trait;
use fettle_model::credential::CredentialType;
use rusty_s3::{Bucket, Credentials, S3Action as _, UrlStyle};
use url::Url;
use zeroize::Zeroizing;

use crate::provider::{Minted, Provider, ProviderError, Wanted};

/// An account of an object store.
pub(crate) struct Presigned {
    pub(crate) endpoint: Url,
    pub(crate) region: String,
    /// Whether the bucket stands in the path and not in the host's name.
    pub(crate) path_style: bool,
    pub(crate) keys: Credentials,
    pub(crate) lifetime: Duration,
    pub(crate) credential_type: CredentialType,
}

#[async_trait]
impl Provider for Presigned {
    async fn mint(&self, wanted: &Wanted<'_>) -> Result<Minted, ProviderError> {
        let refused = |reason: String| ProviderError::Refused { provider: format!("`{}`", self.endpoint), reason };
        let is_mine = wanted.intent.credential_type() == self.credential_type;
        let named = wanted.intent.scope().split_once('/').filter(|_| is_mine);
        let (bucket, key) = named.ok_or_else(|| refused("no object is named".to_owned()))?;
        let style = if self.path_style { UrlStyle::Path } else { UrlStyle::VirtualHost };
        let bucket = Bucket::new(self.endpoint.clone(), style, bucket.to_owned(), self.region.clone());
        let bucket = bucket.map_err(|error| refused(error.to_string()))?;
        let url = bucket.get_object(Some(&self.keys), key).sign_with_time(self.lifetime, &wanted.now);
        Ok(Minted::of("url", Zeroizing::new(url.into()), self.lifetime))
    }
}
