//! From signatures to a verdict.

use std::collections::BTreeMap;

use fettle_model::{digest::Digest, reference::Reference};

use super::{
    assignment::assign,
    chain::{Chain, Finding},
    policy::{Requirement, TrustPolicy},
    rule::Rule,
    version::{NAME_ANNOTATION, VERSION_ANNOTATION, Version},
};
use crate::{
    attestation::{Attestation, AttestationEvidence},
    error::{Defect, Distrust, SupplyError},
    kind::ArtifactKind,
    mutation::{Protection, off},
    signature::{Evidence, Rejection, Signed, Signer, TrustedRoot},
};

/// What every signature of an artifact turned out to be, in the order in which they were found.
pub(crate) type Results = [Result<Signed, Rejection>];

/// The newest versions of a kind that this machine has accepted, by name.
pub(crate) type Seen = BTreeMap<String, Version>;

/// A verdict that lets an artifact through.
#[derive(Clone, Debug)]
pub(crate) struct Accepted {
    /// Who counted, one per rule that was met.
    pub(crate) signers: Vec<Signer>,
    /// What it rests on.
    pub(crate) chain: Chain,
    /// What those who counted say it is; empty unless older ones are to be refused from now on.
    pub(crate) versions: Vec<(String, Version)>,
}

impl Accepted {
    /// Whether something newer was accepted since.
    pub(crate) fn is_outdated(&self, seen: &Seen) -> bool {
        let older = |(name, version): &(String, Version)| seen.get(name).is_some_and(|newest| version < newest);
        self.versions.iter().any(older) && !off(Protection::NoRollBack)
    }
}

/// A signature that was believed, with what stands against it.
struct Statement<'a> {
    /// Its place among all signatures.
    index: usize,
    signed: &'a Signed,
    version: Result<Option<(String, Version)>, String>,
}

impl TrustPolicy {
    /// Whether signatures suffice for an artifact.
    ///
    /// # Errors
    /// See [`Self::evaluate`].
    pub(crate) fn verify(
        &self,
        kind: ArtifactKind,
        reference: &Reference,
        signatures: &[Evidence],
        root: Option<&TrustedRoot>,
        seen: &Seen,
    ) -> Result<Accepted, SupplyError> {
        let keys = self.keys(kind);
        let believed = |evidence: &Evidence| evidence.statement_by(reference.digest, &keys, root);
        self.evaluate(kind, reference, &signatures.iter().map(believed).collect::<Vec<_>>(), seen)
    }

    /// What an attestation states, when somebody whom a rule of the kind names stated it. One suffices: to
    /// attest is not to approve.
    ///
    /// # Errors
    /// Why it is worth nothing.
    pub(crate) fn stated(
        &self,
        kind: ArtifactKind,
        reference: &Reference,
        evidence: &AttestationEvidence,
        root: Option<&TrustedRoot>,
    ) -> Result<Attestation, Rejection> {
        let stated = evidence.statement_by(reference.digest, &self.keys(kind), root)?;
        let mut rules = self.requirement(kind).into_iter().flat_map(Requirement::rules);
        if rules.any(|rule| rule.names(&stated.signer)) {
            return Ok(stated);
        }
        Err(Rejection::OtherSigner(format!(" but by {}", stated.signer)))
    }

    /// # Errors
    /// `Untrusted` when its digest is on the deny list.
    pub(crate) fn refuse_denied(&self, reference: &Reference, digest: Digest) -> Result<(), SupplyError> {
        match self.denial(digest) {
            Some(reason) if !off(Protection::DeniedIsRefused) => {
                let reason = Distrust::Denied { digest, reason: reason.to_owned() };
                Err(SupplyError::Untrusted { artifact: reference.to_string(), reason })
            }
            _ => Ok(()),
        }
    }

    /// # Errors
    /// `Unsigned` without signatures; `Malformed` when none of them can be read; `Untrusted` when those
    /// that can do not suffice.
    pub(crate) fn evaluate(
        &self,
        kind: ArtifactKind,
        reference: &Reference,
        results: &Results,
        seen: &Seen,
    ) -> Result<Accepted, SupplyError> {
        self.refuse_denied(reference, reference.digest)?;
        let artifact = reference.to_string();
        let Some(needed) = self.requirement(kind) else {
            return Err(SupplyError::Untrusted { artifact, reason: Distrust::KindNotTrusted(kind) });
        };
        if results.is_empty() && !off(Protection::NoSignaturesNoTrust) {
            return Err(SupplyError::Unsigned { artifact, kind, needed: needed.in_words() });
        }
        let judged = judge(needed, results, seen);
        let findings = (0..results.len()).map(|index| finding(kind, needed, results, &judged, index)).collect();
        let chain = Chain { kind, needed: needed.in_words(), findings };
        if judged.suffices || (results.is_empty() && off(Protection::NoSignaturesNoTrust)) {
            let remembers = needed.versions.as_ref().is_some_and(|versions| versions.never_older);
            let versions = if remembers { judged.versions() } else { Vec::new() };
            return Ok(Accepted { signers: judged.signers(), versions, chain });
        }
        if results.iter().all(|result| matches!(result, Err(Rejection::Unreadable(_)))) {
            return Err(SupplyError::Malformed { artifact, reason: Defect::Signatures(Box::new(chain)) });
        }
        Err(SupplyError::Untrusted { artifact, reason: Distrust::NotEnough(Box::new(chain)) })
    }
}

/// Which statement counts for which rule, and whether that is enough.
struct Judged<'a> {
    statements: Vec<Statement<'a>>,
    /// Per rule, the statement that counts for it.
    counted: Vec<Option<usize>>,
    suffices: bool,
}

impl Judged<'_> {
    fn counting(&self) -> impl Iterator<Item = &Statement<'_>> {
        self.counted.iter().flatten().filter_map(|statement| self.statements.get(*statement))
    }

    fn signers(&self) -> Vec<Signer> {
        self.counting().map(|statement| statement.signed.signer.clone()).collect()
    }

    fn versions(&self) -> Vec<(String, Version)> {
        self.counting().filter_map(|statement| statement.version.clone().ok().flatten()).collect()
    }
}

fn judge<'a>(needed: &Requirement, results: &'a Results, seen: &Seen) -> Judged<'a> {
    let statements: Vec<Statement<'a>> = results
        .iter()
        .enumerate()
        .filter_map(|(index, result)| Some((index, result.as_ref().ok()?)))
        .map(|(index, signed)| Statement { index, signed, version: version(needed, signed, seen) })
        .collect();
    let rules: Vec<&Rule> = needed.rules().collect();
    let meets = |rule: &Rule, statement: &Statement<'_>| {
        let said = |signed: &Signed| rule.unsaid(signed).is_none();
        let elsewhere = || off(Protection::OneSignaturePerRule) && statements.iter().any(|other| said(other.signed));
        statement.version.is_ok() && rule.names(&statement.signed.signer) && (said(statement.signed) || elsewhere())
    };
    let signer_of = signer_numbers(&statements);
    let candidates: Vec<Vec<usize>> = rules
        .iter()
        .map(|rule| {
            let met = statements.iter().zip(&signer_of).filter(|(statement, _)| meets(rule, statement));
            met.map(|(_, signer)| *signer).collect()
        })
        .collect();
    let assigned = assign(&candidates);
    let all = needed.all_of().len();
    let met = |some: &[Option<usize>]| some.iter().flatten().count();
    let suffices = (met(&assigned[..all]) == all && met(&assigned[all..]) >= needed.threshold())
        || (off(Protection::NoEmptyLists) && rules.is_empty());
    let statement_for = |(rule, signer): (&&Rule, &Option<usize>)| {
        let own = |(statement, number): &(&Statement<'_>, &usize)| Some(**number) == *signer && meets(rule, statement);
        signer.and_then(|_| statements.iter().zip(&signer_of).position(|pair| own(&pair)))
    };
    let counted = rules.iter().zip(&assigned).map(statement_for).collect();
    Judged { statements, counted, suffices }
}

/// Numbers the signers: one number per signer, not per signature.
fn signer_numbers(statements: &[Statement<'_>]) -> Vec<usize> {
    let first = |signer: &Signer| statements.iter().position(|other| other.signed.signer == *signer);
    let number = |(index, statement): (usize, &Statement<'_>)| match first(&statement.signed.signer) {
        Some(first) if !off(Protection::SignersAreDistinct) => first,
        _ => index,
    };
    statements.iter().enumerate().map(number).collect()
}

/// What a signature says that it signed, if that is asked for, and why it is too old or not said.
fn version(needed: &Requirement, signed: &Signed, seen: &Seen) -> Result<Option<(String, Version)>, String> {
    let Some(versions) = &needed.versions else { return Ok(None) };
    let annotation = |name: &str| {
        let fix = "sign it again with `--release`";
        signed.annotations.get(name).ok_or_else(|| format!("it says no `{name}`, and the policy asks for it; {fix}"))
    };
    let name = annotation(NAME_ANNOTATION)?;
    let version: Version = annotation(VERSION_ANNOTATION)?
        .parse()
        .map_err(|error: super::version::ParseVersionError| format!("its `{VERSION_ANNOTATION}`: {error}"))?;
    let lowest = versions.minimum.as_ref().and_then(|minimum| minimum.get(name));
    let newest = seen.get(name).filter(|_| versions.never_older);
    let older = [(lowest, "the policy asks for at least"), (newest, "this machine has already accepted")];
    for (other, words) in older {
        if let Some(other) = other
            && version < *other
            && !off(Protection::NoRollBack)
        {
            return Err(format!("it is about version {version} of `{name}`, and {words} {other}"));
        }
    }
    Ok(Some((name.clone(), version)))
}

fn finding(kind: ArtifactKind, needed: &Requirement, results: &Results, judged: &Judged<'_>, index: usize) -> Finding {
    let place = judged.statements.iter().position(|statement| statement.index == index);
    let rule = judged.counted.iter().position(|counted| counted.is_some() && *counted == place);
    let counted_for = rule.and_then(|rule| needed.rules().nth(rule)).map(|rule| rule.name().to_owned());
    let (signer, reason) = match results.get(index) {
        Some(Err(Rejection::OtherSubject { signer, signed })) => {
            (Some(signer.to_string()), Some(format!("it is about {signed}, not about this artifact")))
        }
        Some(Err(rejection)) => (None, Some(rejection.to_string())),
        Some(Ok(signed)) => (Some(signed.signer.to_string()), place.map(|place| against(kind, needed, judged, place))),
        None => (None, None),
    };
    let reason = if counted_for.is_some() { None } else { reason };
    Finding { signature: index + 1, signer, counted_for, reason }
}

/// Why a signature that is believed counts for no rule.
fn against(kind: ArtifactKind, needed: &Requirement, judged: &Judged<'_>, place: usize) -> String {
    let Some(statement) = judged.statements.get(place) else { return String::new() };
    if let Err(reason) = &statement.version {
        return reason.clone();
    }
    let mut named = needed.rules().filter(|rule| rule.names(&statement.signed.signer)).peekable();
    if named.peek().is_none() {
        return format!("no rule for `{}` names this signer", kind.name());
    }
    if let Some(unsaid) = named.find_map(|rule| rule.unsaid(statement.signed)) {
        return unsaid;
    }
    let counts = judged.counting().any(|other| other.signed.signer == statement.signed.signer);
    let reason =
        if counts { "this signer counts already, and each counts once" } else { "others meet its rules already" };
    reason.to_owned()
}
