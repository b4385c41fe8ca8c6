//! What is attached to an artifact: signatures in both formats, and attestations. None of it is
//! believed here.

use fettle_model::{digest::Digest, reference::Reference};
use oci_client::manifest::OciImageManifest;

use super::{Fault, RegistryClient, place::Place, pull::within};
use crate::{
    attestation::{ATTESTATION_LIMIT, AttestationEvidence},
    error::{Defect, SupplyError},
    kind::MANIFEST_LIMIT,
    manifest::{Descriptor, Manifest},
    mutation::{Protection, off},
    signature::{
        self, BUNDLE_LIMIT, BUNDLE_MEDIA_TYPE, Bundle, COUNT_LIMIT, CosignSignature, Evidence, PAYLOAD_LIMIT,
        PAYLOAD_MEDIA_TYPE, SIGN_PREDICATE,
    },
};

/// Annotation of a manifest that carries a bundle: which kind of statement it holds. A hint to fetch
/// less; what counts is the statement.
pub(super) const PREDICATE_ANNOTATION: &str = "dev.sigstore.bundle.predicateType";

/// A bundle that refers to an artifact, not yet fetched.
struct Listed {
    predicate: Option<String>,
    layer: Descriptor,
}

impl RegistryClient {
    /// Fetches all signatures of an artifact, in both formats; none when it has none. None of them is
    /// verified yet. One that cannot be read is among them and is rejected when it is verified, so that
    /// it does not hide the others.
    ///
    /// # Errors
    /// `Unavailable` when it cannot be known which there are; `Malformed` when there are too many or
    /// their list cannot be read.
    pub async fn fetch_signatures(&self, reference: &Reference) -> Result<Vec<Evidence>, SupplyError> {
        let place = self.place(reference);
        let fetch = async {
            let mut all = cosign_signatures(&place).await?;
            let bundles = listed(&place, all.len()).await?;
            for bundle in bundles {
                let evidence = match bundle {
                    Err(reason) => Some(Evidence::unfit(reason)),
                    Ok(bundle) => signature_bundle(&place, bundle).await?,
                };
                all.extend(evidence);
            }
            Ok(all)
        };
        within(self.options.document_timeout, fetch).await.map_err(|fault| fault.of(reference))
    }

    /// Fetches all attestations of an artifact; none when it has none. None of them is verified yet.
    ///
    /// # Errors
    /// As [`Self::fetch_signatures`].
    pub async fn fetch_attestations(&self, reference: &Reference) -> Result<Vec<AttestationEvidence>, SupplyError> {
        let place = self.place(reference);
        let fetch = async {
            let mut all = Vec::new();
            for bundle in listed(&place, 0).await? {
                let Ok(Listed { predicate, layer }) = bundle else { continue };
                if predicate.as_deref() == Some(SIGN_PREDICATE) || layer.size > ATTESTATION_LIMIT {
                    continue;
                }
                let content = place.part("attestation", &layer).await?;
                if let Ok(bundle) = Bundle::read(&content)
                    && bundle.claims_other_predicate()
                {
                    all.push(AttestationEvidence::new(layer.digest, bundle));
                }
            }
            Ok(all)
        };
        within(self.options.component_timeout, fetch).await.map_err(|fault| fault.of(reference))
    }

    pub(super) async fn signature_manifest(&self, reference: &Reference) -> Result<Option<OciImageManifest>, Fault> {
        signature_manifest(&Place::Registry(self, reference)).await
    }
}

fn too_many() -> Fault {
    Defect::Signature(format!("there are more than {COUNT_LIMIT} signatures")).into()
}

async fn signature_manifest(place: &Place<'_>) -> Result<Option<OciImageManifest>, Fault> {
    let Some(content) = place.tagged(&signature::tag(&place.subject()), MANIFEST_LIMIT).await? else {
        return Ok(None);
    };
    let unreadable = |reason: String| Fault::from(Defect::Signature(reason));
    // Refuses indexes, `urls` fields and foreign digests.
    Manifest::parse(&content).map_err(|defect| unreadable(defect.to_string()))?;
    let manifest: OciImageManifest = serde_json::from_slice(&content).map_err(|error| unreadable(error.to_string()))?;
    if manifest.layers.len() > COUNT_LIMIT && !off(Protection::SignatureCountIsBounded) {
        return Err(too_many());
    }
    Ok(Some(manifest))
}

async fn cosign_signatures(place: &Place<'_>) -> Result<Vec<Evidence>, Fault> {
    let Some(manifest) = signature_manifest(place).await? else { return Ok(Vec::new()) };
    let mut signatures = Vec::new();
    for layer in manifest.layers.into_iter().filter(|layer| layer.media_type == PAYLOAD_MEDIA_TYPE) {
        let annotations = layer.annotations.clone().unwrap_or_default();
        let part = Descriptor::check("signature", layer).map_err(|defect| Defect::Signature(defect.to_string()))?;
        if part.size > PAYLOAD_LIMIT {
            let reason = format!("its payload is larger than {PAYLOAD_LIMIT} bytes");
            signatures.push(Evidence::unfit(reason));
            continue;
        }
        let payload = place.part("signature", &part).await?;
        signatures.extend(CosignSignature::read(&payload, &annotations).map(Evidence::from));
    }
    Ok(signatures)
}

/// The bundles that refer to the artifact, or what is wrong with one that should.
async fn listed(place: &Place<'_>, others: usize) -> Result<Vec<Result<Listed, String>>, Fault> {
    let subject = place.subject();
    let may_be = |artifact_type: &Option<String>| {
        artifact_type.as_deref().is_none_or(|artifact_type| artifact_type == BUNDLE_MEDIA_TYPE)
    };
    let mut entries = place.referrers().await?;
    entries.retain(|entry| may_be(&entry.artifact_type));
    let mut bundles = Vec::new();
    if entries.len() + others > 4 * COUNT_LIMIT && !off(Protection::SignatureCountIsBounded) {
        return Err(too_many());
    }
    for entry in entries {
        let digest: Digest = match entry.digest.parse() {
            Ok(digest) => digest,
            Err(error) => {
                bundles.push(Err(format!("it is listed without a digest: {error}")));
                continue;
            }
        };
        let content = place.manifest(&digest, MANIFEST_LIMIT).await?;
        match bundle_manifest(&content, subject) {
            Ok(None) => {}
            Ok(Some(listed)) => bundles.push(Ok(listed)),
            Err(reason) => bundles.push(Err(reason)),
        }
    }
    let signatures = |bundle: &&Result<Listed, String>| {
        bundle.as_ref().map_or(true, |listed| listed.predicate.as_deref().is_none_or(|it| it == SIGN_PREDICATE))
    };
    if bundles.iter().filter(signatures).count() + others > COUNT_LIMIT && !off(Protection::SignatureCountIsBounded) {
        return Err(too_many());
    }
    Ok(bundles)
}

/// Reads a manifest that may carry a bundle. None when it carries something else.
fn bundle_manifest(content: &[u8], subject: Digest) -> Result<Option<Listed>, String> {
    let manifest = Manifest::parse(content).map_err(|defect| defect.to_string())?;
    if manifest.artifact_type.as_deref() != Some(BUNDLE_MEDIA_TYPE) {
        return Ok(None);
    }
    let whole: OciImageManifest = serde_json::from_slice(content).map_err(|error| error.to_string())?;
    let about = whole.subject.map(|subject| subject.digest).unwrap_or_default();
    if about != subject.to_string() {
        return Err(format!("its manifest refers to `{about}`, not to this artifact"));
    }
    let count = manifest.layers.len();
    let [layer] = <[Descriptor; 1]>::try_from(manifest.layers).map_err(|_| format!("it has {count} parts, not one"))?;
    if layer.media_type != BUNDLE_MEDIA_TYPE && !off(Protection::BundleIsOfKnownVersion) {
        return Err(format!("it is a `{}`, not a `{BUNDLE_MEDIA_TYPE}`", layer.media_type));
    }
    let predicate = whole.annotations.and_then(|mut all| all.remove(PREDICATE_ANNOTATION));
    Ok(Some(Listed { predicate, layer }))
}

async fn signature_bundle(place: &Place<'_>, listed: Listed) -> Result<Option<Evidence>, Fault> {
    let Listed { predicate, layer } = listed;
    if predicate.is_some_and(|predicate| predicate != SIGN_PREDICATE) {
        return Ok(None);
    }
    if layer.size > BUNDLE_LIMIT && !off(Protection::BundleSizeIsBounded) {
        return Ok(Some(Evidence::unfit(format!("its bundle is larger than {BUNDLE_LIMIT} bytes"))));
    }
    let content = place.part("signature", &layer).await?;
    Ok(match Bundle::read(&content) {
        Ok(bundle) if bundle.claims_other_predicate() => None,
        Ok(bundle) => Some(bundle.into()),
        Err(rejection) => Some(Evidence::unfit(rejection.to_string())),
    })
}
