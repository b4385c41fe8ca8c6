//! Referrers: manifests whose `subject` is an artifact. From the registry's API, or, where it has none,
//! from an index under the tag `sha256-<hex>`.

use fettle_model::{
    canonical,
    digest::Digest,
    reference::{Reference, Repository},
};
use oci_client::manifest::{OCI_IMAGE_INDEX_MEDIA_TYPE, OciDescriptor, OciImageManifest};
use reqwest::{Method, Response, StatusCode, Url, header};
use serde::{Deserialize, Serialize};

use super::{Fault, RegistryClient, pull::within};
use crate::{
    error::{Defect, Outage},
    kind::{MANIFEST_LIMIT, MANIFEST_MEDIA_TYPE},
};

/// Largest list of referrers, in bytes.
pub(crate) const INDEX_LIMIT: u64 = 4 << 20;
/// Most pages of a list of referrers.
const PAGE_LIMIT: usize = 16;
/// The header with which a registry says that it keeps the list of referrers itself.
const SUBJECT_HEADER: &str = "oci-subject";

/// A list of manifests.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Index {
    schema_version: u32,
    #[serde(default)]
    media_type: Option<String>,
    /// The manifests.
    pub(crate) manifests: Vec<OciDescriptor>,
}

impl Index {
    /// A list of these.
    pub(crate) fn new(manifests: Vec<OciDescriptor>) -> Self {
        Self { schema_version: 2, media_type: Some(OCI_IMAGE_INDEX_MEDIA_TYPE.to_owned()), manifests }
    }

    /// Reads a list.
    pub(crate) fn read(content: &[u8], what: &str) -> Result<Self, Defect> {
        serde_json::from_slice(content).map_err(|error| Defect::Signature(format!("{what} cannot be read: {error}")))
    }

    /// Its bytes.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, Defect> {
        canonical::to_bytes(self).map_err(|error| Defect::Signature(error.to_string()))
    }
}

/// The tag at which a digest's referrers are where the registry has no list of its own.
pub(crate) fn tag(digest: &Digest) -> String {
    format!("sha256-{}", digest.hex())
}

impl RegistryClient {
    /// The referrers of an artifact, of any type. Whether they are what they are listed as is checked by
    /// who fetches them.
    pub(crate) async fn referrers(&self, reference: &Reference) -> Result<Vec<OciDescriptor>, Fault> {
        let repository = &reference.repository;
        let first = self.url(repository, &format!("referrers/{}", reference.digest))?;
        let (mut found, mut page) = (Vec::new(), Some(first.clone()));
        for _ in 0..PAGE_LIMIT {
            let Some(url) = page.take() else { return Ok(found) };
            let request = self.request(Method::GET, url.clone())?.header(header::ACCEPT, OCI_IMAGE_INDEX_MEDIA_TYPE);
            let response = match self.send(request, "the list of referrers").await {
                Err(fault) if url == first && has_no_api(&fault) => return self.tagged_referrers(reference).await,
                other => other?,
            };
            page = next_page(&url, &response)?;
            let body = self.body(response, INDEX_LIMIT, "list of referrers").await?;
            found.extend(Index::read(&body.content, "the list of referrers")?.manifests);
        }
        if page.is_none() {
            return Ok(found);
        }
        Err(Defect::Signature(format!("the list of referrers has more than {PAGE_LIMIT} pages")).into())
    }

    async fn tagged_referrers(&self, reference: &Reference) -> Result<Vec<OciDescriptor>, Fault> {
        match self.manifest_body(&reference.repository, &tag(&reference.digest), INDEX_LIMIT).await {
            Ok(body) => Ok(Index::read(&body.content, "the list of referrers")?.manifests),
            Err(Fault::Outage(Outage::Missing(_), _)) => Ok(Vec::new()),
            Err(fault) => Err(fault),
        }
    }

    /// Pushes a manifest that has a subject, and enters it into the subject's list where the registry
    /// does not do that.
    pub(crate) async fn push_referrer(&self, to: &Repository, manifest: &OciImageManifest) -> Result<Reference, Fault> {
        self.put_referrer(to, &super::push::manifest_bytes(manifest)?, manifest).await
    }

    /// The same, with the manifest's own bytes.
    pub(crate) async fn put_referrer(
        &self,
        to: &Repository,
        content: &[u8],
        manifest: &OciImageManifest,
    ) -> Result<Reference, Fault> {
        let subject = manifest.subject.as_ref().map(|subject| subject.digest.clone()).unwrap_or_default();
        let subject = to.at(subject.parse().map_err(|_| Defect::Manifest("its subject has no digest".to_owned()))?);
        let (pushed, response) = self.put_manifest(to, content, None).await?;
        if response.headers().contains_key(SUBJECT_HEADER) {
            return Ok(pushed);
        }
        let mut list = self.tagged_referrers(&subject).await?;
        let digest = pushed.digest.to_string();
        if list.iter().all(|entry| entry.digest != digest) {
            list.push(OciDescriptor {
                media_type: MANIFEST_MEDIA_TYPE.to_owned(),
                size: i64::try_from(content.len()).unwrap_or(i64::MAX),
                digest,
                artifact_type: manifest.artifact_type.clone(),
                annotations: manifest.annotations.clone(),
                ..OciDescriptor::default()
            });
            let index = Index::new(list).to_bytes()?;
            let url = self.url(to, &format!("manifests/{}", tag(&subject.digest)))?;
            let request = self.request(Method::PUT, url)?.header(header::CONTENT_TYPE, OCI_IMAGE_INDEX_MEDIA_TYPE);
            within(self.options.document_timeout, self.send(request.body(index), "the repository")).await?;
        }
        Ok(pushed)
    }

    /// What a referrer says of its subject.
    pub(crate) async fn subject_descriptor(&self, reference: &Reference) -> Result<OciDescriptor, Fault> {
        let body = self.manifest_body(&reference.repository, &reference.digest.to_string(), MANIFEST_LIMIT).await?;
        let media_type = if body.media_type.is_empty() { MANIFEST_MEDIA_TYPE.to_owned() } else { body.media_type };
        Ok(OciDescriptor {
            media_type,
            digest: reference.digest.to_string(),
            size: i64::try_from(body.content.len()).unwrap_or(i64::MAX),
            ..OciDescriptor::default()
        })
    }
}

/// Whether an answer says that there is no such API. What a registry that fails answers is none of these.
fn has_no_api(fault: &Fault) -> bool {
    let none = [StatusCode::METHOD_NOT_ALLOWED.as_u16(), StatusCode::NOT_IMPLEMENTED.as_u16()];
    match fault {
        Fault::Outage(Outage::Missing(_), _) => true,
        Fault::Outage(Outage::Status { status, .. }, _) => none.contains(status),
        Fault::Outage(..) | Fault::Defect(_) => false,
    }
}

/// Where the list goes on. Only at the same registry.
fn next_page(here: &Url, response: &Response) -> Result<Option<Url>, Fault> {
    let link = response.headers().get(header::LINK).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let next = link.split(',').find(|part| part.contains("rel=\"next\"") || part.contains("rel=next"));
    let Some(text) = next.and_then(|part| part.split_once('<')?.1.split_once('>')).map(|(place, _)| place) else {
        return Ok(None);
    };
    match here.join(text) {
        Ok(url) if url.origin() == here.origin() => Ok(Some(url)),
        Ok(_) | Err(_) => Err(Fault::new(Outage::Redirected(text.split('?').next().unwrap_or_default().to_owned()))),
    }
}
