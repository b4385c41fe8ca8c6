//! What a trust policy must not say. Nothing that could be read as "allow all" is taken.

use super::{
    error::TrustPolicyError,
    policy::{Document, Requirement, Versions},
    rule::Rule,
};
use crate::{
    kind::ArtifactKind,
    mutation::{Protection, off},
};

/// The kinds that a policy can name, for messages.
pub(super) const KINDS: &str = "`step`, `catalog`, `definition`, `policy_bundle`, `trust_policy`";
/// Most rules of one kind.
pub(super) const RULES_LIMIT: usize = 64;

type Checked = Result<(), TrustPolicyError>;

pub(super) fn check(policy: &Document) -> Checked {
    if ArtifactKind::ALL.iter().all(|kind| policy.requirement(*kind).is_none()) {
        return Err(TrustPolicyError::Empty);
    }
    if let Some(deny) = &policy.deny {
        not_empty(deny.is_empty(), || "deny".to_owned(), "a digest")?;
        for (index, denial) in deny.iter().enumerate() {
            if denial.reason.trim().is_empty() {
                let problem = "the reason is empty; write one for whoever meets the refusal".to_owned();
                return Err(TrustPolicyError::Rule { place: format!("deny/{index}"), problem });
            }
        }
    }
    ArtifactKind::ALL.into_iter().try_for_each(|kind| match policy.requirement(kind) {
        Some(needed) => requirement(kind.name(), needed),
        None => Ok(()),
    })
}

fn requirement(kind: &'static str, needed: &Requirement) -> Checked {
    if needed.all_of.is_none() && needed.any_of.is_none() {
        return Err(TrustPolicyError::NoRules(kind));
    }
    for (name, list) in [("allOf", &needed.all_of), ("anyOf", &needed.any_of)] {
        let Some(rules) = list else { continue };
        not_empty(rules.is_empty(), || format!("{kind}/{name}"), "a signer")?;
        for (index, rule) in rules.iter().enumerate() {
            let at = |problem| TrustPolicyError::Rule { place: format!("{kind}/{name}/{index}"), problem };
            rule.check().map_err(at)?;
        }
    }
    threshold(kind, needed)?;
    twins(kind, &needed.rules().collect::<Vec<_>>())?;
    needed.versions.as_ref().map_or(Ok(()), |versions| check_versions(kind, versions))
}

fn threshold(kind: &'static str, needed: &Requirement) -> Checked {
    let Some(minimum) = needed.minimum_matches else { return Ok(()) };
    let Some(rules) = &needed.any_of else { return Err(TrustPolicyError::ThresholdAlone(kind)) };
    let lowest = if off(Protection::NoZeroThreshold) { 0 } else { 1 };
    if (lowest..=rules.len()).contains(&minimum) {
        return Ok(());
    }
    Err(TrustPolicyError::Threshold { place: format!("{kind}/anyOf"), minimum, rules: rules.len() })
}

fn twins(kind: &'static str, rules: &[&Rule]) -> Checked {
    if rules.len() > RULES_LIMIT {
        return Err(TrustPolicyError::TooMany { kind, rules: rules.len() });
    }
    for (index, rule) in rules.iter().enumerate() {
        let earlier = || rules.iter().take(index);
        if let Some(first) = earlier().find(|other| other.is_same_signer(rule)) {
            let (first, second) = (first.name().to_owned(), rule.name().to_owned());
            return Err(TrustPolicyError::Twice { kind, first, second });
        }
        if earlier().any(|other| other.name() == rule.name()) {
            return Err(TrustPolicyError::SameName { kind, name: rule.name().to_owned() });
        }
    }
    Ok(())
}

fn check_versions(kind: &'static str, versions: &Versions) -> Checked {
    let place = || format!("{kind}/versions");
    not_empty(versions.minimum.is_none() && !versions.never_older, place, "`minimum`, or `neverOlder: true`")?;
    let is_empty = versions.minimum.as_ref().is_some_and(std::collections::BTreeMap::is_empty);
    not_empty(is_empty, || format!("{kind}/versions/minimum"), "an artifact and its lowest version")
}

fn not_empty(is_empty: bool, place: impl FnOnce() -> String, what: &'static str) -> Checked {
    if is_empty && !off(Protection::NoEmptyLists) {
        return Err(TrustPolicyError::EmptyList(place(), what));
    }
    Ok(())
}
