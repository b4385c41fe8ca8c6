//! Puts signatures beside an artifact that this crate would never make.

use std::collections::BTreeMap;

use fettle_model::reference::Reference;

use crate::registry::RegistryClient;

/// A payload layer with these annotations, in cosign's place.
///
/// # Panics
/// When the registry fails.
pub async fn cosign(
    client: &RegistryClient,
    reference: &Reference,
    payload: &[u8],
    annotations: &BTreeMap<String, String>,
) {
    let signature = crate::signature::CosignSignature::read(payload, annotations).expect("a signature annotation");
    client.attach_cosign(reference, &signature).await.map_err(|fault| fault.of(reference)).unwrap();
}

/// These bytes, as a bundle that refers to the artifact.
///
/// # Panics
/// When the registry fails.
pub async fn bundle(client: &RegistryClient, reference: &Reference, content: &[u8]) {
    let (content, predicate) = (content.to_vec().into(), crate::signature::SIGN_PREDICATE);
    client.attach_bundle(reference, content, predicate).await.map_err(|fault| fault.of(reference)).unwrap();
}
