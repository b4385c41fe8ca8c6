//! A trust policy over signatures whose cryptography is taken as given.

use fettle_model::reference::Reference;

use crate::{
    error::SupplyError,
    kind::ArtifactKind,
    signature::{Signed, Signer},
    trust::{Seen, TrustPolicy},
};

/// Who counts, if these signatures were proven and are all there are.
///
/// # Errors
/// The verdict otherwise.
pub fn judge(
    policy: &TrustPolicy,
    kind: ArtifactKind,
    reference: &Reference,
    signatures: impl IntoIterator<Item = Signed>,
) -> Result<Vec<Signer>, SupplyError> {
    let results: Vec<_> = signatures.into_iter().map(Ok).collect();
    policy.evaluate(kind, reference, &results, &Seen::new()).map(|accepted| accepted.signers)
}
