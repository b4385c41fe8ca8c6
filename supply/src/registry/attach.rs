//! Signatures beside an artifact: a manifest under the tag `sha256-<hex>.sig`, as cosign keeps them.

use std::collections::BTreeMap;

use bytes::Bytes;
use fettle_model::{canonical, digest::Digest, reference::Reference};
use oci_client::manifest::{IMAGE_CONFIG_MEDIA_TYPE, OciDescriptor, OciImageManifest};
use serde_json::json;

use super::{Fault, RegistryClient, pull::within};
use crate::{
    error::{Defect, Outage, SupplyError},
    key::SigningKey,
    kind::{MANIFEST_LIMIT, MANIFEST_MEDIA_TYPE},
    manifest::{Descriptor, Manifest},
    signature::{
        self, COUNT_LIMIT, CosignSignature, Evidence, PAYLOAD_LIMIT, PAYLOAD_MEDIA_TYPE, SIGNATURE_ANNOTATION,
    },
};

impl RegistryClient {
    /// Signs an artifact and puts the signature beside those that are there. Does nothing when the
    /// key signed it already. Two signers at the same moment can lose one signature: the registry has
    /// no way to prevent that, so sign again when one is missing.
    ///
    /// # Errors
    /// `Unavailable`; `Malformed` when what is there already cannot be read.
    pub async fn sign(&self, reference: &Reference, key: &SigningKey) -> Result<(), SupplyError> {
        let present = self.fetch_signatures(reference).await?;
        let own = std::slice::from_ref(key.public());
        let same = |evidence: &Evidence| evidence.statement_by(reference.digest, own, None).is_ok();
        if present.iter().any(same) {
            return Ok(());
        }
        let signature = CosignSignature::make(reference, key)?;
        self.attach(reference, &signature).await.map_err(|fault| fault.of(reference))
    }

    /// Fetches all signatures of an artifact; none when it has none. None of them is verified yet.
    ///
    /// # Errors
    /// `Unavailable` when the registry cannot say; `Malformed` when what is there cannot be read.
    pub async fn fetch_signatures(&self, reference: &Reference) -> Result<Vec<Evidence>, SupplyError> {
        let fetch = async {
            let Some(manifest) = self.signature_manifest(reference).await? else { return Ok(Vec::new()) };
            let mut signatures = Vec::new();
            for layer in &manifest.layers {
                let annotation = layer.annotations.as_ref().and_then(|all| all.get(SIGNATURE_ANNOTATION));
                if let Some(annotation) = annotation
                    && layer.media_type == PAYLOAD_MEDIA_TYPE
                {
                    signatures.push(self.signature(reference, layer, annotation).await?.into());
                }
            }
            Ok(signatures)
        };
        within(self.options.document_timeout, fetch).await.map_err(|fault| fault.of(reference))
    }

    async fn signature(
        &self,
        reference: &Reference,
        layer: &OciDescriptor,
        annotation: &str,
    ) -> Result<CosignSignature, Fault> {
        let unreadable = |reason: String| Fault::from(Defect::Signature(reason));
        let digest = layer.digest.parse::<Digest>().map_err(|error| unreadable(error.to_string()))?;
        let size = u64::try_from(layer.size).ok().filter(|size| *size <= PAYLOAD_LIMIT);
        let size = size.ok_or_else(|| unreadable(format!("its payload is larger than {PAYLOAD_LIMIT} bytes")))?;
        let part = Descriptor { media_type: layer.media_type.clone(), digest, size, title: None };
        let deadline = self.options.document_timeout;
        let payload = self.fetch_part(&reference.repository, "signature", &part, deadline).await?;
        Ok(CosignSignature::read(&payload, annotation)?)
    }

    async fn signature_manifest(&self, reference: &Reference) -> Result<Option<OciImageManifest>, Fault> {
        let tag = signature::tag(&reference.digest);
        let body = match self.manifest_body(&reference.repository, &tag, MANIFEST_LIMIT).await {
            Ok(body) => body,
            Err(Fault::Outage(Outage::Missing(_), _)) => return Ok(None),
            Err(fault) => return Err(fault),
        };
        let unreadable = |reason: String| Fault::from(Defect::Signature(reason));
        // Refuses indexes, `urls` fields and foreign digests.
        Manifest::parse(&body.content).map_err(|defect| unreadable(defect.to_string()))?;
        let manifest: OciImageManifest =
            serde_json::from_slice(&body.content).map_err(|error| unreadable(error.to_string()))?;
        if manifest.layers.len() > COUNT_LIMIT {
            return Err(unreadable(format!("there are more than {COUNT_LIMIT} signatures")));
        }
        Ok(Some(manifest))
    }

    async fn attach(&self, reference: &Reference, signature: &CosignSignature) -> Result<(), Fault> {
        let repository = &reference.repository;
        let payload = Bytes::copy_from_slice(signature.payload());
        let mut layer = self.push_bytes(repository, PAYLOAD_MEDIA_TYPE, payload).await?;
        layer.annotations = Some(BTreeMap::from([(SIGNATURE_ANNOTATION.to_owned(), signature.annotation())]));
        let mut manifest = self.signature_manifest(reference).await?.unwrap_or_default();
        manifest.media_type = Some(MANIFEST_MEDIA_TYPE.to_owned());
        manifest.layers.push(layer);
        let config = image_config(&manifest.layers).map_err(|error| Defect::Signature(error.to_string()))?;
        manifest.config = self.push_bytes(repository, IMAGE_CONFIG_MEDIA_TYPE, config.into()).await?;
        self.push_manifest(repository, &manifest, Some(&signature::tag(&reference.digest))).await?;
        Ok(())
    }
}

/// Other tools expect the configuration of an image whose file-system layers are the payloads.
fn image_config(layers: &[OciDescriptor]) -> Result<Vec<u8>, canonical::NotCanonical> {
    let ids: Vec<&str> = layers.iter().map(|layer| layer.digest.as_str()).collect();
    canonical::to_bytes(&json!({
        "architecture": "",
        "config": {},
        "created": "1970-01-01T00:00:00Z",
        "os": "",
        "rootfs": { "type": "layers", "diff_ids": ids },
    }))
}
