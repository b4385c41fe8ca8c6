//! Where an artifact and what is attached to it are read: a registry, or a layout directory.

use bytes::Bytes;
use fettle_model::{digest::Digest, reference::Reference};
use oci_client::manifest::OciDescriptor;

use super::{Fault, RegistryClient, pull::check_digest};
use crate::{error::Outage, layout::Layout, manifest::Descriptor};

/// One of the two.
pub(crate) enum Place<'a> {
    Registry(&'a RegistryClient, &'a Reference),
    Layout(Layout, Digest),
}

impl RegistryClient {
    /// Where this artifact is: the first layout that has it, else its registry.
    pub(crate) fn place<'a>(&'a self, reference: &'a Reference) -> Place<'a> {
        match self.layout_with(&reference.digest) {
            Some(layout) => Place::Layout(layout, reference.digest),
            None => Place::Registry(self, reference),
        }
    }

    /// The first layout that has this content.
    pub(crate) fn layout_with(&self, digest: &Digest) -> Option<Layout> {
        self.options.layouts.iter().map(|path| Layout::at(path)).find(|layout| layout.has(digest))
    }
}

impl Place<'_> {
    /// The artifact.
    pub(crate) const fn subject(&self) -> Digest {
        match self {
            Self::Registry(_, reference) => reference.digest,
            Self::Layout(_, digest) => *digest,
        }
    }

    /// A manifest under a tag; none when there is none.
    pub(crate) async fn tagged(&self, tag: &str, limit: u64) -> Result<Option<Bytes>, Fault> {
        match self {
            Self::Registry(client, reference) => match client.manifest_body(&reference.repository, tag, limit).await {
                Ok(body) => Ok(Some(body.content)),
                Err(Fault::Outage(Outage::Missing(_), _)) => Ok(None),
                Err(fault) => Err(fault),
            },
            Self::Layout(layout, _) => layout.tagged(tag, limit).await,
        }
    }

    /// The manifests that refer to the artifact.
    pub(crate) async fn referrers(&self) -> Result<Vec<OciDescriptor>, Fault> {
        match self {
            Self::Registry(client, reference) => client.referrers(reference).await,
            Self::Layout(layout, subject) => layout.referrers(subject).await,
        }
    }

    /// A manifest with this digest.
    pub(crate) async fn manifest(&self, digest: &Digest, limit: u64) -> Result<Bytes, Fault> {
        match self {
            Self::Registry(client, reference) => {
                let body = client.manifest_body(&reference.repository, &digest.to_string(), limit).await?;
                check_digest("referrer", digest, &body.content).await?;
                Ok(body.content)
            }
            Self::Layout(layout, _) => layout.blob("referrer", digest, limit).await,
        }
    }

    /// A small part.
    pub(crate) async fn part(&self, what: &str, part: &Descriptor) -> Result<Bytes, Fault> {
        match self {
            Self::Registry(client, reference) => {
                let deadline = client.options.document_timeout;
                client.fetch_part(&reference.repository, what, part, deadline).await
            }
            Self::Layout(layout, _) => layout.blob(what, &part.digest, part.size).await,
        }
    }
}
