//! Fetching manifests and small blobs into memory, with a cap, a deadline and a hash.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use fettle_model::{
    digest::Digest,
    reference::{Reference, Repository},
};
use oci_client::manifest::{IMAGE_MANIFEST_LIST_MEDIA_TYPE, IMAGE_MANIFEST_MEDIA_TYPE, OCI_IMAGE_INDEX_MEDIA_TYPE};
use reqwest::{Response, header};
use serde::Deserialize;

use super::{Fault, RegistryClient};
use crate::{
    error::{Defect, Outage, SupplyError},
    kind::MANIFEST_MEDIA_TYPE,
    manifest::{Descriptor, RawManifest},
};

/// A response's body.
pub(super) struct Body {
    pub(super) content: Bytes,
    pub(super) declared: Option<u64>,
    pub(super) media_type: String,
}

impl RegistryClient {
    /// Fetches the manifest of any artifact, at most `limit` bytes. Its bytes are those of the
    /// reference's digest; whether anyone signed them is another question.
    ///
    /// # Errors
    /// `Unavailable`, or `Malformed` when it is too large or its digest differs.
    pub async fn fetch_manifest(&self, reference: &Reference, limit: u64) -> Result<RawManifest, SupplyError> {
        let fetch = async {
            if let Some(layout) = self.layout_with(&reference.digest) {
                let content = layout.blob("manifest", &reference.digest, limit).await?;
                let body = Body { content, declared: None, media_type: String::new() };
                return Ok(RawManifest { media_type: media_type(&body), content: body.content });
            }
            let body = self.manifest_body(&reference.repository, &reference.digest.to_string(), limit).await?;
            check_digest("manifest", &reference.digest, &body.content).await?;
            Ok(RawManifest { media_type: media_type(&body), content: body.content })
        };
        within(self.options.document_timeout, fetch).await.map_err(|fault| fault.of(reference))
    }

    /// Fetches a manifest under a tag or a digest. Nothing about its content is checked.
    pub(super) async fn manifest_body(&self, repository: &Repository, name: &str, limit: u64) -> Result<Body, Fault> {
        let accept = [
            MANIFEST_MEDIA_TYPE,
            IMAGE_MANIFEST_MEDIA_TYPE,
            // So that a reference to an index gets a refusal that says so.
            OCI_IMAGE_INDEX_MEDIA_TYPE,
            IMAGE_MANIFEST_LIST_MEDIA_TYPE,
        ];
        let request = self.get(repository, &format!("manifests/{name}"))?.header(header::ACCEPT, accept.join(", "));
        let response = self.send(request, &format!("the manifest `{name}`")).await?;
        self.body(response, limit, "manifest").await
    }

    /// Fetches one part of an artifact: exactly the bytes that its descriptor promises.
    pub(crate) async fn fetch_part(
        &self,
        repository: &Repository,
        what: &str,
        part: &Descriptor,
        deadline: Duration,
    ) -> Result<Bytes, Fault> {
        let fetch = async {
            if let Some(layout) = self.layout_with(&part.digest) {
                return layout.blob(what, &part.digest, part.size).await;
            }
            let request = self.blob_request(repository, &part.digest)?;
            let response = self.send(request, &format!("its {what} `{}`", part.digest)).await?;
            let body = self.body(response, part.size, what).await?;
            let received = body.content.len() as u64;
            if received < part.size && body.declared.is_none() {
                return Err(Fault::new(Outage::BrokeOff { received }));
            }
            check_digest(what, &part.digest, &body.content).await?;
            Ok(body.content)
        };
        within(deadline, fetch).await
    }

    /// Reads a body of at most `limit` bytes.
    pub(super) async fn body(&self, mut response: Response, limit: u64, what: &str) -> Result<Body, Fault> {
        let too_large = || {
            let rule = "the most that may come";
            Fault::from(Defect::TooLarge { what: what.to_owned(), limit, rule })
        };
        let declared = response.content_length();
        if declared.is_some_and(|length| length > limit) {
            return Err(too_large());
        }
        let media_type = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let media_type = media_type.unwrap_or_default().to_owned();
        let idle = self.options.idle_timeout;
        let mut content = BytesMut::new();
        loop {
            let chunk = tokio::time::timeout(idle, response.chunk()).await;
            let received = content.len() as u64;
            match chunk.map_err(|_| Fault::new(Outage::Silent(idle)))? {
                Ok(Some(chunk)) if received + chunk.len() as u64 > limit => return Err(too_large()),
                Ok(Some(chunk)) => content.extend_from_slice(&chunk),
                Ok(None) => return Ok(Body { content: content.freeze(), declared, media_type }),
                Err(error) => return Err(Fault::reading(error, received)),
            }
        }
    }
}

/// Hashes on a thread of its own: a whole step takes long enough to hold up other tasks.
pub(super) async fn check_digest(what: &str, expected: &Digest, content: &Bytes) -> Result<(), Fault> {
    let bytes = content.clone();
    let hashed = tokio::task::spawn_blocking(move || Digest::of(&bytes)).await;
    let actual = hashed.map_err(|error| Fault::caused(Outage::Stopped, error))?;
    if actual == *expected {
        return Ok(());
    }
    Err(Defect::ChangedBytes { what: what.to_owned(), expected: *expected, actual }.into())
}

pub(super) async fn within<T>(deadline: Duration, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    tokio::time::timeout(deadline, work).await.map_err(|_| Fault::new(Outage::Slow(deadline)))?
}

fn media_type(body: &Body) -> String {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Typed {
        media_type: Option<String>,
    }
    let own = serde_json::from_slice::<Typed>(&body.content).ok().and_then(|typed| typed.media_type);
    own.unwrap_or_else(|| body.media_type.clone())
}
