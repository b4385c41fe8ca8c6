//! A verdict on an artifact, with everything that it rests on.

use fettle_model::{digest::Digest, reference::Reference};
use fettle_supply::{Artifact, ArtifactKind, Finding, SupplyError};
use serde::Serialize;
use serde_json::Value;

use super::Session;
use crate::{
    author::attested::{self, Attested},
    error::CommandError,
    exit::Exit,
    report,
    supply::{TemporarySupplier, TrustArguments},
};

/// What there is to say.
#[derive(Serialize)]
struct Answer<'a> {
    verdict: &'a str,
    reference: &'a Reference,
    kind: &'a str,
    /// Digest and revision of the trust policy.
    policy: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    signed_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// What the policy wants for the kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    needed: Option<&'a str>,
    /// What each signature turned out to be.
    chain: &'a [Finding],
    /// What is attached, when that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    attestations: Option<Vec<Attested>>,
}

/// Fetches an artifact, verifies it and shows the verdict.
pub(super) async fn show(
    session: &Session,
    trust: &TrustArguments,
    kind: ArtifactKind,
    reference: &Reference,
    attestations: bool,
) -> Result<(), CommandError> {
    let supplier = trust.supplier(session)?;
    let policy = supplier.trust()?;
    let policy = serde_json::json!({ "digest": policy.policy().digest(), "revision": policy.policy().revision() });
    let answer = |verdict| Answer {
        verdict,
        reference,
        kind: kind.name(),
        policy: policy.clone(),
        signed_by: None,
        reason: None,
        needed: None,
        chain: &[],
        attestations: None,
    };
    let error = match supplier.artifact(kind, reference).await {
        Ok(artifact) => {
            let signed_by = signers(&artifact);
            let text = format!("TRUSTED: {reference} is signed by {signed_by}\n{}", lines(&artifact.chain.findings));
            let chain = &artifact.chain;
            let attestations = if attestations { Some(attested(&supplier, kind, &artifact).await?) } else { None };
            let text = text + &attestations.as_deref().map(attested::text).unwrap_or_default();
            let missing = attestations.as_deref().map(attested::missing).unwrap_or_default();
            let answer = Answer {
                attestations,
                signed_by: Some(signed_by),
                needed: Some(&chain.needed),
                chain: &chain.findings,
                ..answer("TRUSTED")
            };
            session.show(&answer, |_| text)?;
            if missing.is_empty() {
                return Ok(());
            }
            let missing = missing.join(" and ");
            return Err(CommandError::Unattested { reference: reference.to_string(), missing });
        }
        Err(error) => error,
    };
    let CommandError::Supply(supply) = &error else { return Err(error) };
    let Some(verdict) = supply.verdict() else { return Err(error) };
    let reason = report::sentence(supply);
    let needed = match supply {
        SupplyError::Unsigned { needed, .. } => Some(needed.as_str()),
        other => other.chain().map(|chain| chain.needed.as_str()),
    };
    let chain = supply.chain().map(|chain| chain.findings.as_slice()).unwrap_or_default();
    let text = format!("{reason}\n{}", lines(chain));
    session.show(&Answer { reason: Some(reason), needed, chain, ..answer(verdict.name()) }, |_| text)?;
    Err(if error.exit() == Exit::NotFound { CommandError::VerdictMissing } else { CommandError::Verdict { verdict } })
}

/// What is attached to an artifact. Of steps only is it known what must be.
async fn attested(
    supplier: &TemporarySupplier,
    kind: ArtifactKind,
    artifact: &Artifact,
) -> Result<Vec<Attested>, CommandError> {
    if kind == ArtifactKind::Step {
        return supplier.attested(&artifact.reference, Digest::of(&artifact.content)).await;
    }
    Err(CommandError::Missing {
        problem: format!("a {kind} has no attestations to verify"),
        fix: "leave --attestations out, or name a step".to_owned(),
    })
}

/// Who counted, in words.
pub(super) fn signers(artifact: &Artifact) -> String {
    artifact.signers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn lines(findings: &[Finding]) -> String {
    findings.iter().map(|finding| format!("  {finding}\n")).collect()
}
