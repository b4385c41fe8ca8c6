//! What signed statements say about a step, and whether it is about this one.

use std::fmt::Write as _;

use fettle_model::digest::Digest;
use fettle_supply::{Attestation, AttestationEvidence, Rejection};
use serde::Serialize;
use serde_json::Value;

use super::{provenance, sbom};

/// A statement that is attached to a step.
#[derive(Clone, Debug, Serialize)]
pub struct Attested {
    /// The digest of the bundle.
    pub digest: Digest,
    /// Which kind of statement; absent when it is not believed.
    pub predicate_type: Option<String>,
    /// Who signed it, when that is somebody trusted.
    pub signed_by: Option<String>,
    /// What it says, in short.
    pub says: Option<String>,
    /// Why it is worth nothing, if so.
    pub refused: Option<String>,
}

impl Attested {
    /// Whether it is believed, and of this type.
    #[must_use]
    pub fn is(&self, predicate_type: &str) -> bool {
        self.refused.is_none() && self.predicate_type.as_deref() == Some(predicate_type)
    }
}

/// Looks at one: whether somebody trusted signed it for exactly this manifest, and whether what it says
/// is about the component in it.
#[must_use]
pub fn judge(evidence: &AttestationEvidence, stated: Result<Attestation, Rejection>, component: Digest) -> Attested {
    let mut judged =
        Attested { digest: evidence.digest(), predicate_type: None, signed_by: None, says: None, refused: None };
    match stated {
        Ok(attestation) => {
            match says(&attestation.predicate_type, &attestation.predicate, component) {
                Ok(words) => judged.says = Some(words),
                Err(reason) => judged.refused = Some(reason),
            }
            judged.signed_by = Some(attestation.signer.to_string());
            judged.predicate_type = Some(attestation.predicate_type);
        }
        Err(rejection) => judged.refused = Some(rejection.to_string()),
    }
    judged
}

/// Types of what a step must have and has not.
#[must_use]
pub fn missing(found: &[Attested]) -> Vec<&'static str> {
    let is_there = |needed: &&str| found.iter().any(|attested| attested.is(needed));
    [sbom::PREDICATE_TYPE, provenance::PREDICATE_TYPE].into_iter().filter(|needed| !is_there(needed)).collect()
}

/// What a predicate says about a component, in short.
fn says(predicate_type: &str, predicate: &Value, component: Digest) -> Result<String, String> {
    match predicate_type {
        sbom::PREDICATE_TYPE => match sbom::read(predicate.to_string().as_bytes()) {
            Some((of, crates)) if of == component => Ok(format!("{crates} crates")),
            Some((of, _)) => Err(format!("it is the bill of materials of {of}")),
            None => Err("it names no component".to_owned()),
        },
        provenance::PREDICATE_TYPE => match provenance::byproduct(predicate, "component") {
            Some(of) if of == component => Ok(provenance::in_short(predicate)),
            Some(of) => Err(format!("it is the provenance of {of}")),
            None => Err("it names no component".to_owned()),
        },
        _ => Ok("a kind that is not looked into here".to_owned()),
    }
}

/// A list for people.
#[must_use]
pub fn text(all: &[Attested]) -> String {
    if all.is_empty() {
        return "  nothing is attached\n".to_owned();
    }
    let one = |attested: &Attested| {
        let kind = attested.predicate_type.as_deref().unwrap_or("a statement that is not believed");
        let mut text = format!("  {kind}\n");
        for (name, value) in
            [("says", &attested.says), ("signed by", &attested.signed_by), ("REFUSED", &attested.refused)]
        {
            if let Some(value) = value {
                let _ = writeln!(text, "    {name:<10} {value}");
            }
        }
        text
    };
    all.iter().map(one).collect()
}
