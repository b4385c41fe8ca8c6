//! Which policy bundles count on a node (seed 001, 9.6): what an administrator signs to say so, and the law by which a
//! node goes from one such word to the next. Nothing older comes back unless somebody signed that it does.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{
    digest::Digest,
    grant::{Grants, PolicyGrant},
    policy::PolicyBundle,
    reference::Reference,
    violation::{Violation, Violations},
};

/// Bundles that one activation names at most.
pub const MOST_BUNDLES: usize = 64;

/// From now on these policy bundles count on a node, and no other. Signed like all that administrators decide.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyActivation {
    /// Grows with every activation; a node that has obeyed one obeys no smaller one. From 1.
    pub revision: u64,
    /// The bundles that count, by their digests. 1 to 64.
    pub bundles: Vec<Reference>,
    /// Ids of the nodes that it is for; every node that trusts its signers when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<BTreeSet<String>>,
    /// Lets bundles count again that an earlier activation had replaced.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rolls_back: bool,
}

/// What counts on a node since an activation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActivePolicies {
    /// The activation that says so.
    pub activation: Reference,
    /// Its revision.
    pub revision: u64,
    /// Digests of the bundles that count.
    pub bundles: BTreeSet<Digest>,
    /// Digests of those that counted before, on this node.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub replaced: BTreeSet<Digest>,
}

/// Why a node does not obey an activation that is signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ActivationRefusal {
    /// It is for others.
    #[error("it is not for node `{node_id}`; it names {}", nodes.join(", "))]
    OtherNodes {
        /// Who was asked.
        node_id: String,
        /// Whom it names.
        nodes: Vec<String>,
    },
    /// It is no newer than the one that is obeyed.
    #[error(
        "it has revision {revision}, and revision {obeyed} is active; to go back, sign a newer one with `rolls_back: true`"
    )]
    Older {
        /// Its revision.
        revision: u64,
        /// The one that is obeyed.
        obeyed: u64,
    },
    /// It brings back what was replaced, and does not say so.
    #[error(
        "it brings back {bundle}, which an earlier one had replaced, and does not say that it rolls back; sign one with `rolls_back: true`, or leave that bundle out"
    )]
    RollsBack {
        /// The bundle.
        bundle: Digest,
    },
}

impl ActivationRefusal {
    /// The reason, for programs.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::OtherNodes { .. } => "policy.other-nodes",
            Self::Older { .. } => "policy.older-activation",
            Self::RollsBack { .. } => "policy.unsigned-roll-back",
        }
    }
}

impl PolicyActivation {
    /// Whether the document makes sense.
    ///
    /// # Errors
    /// Every broken rule, with its place.
    pub fn check(&self) -> Result<(), Violations> {
        let mut found = Vec::new();
        if self.revision == 0 {
            found.push(Violation::new("/revision", "revisions begin with 1"));
        }
        if self.bundles.is_empty() || self.bundles.len() > MOST_BUNDLES {
            let message = format!("name 1 to {MOST_BUNDLES} policy bundles; with none, nothing would run on a node");
            found.push(Violation::new("/bundles", message));
        }
        for (index, bundle) in self.bundles.iter().enumerate() {
            if self.bundles.iter().take(index).any(|earlier| earlier.digest == bundle.digest) {
                found.push(Violation::new(format!("/bundles/{index}"), "this bundle stands here twice"));
            }
        }
        if self.nodes.as_ref().is_some_and(BTreeSet::is_empty) {
            found.push(Violation::new("/nodes", "name a node, or leave the field out for all of them"));
        }
        Violations::check(found)
    }

    fn digests(&self) -> BTreeSet<Digest> {
        self.bundles.iter().map(|bundle| bundle.digest).collect()
    }
}

impl ActivePolicies {
    /// Whether this is what the document says.
    #[must_use]
    pub fn follows_from(&self, document: &PolicyActivation) -> bool {
        self.revision == document.revision && self.bundles == document.digests()
    }

    /// What counts on a node after it was told of an activation, which it has verified and which is sound.
    ///
    /// The one that is obeyed already changes nothing, however often it comes.
    ///
    /// # Errors
    /// When the node may not obey it; what counted before counts on.
    pub fn after(
        before: Option<&Self>,
        activation: &Reference,
        document: &PolicyActivation,
        node_id: &str,
    ) -> Result<Self, ActivationRefusal> {
        if let Some(nodes) = document.nodes.as_ref().filter(|nodes| !nodes.contains(node_id)) {
            return Err(ActivationRefusal::OtherNodes {
                node_id: node_id.to_owned(),
                nodes: nodes.iter().cloned().collect(),
            });
        }
        let bundles = document.digests();
        let mut replaced = BTreeSet::new();
        if let Some(before) = before {
            if before.activation.digest == activation.digest {
                return Ok(before.clone());
            }
            if document.revision <= before.revision {
                return Err(ActivationRefusal::Older { revision: document.revision, obeyed: before.revision });
            }
            if let Some(bundle) = bundles.intersection(&before.replaced).next().filter(|_| !document.rolls_back) {
                return Err(ActivationRefusal::RollsBack { bundle: *bundle });
            }
            replaced = before.replaced.union(&before.bundles).copied().collect();
            replaced.retain(|digest| !bundles.contains(digest));
        }
        Ok(Self { activation: activation.clone(), revision: document.revision, bundles, replaced })
    }
}

/// What a node allows under a bundle that does not count there, as it is compiled into every host: to be told which do.
/// Without it, a wrong activation could never be mended from the plane.
#[must_use]
pub fn recovery_bundle() -> PolicyBundle {
    let ceiling = Grants { policy: Some(PolicyGrant { activate: true }), ..Grants::default() };
    PolicyBundle { ceiling, ..PolicyBundle::default() }
}

#[cfg(test)]
mod tests;
