//! Pushing: content goes up first, the manifest that names it last.

use std::{
    collections::BTreeMap,
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use fettle_model::{
    canonical,
    digest::Digest,
    reference::{Reference, Repository},
};
use oci_client::manifest::{OciDescriptor, OciImageManifest};
use reqwest::{Body, Method, Response, StatusCode, Url, header};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use super::{Fault, RegistryClient, pull::within};
use crate::{
    error::{Defect, Outage, SupplyError},
    kind::{
        ArtifactKind, CONFIG_LIMIT, DESCRIPTOR_MEMBER, EMPTY_CONFIG_MEDIA_TYPE, MANIFEST_LIMIT, MANIFEST_MEDIA_TYPE,
    },
    manifest::TITLE,
};

/// `artifactType` of an artifact made of plain files.
pub const FILES_ARTIFACT_TYPE: &str = "application/vnd.fettle.files.v1";
const FILE_MEDIA_TYPE: &str = "application/octet-stream";
const CHUNK: usize = 1 << 20;

/// Bytes to push, or a file with them.
enum Content {
    Memory(Bytes),
    File(PathBuf),
}

impl RegistryClient {
    /// Pushes an artifact of `kind`. The same content gives the same reference, always. `descriptor`
    /// is what a step's component says of itself.
    ///
    /// # Errors
    /// `Malformed` when the content breaks a rule of its kind; `Unavailable`.
    pub async fn push(
        &self,
        kind: ArtifactKind,
        repository: &Repository,
        content: impl Into<Bytes> + Send,
        descriptor: Option<Value>,
    ) -> Result<Reference, SupplyError> {
        let content = content.into();
        let push = async {
            if content.len() as u64 > kind.layer_limit() {
                let (what, rule) = ("layer".to_owned(), "the limit of its kind");
                return Err(Fault::from(Defect::TooLarge { what, limit: kind.layer_limit(), rule }));
            }
            if kind != ArtifactKind::Step {
                check_canonical(&content)?;
            }
            let layer = part(kind.layer_media_types()[0], &content);
            let config = match kind {
                ArtifactKind::Step => step_config(&layer.digest, descriptor)?,
                ArtifactKind::Catalog
                | ArtifactKind::Definition
                | ArtifactKind::PolicyBundle
                | ArtifactKind::PolicyActivation
                | ArtifactKind::TrustPolicy => Bytes::from_static(b"{}"),
            };
            let manifest = OciImageManifest {
                media_type: Some(MANIFEST_MEDIA_TYPE.to_owned()),
                artifact_type: kind.artifact_type().map(str::to_owned),
                config: part(kind.config_media_type(), &config),
                layers: vec![layer],
                ..OciImageManifest::default()
            };
            self.push_blob(repository, &manifest.layers[0], Content::Memory(content.clone())).await?;
            self.push_blob(repository, &manifest.config, Content::Memory(config)).await?;
            self.push_manifest(repository, &manifest, None).await
        };
        push.await.map_err(|fault| fault.of(repository))
    }

    /// Pushes files of any size as the layers of one artifact, in order, each with its title. The files
    /// are read twice: for their digests, and to send them.
    ///
    /// # Errors
    /// When a file cannot be read; `Unavailable`.
    pub async fn push_files(
        &self,
        repository: &Repository,
        files: &[(String, PathBuf)],
    ) -> Result<Reference, SupplyError> {
        let mut layers = Vec::new();
        for (title, path) in files {
            let (digest, size) = hash_file(path).await?;
            let mut layer = descriptor(FILE_MEDIA_TYPE, &digest, size);
            layer.annotations = Some(BTreeMap::from([(TITLE.to_owned(), title.clone())]));
            layers.push(layer);
        }
        let config = Bytes::from_static(b"{}");
        let manifest = OciImageManifest {
            media_type: Some(MANIFEST_MEDIA_TYPE.to_owned()),
            artifact_type: Some(FILES_ARTIFACT_TYPE.to_owned()),
            config: part(EMPTY_CONFIG_MEDIA_TYPE, &config),
            layers,
            ..OciImageManifest::default()
        };
        let push = async {
            for (layer, (_, path)) in manifest.layers.iter().zip(files) {
                self.push_blob(repository, layer, Content::File(path.clone())).await?;
            }
            self.push_blob(repository, &manifest.config, Content::Memory(config)).await?;
            self.push_manifest(repository, &manifest, None).await
        };
        push.await.map_err(|fault: Fault| fault.of(repository))
    }

    /// Puts a manifest under a tag; without one, under a tag that names its own digest, because not
    /// every registry takes manifests without tags, and some collect untagged ones as garbage.
    pub(super) async fn push_manifest(
        &self,
        repository: &Repository,
        manifest: &OciImageManifest,
        tag: Option<&str>,
    ) -> Result<Reference, Fault> {
        Ok(self.put_manifest(repository, &manifest_bytes(manifest)?, tag).await?.0)
    }

    pub(crate) async fn put_manifest(
        &self,
        repository: &Repository,
        content: &[u8],
        tag: Option<&str>,
    ) -> Result<(Reference, Response), Fault> {
        let digest = Digest::of(content);
        let own = own_tag(&digest);
        let url = self.url(repository, &format!("manifests/{}", tag.unwrap_or(&own)))?;
        let request = self.request(Method::PUT, url)?.header(header::CONTENT_TYPE, MANIFEST_MEDIA_TYPE);
        let request = request.body(content.to_vec());
        let response = within(self.options.document_timeout, self.send(request, "the repository")).await?;
        Ok((repository.at(digest), response))
    }

    pub(super) async fn push_bytes(
        &self,
        repository: &Repository,
        media_type: &str,
        content: Bytes,
    ) -> Result<OciDescriptor, Fault> {
        let descriptor = part(media_type, &content);
        self.push_blob(repository, &descriptor, Content::Memory(content)).await?;
        Ok(descriptor)
    }

    /// Pushes the content of a file.
    pub(crate) async fn push_file(
        &self,
        repository: &Repository,
        blob: &OciDescriptor,
        path: PathBuf,
    ) -> Result<(), Fault> {
        self.push_blob(repository, blob, Content::File(path)).await
    }

    async fn push_blob(&self, repository: &Repository, blob: &OciDescriptor, content: Content) -> Result<(), Fault> {
        let here = self.url(repository, &format!("blobs/{}", blob.digest))?;
        match self.send(self.request(Method::HEAD, here.clone())?, "the blob").await {
            Ok(_) => return Ok(()),
            Err(Fault::Outage(Outage::Missing(_), _)) => {}
            Err(fault) => return Err(fault),
        }
        let start = self.url(repository, "blobs/uploads/")?;
        let request = self.request(Method::POST, start)?.header(header::CONTENT_LENGTH, 0);
        let upload = upload_location(&here, &self.send(request, "the repository").await?)?;
        let response = self.upload(upload, content).await?;
        let mut end = upload_location(&here, &response)?;
        end.query_pairs_mut().append_pair("digest", &blob.digest);
        let request = self.request(Method::PUT, end)?.header(header::CONTENT_LENGTH, 0);
        // The registry hashes the whole blob before it answers, so this may take longer than silence may.
        let send = async { request.send().await.map_err(Fault::sending) };
        let response = within(self.options.component_timeout, send).await?;
        self.accept(response, "the upload").await.map(drop)
    }

    /// Sends the content; fails when the registry takes nothing for too long.
    async fn upload(&self, url: Url, content: Content) -> Result<Response, Fault> {
        let idle = self.options.idle_timeout;
        let (chunks, mut taken) = mpsc::channel(2);
        let body = futures::stream::poll_fn(move |context| taken.poll_recv(context));
        let request = self
            .request(Method::PATCH, url)?
            .header(header::CONTENT_TYPE, FILE_MEDIA_TYPE)
            .body(Body::wrap_stream(body));
        let feed = async move {
            let (ready, mut source) = mpsc::channel(2);
            let reader =
                tokio::task::spawn_blocking(move || content.chunks(|chunk| ready.blocking_send(chunk).is_ok()));
            while let Some(chunk) = source.recv().await {
                let broken = chunk.is_err();
                match tokio::time::timeout(idle, chunks.send(chunk)).await {
                    Err(_) => return Err(Fault::new(Outage::Silent(idle))),
                    // The request ended; its result says how.
                    Ok(Err(_)) => break,
                    Ok(Ok(())) if broken => break,
                    Ok(Ok(())) => {}
                }
            }
            drop(source);
            drop(chunks);
            drop(reader);
            Ok(())
        };
        let limited = async {
            feed.await?;
            tokio::time::sleep(self.options.component_timeout).await;
            Err(Fault::new(Outage::Slow(self.options.component_timeout)))
        };
        let response = tokio::select! {
            response = request.send() => response.map_err(Fault::sending),
            fault = limited => fault,
        };
        let response = self.accept(response?, "the upload").await?;
        if response.status() == StatusCode::ACCEPTED {
            return Ok(response);
        }
        Err(Fault::new(Outage::Protocol(format!("it answered {} to an upload", response.status()))))
    }
}

/// The tag under which a manifest without another one is put.
pub(crate) fn own_tag(digest: &Digest) -> String {
    format!("fettle-{}", digest.hex())
}

pub(super) fn manifest_bytes(manifest: &OciImageManifest) -> Result<Vec<u8>, Defect> {
    let content = canonical::to_bytes(manifest).map_err(|error| Defect::Manifest(error.to_string()))?;
    if content.len() as u64 > MANIFEST_LIMIT {
        let (what, rule) = ("manifest".to_owned(), "the limit of manifests");
        return Err(Defect::TooLarge { what, limit: MANIFEST_LIMIT, rule });
    }
    Ok(content)
}

impl Content {
    /// Hands out the content piece by piece until `take` has enough.
    fn chunks(self, mut take: impl FnMut(std::io::Result<Bytes>) -> bool) {
        match self {
            Self::Memory(mut bytes) => while !bytes.is_empty() && take(Ok(bytes.split_to(CHUNK.min(bytes.len())))) {},
            Self::File(path) => {
                if let Err(error) = read_chunks(&path, |chunk| take(Ok(Bytes::copy_from_slice(chunk)))) {
                    take(Err(error));
                }
            }
        }
    }
}

fn read_chunks(path: &Path, mut take: impl FnMut(&[u8]) -> bool) -> std::io::Result<()> {
    let mut file = std::fs::File::open(path)?;
    let mut buffer = vec![0; CHUNK];
    loop {
        let length = file.read(&mut buffer)?;
        if length == 0 || !take(&buffer[..length]) {
            return Ok(());
        }
    }
}

async fn hash_file(path: &Path) -> Result<(Digest, u64), SupplyError> {
    let failed = |source| SupplyError::LocalFile { path: path.to_owned(), source };
    let file = path.to_owned();
    let hash = move || {
        let (mut hasher, mut size) = (Sha256::new(), 0);
        read_chunks(&file, |chunk| {
            hasher.update(chunk);
            size += chunk.len() as u64;
            true
        })?;
        Ok((Digest::from_bytes(hasher.finalize().into()), size))
    };
    let hashed: std::io::Result<_> =
        tokio::task::spawn_blocking(hash).await.map_err(|error| failed(Arc::new(error)))?;
    hashed.map_err(|error| failed(Arc::new(error)))
}

/// Where the next request of an upload goes. Only to the same registry: content and requests are not
/// to be led elsewhere.
fn upload_location(base: &Url, response: &Response) -> Result<Url, Fault> {
    let text = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
    let text = text.ok_or_else(|| Fault::new(Outage::Protocol("it named no place for the upload".to_owned())))?;
    let url = base
        .join(text)
        .map_err(|error| Fault::caused(Outage::Protocol("the upload's place is no address".to_owned()), error))?;
    let clean = url.username().is_empty() && url.password().is_none();
    if url.origin() == base.origin() && clean {
        return Ok(url);
    }
    Err(Fault::new(Outage::Redirected(super::location(response))))
}

fn descriptor(media_type: &str, digest: &Digest, size: u64) -> OciDescriptor {
    OciDescriptor {
        media_type: media_type.to_owned(),
        digest: digest.to_string(),
        size: i64::try_from(size).unwrap_or(i64::MAX),
        ..OciDescriptor::default()
    }
}

pub(super) fn part(media_type: &str, content: &[u8]) -> OciDescriptor {
    descriptor(media_type, &Digest::of(content), content.len() as u64)
}

/// Without a time of day, so that the same component has the same digest.
fn step_config(layer: &str, descriptor: Option<Value>) -> Result<Bytes, Defect> {
    let mut config = json!({
        "architecture": "wasm",
        "created": "1970-01-01T00:00:00Z",
        "layerDigests": [layer],
        "os": "wasip2",
    });
    if let (Some(descriptor), Some(members)) = (descriptor, config.as_object_mut()) {
        members.insert(DESCRIPTOR_MEMBER.to_owned(), descriptor);
    }
    let content =
        canonical::to_bytes(&config).map_err(|error| Defect::Config(format!("cannot be written: {error}")))?;
    if content.len() as u64 > CONFIG_LIMIT {
        let (what, rule) = ("configuration".to_owned(), "the limit of configurations");
        return Err(Defect::TooLarge { what, limit: CONFIG_LIMIT, rule });
    }
    Ok(content.into())
}

/// One byte form per document, so that no two readers can take it differently.
pub(crate) fn check_canonical(content: &[u8]) -> Result<(), Defect> {
    let value: Value = serde_json::from_slice(content).map_err(|error| Defect::NotCanonical(error.to_string()))?;
    let canonical = canonical::to_bytes(&value).map_err(|error| Defect::NotCanonical(error.to_string()))?;
    if canonical == content {
        return Ok(());
    }
    let at = canonical.iter().zip(content).take_while(|(left, right)| left == right).count();
    Err(Defect::NotCanonical(format!("it differs from that form at byte {at}")))
}
