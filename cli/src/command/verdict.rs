//! A verdict on an artifact, with everything that it rests on.

use fettle_model::reference::Reference;
use fettle_supply::{Artifact, ArtifactKind, Finding, SupplyError};
use serde::Serialize;
use serde_json::Value;

use super::Session;
use crate::{error::CommandError, exit::Exit, report, supply::TrustArguments};

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
}

/// Fetches an artifact, verifies it and shows the verdict.
pub(super) async fn show(
    session: &Session,
    trust: &TrustArguments,
    kind: ArtifactKind,
    reference: &Reference,
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
    };
    let error = match supplier.artifact(kind, reference).await {
        Ok(artifact) => {
            let signed_by = signers(&artifact);
            let text = format!("TRUSTED: {reference} is signed by {signed_by}\n{}", lines(&artifact.chain.findings));
            let chain = &artifact.chain;
            let answer = Answer {
                signed_by: Some(signed_by),
                needed: Some(&chain.needed),
                chain: &chain.findings,
                ..answer("TRUSTED")
            };
            return session.show(&answer, |_| text);
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

/// Who counted, in words.
pub(super) fn signers(artifact: &Artifact) -> String {
    artifact.signers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn lines(findings: &[Finding]) -> String {
    findings.iter().map(|finding| format!("  {finding}\n")).collect()
}
