//! What a step may reach: what its component asks for, what its definition grants, what the node allows.
//!
//! One pure function, [`of_step`], computes the intersection before anything runs, and for everything
//! that is outside it the reason and the line that would allow it. The host refuses by it, the plane
//! checks definitions with it, and commands explain with it.

mod entry;
mod fix;

use std::{collections::BTreeSet, fmt};

use serde::{Deserialize, Serialize};

pub use self::{
    entry::Entry,
    fix::{Document, Fix},
};
use crate::{
    descriptor::Descriptor,
    failure::{Failure, FailureClass},
    grant::{Capability, Grants},
    name::{Label, StepId},
    policy::PolicyBundle,
};

/// What is known of a step. What is not known is left out of the answer, never taken for allowed.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Its name in the definition; none for a component on its own.
    pub step: Option<&'a StepId>,
    /// What its component says of itself.
    pub descriptor: &'a Descriptor,
    /// The capabilities that its component imports; none when nobody has looked.
    pub imports: Option<&'a BTreeSet<Capability>>,
    /// What its definition grants.
    pub grants: Option<&'a Grants>,
    /// What its node allows.
    pub policy: Option<&'a PolicyBundle>,
}

/// What a step may reach, and why not more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepAccess {
    /// Every capability that is asked for, imported or granted.
    pub capabilities: Vec<CapabilityAccess>,
    /// Request, grant and ceiling at once: all that the step is given.
    pub effective: Grants,
}

/// One capability of one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapabilityAccess {
    /// Which.
    pub capability: Capability,
    /// Why the component asks for it, in its own words; none when it does not.
    pub request: Option<String>,
    /// Whether the component imports it; none when nobody has looked.
    pub imported: Option<bool>,
    /// What the definition grants; none when there is no definition.
    pub granted: Option<Vec<Entry>>,
    /// What the node's ceiling allows; none when there is no policy bundle.
    pub ceiling: Option<Vec<Entry>>,
    /// What the step is given.
    pub effective: Vec<Entry>,
    /// All of it in one word.
    pub verdict: Verdict,
    /// What is outside, and what would change that.
    pub findings: Vec<Finding>,
}

/// How a capability stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Asked for, granted, and within the ceiling.
    Allowed,
    /// The step does not run.
    Denied,
    /// Granted, and the component never asks for it: it is not given.
    Unused,
    /// Nothing denies it so far; a grant or a ceiling is not known.
    Undecided,
}

/// Something that is outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Stable, dotted: `grant.beyond-ceiling`.
    pub code: String,
    /// Whether it keeps the step from running.
    pub severity: Severity,
    /// JSON pointer from the step in its definition: `/grants/files/write`.
    pub pointer: String,
    /// What is wrong, without the fix.
    pub message: String,
    /// What would allow it.
    pub fix: Option<Fix>,
}

/// How grave a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The step does not run.
    Denied,
    /// It runs, and somebody should look.
    Warning,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.fix {
            Some(fix) => write!(f, "{}; to allow it, {fix}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Unused => "unused",
            Self::Undecided => "undecided",
        })
    }
}

impl StepAccess {
    /// Everything that is outside.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.capabilities.iter().flat_map(|capability| &capability.findings)
    }

    /// Succeeds when nothing keeps the step from running.
    ///
    /// # Errors
    /// The first finding that does.
    pub fn check(&self) -> Result<(), &Finding> {
        self.findings().find(|finding| finding.severity == Severity::Denied).map_or(Ok(()), Err)
    }

    /// The same, as what ends an operation: every denial in one failure, under the code of the first.
    ///
    /// # Errors
    /// Of class `denied`.
    pub fn allow(&self) -> Result<(), Failure> {
        refuse(self.findings().filter(|finding| finding.severity == Severity::Denied))
    }
}

/// Succeeds when a node allows and has all that is granted.
///
/// # Errors
/// Of class `denied`, with everything that it does not.
pub fn within(grants: &Grants, policy: &PolicyBundle) -> Result<(), Failure> {
    refuse(outside(grants, policy).iter().map(|(_, finding)| finding))
}

fn refuse<'a>(denials: impl Iterator<Item = &'a Finding>) -> Result<(), Failure> {
    let mut denials = denials.peekable();
    let Some(code) = denials.peek().map(|finding| finding.code.clone()) else { return Ok(()) };
    let message = denials.map(ToString::to_string).collect::<Vec<_>>().join("; ");
    Err(Failure::new(FailureClass::Denied, code, message))
}

/// Computes what a step may reach.
#[must_use]
pub fn of_step(question: &Question<'_>) -> StepAccess {
    let none = Grants::default();
    let grants = question.grants.unwrap_or(&none);
    let outside = question.policy.map(|policy| outside(grants, policy)).unwrap_or_default();
    let denied: BTreeSet<Entry> = outside.iter().map(|(entry, _)| entry.clone()).collect();
    let requested: BTreeSet<Capability> = question.descriptor.requests.keys().copied().collect();
    let effective = grants.narrowed(&requested, &denied);
    let given = effective.entries();
    let named = |capability: &Capability| {
        requested.contains(capability)
            || grants.has(*capability)
            || question.imports.is_some_and(|imports| imports.contains(capability))
    };
    let of_capability = |capability: Capability| {
        let mut findings = requests(question, grants, capability);
        let entries = outside.iter().filter(|(entry, _)| entry.capability == capability);
        findings.extend(entries.map(|(_, finding)| finding.clone()));
        let of = |entries: Vec<Entry>| entries.into_iter().filter(|entry| entry.capability == capability).collect();
        CapabilityAccess {
            capability,
            request: question.descriptor.requests.get(&capability).cloned(),
            imported: question.imports.map(|imports| imports.contains(&capability)),
            granted: question.grants.map(|grants| of(grants.entries())),
            ceiling: question.policy.map(|policy| of(policy.ceiling.entries())),
            effective: of(given.clone()),
            verdict: verdict(question, capability, &findings),
            findings,
        }
    };
    let capabilities = Capability::ALL.into_iter().filter(named).map(of_capability).collect();
    StepAccess { capabilities, effective }
}

fn verdict(question: &Question<'_>, capability: Capability, findings: &[Finding]) -> Verdict {
    if findings.iter().any(|finding| finding.severity == Severity::Denied) {
        Verdict::Denied
    } else if question.grants.is_none() || question.policy.is_none() {
        Verdict::Undecided
    } else if question.descriptor.requests.contains_key(&capability) {
        Verdict::Allowed
    } else {
        Verdict::Unused
    }
}

/// Whether the component asks for what it uses and is granted what it asks for.
fn requests(question: &Question<'_>, grants: &Grants, capability: Capability) -> Vec<Finding> {
    let Question { step, descriptor, imports, .. } = *question;
    let kind = &descriptor.kind;
    let imported = imports.map(|imports| imports.contains(&capability));
    let finding = |code: &str, severity, pointer: String, message, fix| Finding {
        code: code.to_owned(),
        severity,
        pointer,
        message,
        fix,
    };
    match (descriptor.requests.get(&capability), question.grants.is_some()) {
        (None, _) if imported == Some(true) => {
            let message = format!("`{kind}` imports `{}` and does not ask for it", capability.interface());
            let line = format!("{capability}: \"<why>\"");
            let fix = Fix { document: Document::Component, at: "requests".to_owned(), line };
            vec![finding("step.unrequested-import", Severity::Denied, "/uses".to_owned(), message, Some(fix))]
        }
        (None, _) if grants.has(capability) => {
            let message = format!("`{kind}` never asks for capability `{capability}`; remove this grant");
            vec![finding("grant.unused", Severity::Warning, format!("/grants/{capability}"), message, None)]
        }
        (Some(why), true) if !grants.has(capability) && imported != Some(false) => {
            let message = format!("`{kind}` uses capability `{capability}` ({why}), and this step does not grant it");
            let fix = fix::granting(&fix::grants_of(step), grants, capability);
            vec![finding("grant.missing", Severity::Denied, "/grants".to_owned(), message, Some(fix))]
        }
        _ => Vec::new(),
    }
}

/// The entries of a grant that a node does not allow or does not have, each with why.
fn outside(grants: &Grants, policy: &PolicyBundle) -> Vec<(Entry, Finding)> {
    let outside = |entry: Entry| {
        let (code, message, fix) = if policy.ceiling.allows(&entry) {
            unknown(&entry, policy)?
        } else {
            let message = format!("the policy bundle does not allow `{entry}`");
            let fix = fix::adding(Document::PolicyBundle, &["ceiling".to_owned()], &policy.ceiling, &entry);
            ("grant.beyond-ceiling", message, fix)
        };
        let pointer = format!("/grants/{}/{}", entry.capability, entry.field);
        let finding = Finding { code: code.to_owned(), severity: Severity::Denied, pointer, message, fix: Some(fix) };
        Some((entry, finding))
    };
    grants.entries().into_iter().filter_map(outside).collect()
}

/// An entry that names something which the policy bundle does not have.
fn unknown(entry: &Entry, policy: &PolicyBundle) -> Option<(&'static str, String, Fix)> {
    let list = |names: Vec<&str>| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    match entry.capability {
        Capability::Files => {
            let name = entry.value.split('/').next().unwrap_or_default();
            if policy.roots.keys().any(|root| root.as_str() == name) {
                return None;
            }
            let known = list(policy.roots.keys().map(Label::as_str).collect());
            let message = format!(
                "the grant names `{}`, and the policy bundle has no root `{name}`; it has {known}",
                entry.value
            );
            Some(("files.unknown-root", message, fix::root(policy, name)))
        }
        Capability::Exec if policy.profile(&entry.value).is_none() => {
            let known = list(policy.profiles.iter().map(|profile| profile.id.as_str()).collect());
            let message = format!(
                "the grant names command profile `{}`, and the policy bundle has no such profile; it has {known}",
                entry.value
            );
            Some(("exec.unknown-profile", message, fix::profile(policy, &entry.value)))
        }
        Capability::Exec
        | Capability::Transfer
        | Capability::Facts
        | Capability::Gpu
        | Capability::Http
        | Capability::Credentials
        | Capability::Policy => None,
    }
}
