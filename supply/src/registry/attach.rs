//! Putting signatures and attestations beside an artifact.

use std::collections::BTreeMap;

use bytes::Bytes;
use fettle_model::{canonical, reference::Reference};
use oci_client::manifest::{IMAGE_CONFIG_MEDIA_TYPE, OciDescriptor, OciImageManifest};
use serde_json::{Value, json};

use super::{Fault, RegistryClient, evidence::PREDICATE_ANNOTATION};
use crate::{
    error::{Defect, SupplyError},
    key::SigningKey,
    kind::{EMPTY_CONFIG_MEDIA_TYPE, MANIFEST_MEDIA_TYPE},
    signature::{
        self, BUNDLE_MEDIA_TYPE, Bundle, CosignSignature, PAYLOAD_MEDIA_TYPE, SIGN_PREDICATE, Signed, Signer, Statement,
    },
};

const CONTENT_ANNOTATION: &str = "dev.sigstore.bundle.content";

/// In which format to sign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SignatureFormat {
    /// A layer of a manifest under the tag `sha256-<hex>.sig`, as cosign 2 and skopeo read it.
    Cosign,
    /// A Sigstore bundle v0.3 that refers to the artifact, as cosign 3 reads it.
    Bundle,
    /// Both.
    #[default]
    Both,
}

impl SignatureFormat {
    const fn cosign(self) -> bool {
        matches!(self, Self::Cosign | Self::Both)
    }

    const fn bundle(self) -> bool {
        matches!(self, Self::Bundle | Self::Both)
    }
}

impl RegistryClient {
    /// Signs an artifact in cosign's format, without annotations; see [`Self::sign_as`].
    ///
    /// # Errors
    /// As [`Self::sign_as`].
    pub async fn sign(&self, reference: &Reference, key: &SigningKey) -> Result<(), SupplyError> {
        self.sign_as(reference, key, SignatureFormat::Cosign, &BTreeMap::new()).await
    }

    /// Signs an artifact and its `annotations` together, and puts the signature beside those that are
    /// there. Does nothing in a format in which the key signed exactly this already. Two signers at the
    /// same moment can lose one signature: a registry without referrers has no way to prevent that, so
    /// sign again when one is missing.
    ///
    /// # Errors
    /// `Unavailable`; `Malformed` when what is there already cannot be read.
    pub async fn sign_as(
        &self,
        reference: &Reference,
        key: &SigningKey,
        format: SignatureFormat,
        annotations: &BTreeMap<String, String>,
    ) -> Result<(), SupplyError> {
        let own = std::slice::from_ref(key.public());
        let made =
            |signed: Signed| signed.signer == Signer::Key(key.public().id()) && signed.annotations == *annotations;
        let present = self.fetch_signatures(reference).await?;
        let has = |is_bundle| {
            present.iter().any(|evidence| {
                evidence.is_bundle() == is_bundle && evidence.statement_by(reference.digest, own, None).is_ok_and(made)
            })
        };
        let attach = async {
            if format.cosign() && !has(false) {
                let signature = CosignSignature::make(reference, annotations, key);
                self.attach_cosign(reference, &signature.map_err(Failed::Sign)?).await.map_err(Failed::Push)?;
            }
            if format.bundle() && !has(true) {
                let annotations = annotations.clone();
                let predicate_type = SIGN_PREDICATE.to_owned();
                let subject = reference.digest;
                let statement = Statement { subject, annotations, predicate_type, predicate: json!({}) };
                self.attach_statement(reference, &statement, key).await?;
            }
            Ok(())
        };
        attach.await.map_err(|failed: Failed| failed.of(reference))
    }

    /// Signs a statement about an artifact, such as an SBOM or its provenance, and attaches it. That
    /// is no signature of the artifact: who attests need not be who approves.
    ///
    /// # Errors
    /// `Unavailable`; or when the predicate has no canonical form.
    pub async fn attest(
        &self,
        reference: &Reference,
        key: &SigningKey,
        predicate_type: &str,
        predicate: &Value,
    ) -> Result<(), SupplyError> {
        let statement = Statement {
            subject: reference.digest,
            annotations: BTreeMap::new(),
            predicate_type: predicate_type.to_owned(),
            predicate: predicate.clone(),
        };
        self.attach_statement(reference, &statement, key).await.map_err(|failed| failed.of(reference))
    }

    async fn attach_statement(
        &self,
        reference: &Reference,
        statement: &Statement,
        key: &SigningKey,
    ) -> Result<(), Failed> {
        let bundle = Bundle::make(&reference.to_string(), statement, key).map_err(Failed::Sign)?;
        let content = Bytes::copy_from_slice(bundle.as_bytes());
        self.attach_bundle(reference, content, &statement.predicate_type).await.map_err(Failed::Push)
    }

    pub(crate) async fn attach_bundle(
        &self,
        reference: &Reference,
        content: Bytes,
        predicate: &str,
    ) -> Result<(), Fault> {
        let repository = &reference.repository;
        let subject = self.subject_descriptor(reference).await?;
        let layer = self.push_bytes(repository, BUNDLE_MEDIA_TYPE, content).await?;
        let config = self.push_bytes(repository, EMPTY_CONFIG_MEDIA_TYPE, Bytes::from_static(b"{}")).await?;
        let manifest = OciImageManifest {
            media_type: Some(MANIFEST_MEDIA_TYPE.to_owned()),
            artifact_type: Some(BUNDLE_MEDIA_TYPE.to_owned()),
            config,
            layers: vec![layer],
            subject: Some(subject),
            annotations: Some(BTreeMap::from([
                (CONTENT_ANNOTATION.to_owned(), "dsse-envelope".to_owned()),
                (PREDICATE_ANNOTATION.to_owned(), predicate.to_owned()),
            ])),
            ..OciImageManifest::default()
        };
        self.push_referrer(repository, &manifest).await.map(drop)
    }

    pub(crate) async fn attach_cosign(&self, reference: &Reference, signature: &CosignSignature) -> Result<(), Fault> {
        let repository = &reference.repository;
        let payload = Bytes::copy_from_slice(signature.payload());
        let mut layer = self.push_bytes(repository, PAYLOAD_MEDIA_TYPE, payload).await?;
        layer.annotations = Some(signature.annotations());
        let mut manifest = self.signature_manifest(reference).await?.unwrap_or_default();
        manifest.media_type = Some(MANIFEST_MEDIA_TYPE.to_owned());
        manifest.layers.push(layer);
        let config = image_config(&manifest.layers).map_err(|error| Defect::Signature(error.to_string()))?;
        manifest.config = self.push_bytes(repository, IMAGE_CONFIG_MEDIA_TYPE, config.into()).await?;
        self.push_manifest(repository, &manifest, Some(&signature::tag(&reference.digest))).await?;
        Ok(())
    }
}

/// Either the signature could not be made, or not be pushed.
enum Failed {
    Sign(SupplyError),
    Push(Fault),
}

impl Failed {
    fn of(self, reference: &Reference) -> SupplyError {
        match self {
            Self::Sign(error) => error,
            Self::Push(fault) => fault.of(reference),
        }
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
