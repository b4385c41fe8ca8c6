//! Trust policies made from keys: the first one, and the one that takes another's place when a key is replaced.

use std::{collections::BTreeMap, num::NonZeroU64};

use super::{
    error::TrustPolicyError,
    policy::{Document, Requirement, TrustPolicy, Versions},
    rule::Rule,
};
use crate::{key::PublicKey, kind::ArtifactKind};

/// Keys of which so many must sign one kind of artifact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quorum {
    /// The keys, with their names for messages and audit.
    pub keys: Vec<(String, PublicKey)>,
    /// How many of them; one when absent.
    pub threshold: Option<usize>,
    /// Nothing older than what a machine has accepted counts.
    pub never_older: bool,
}

/// A policy in which one key has taken another's place, or is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// One revision further.
    pub policy: TrustPolicy,
    /// The kinds that name another key than before.
    pub kinds: Vec<ArtifactKind>,
}

impl From<Quorum> for Requirement {
    fn from(quorum: Quorum) -> Self {
        let rule = |(name, key)| Rule::PublicKey { name, key, annotations: None };
        let versions = quorum.never_older.then_some(Versions { minimum: None, never_older: true });
        Self {
            all_of: None,
            any_of: Some(quorum.keys.into_iter().map(rule).collect()),
            minimum_matches: quorum.threshold,
            versions,
        }
    }
}

impl TrustPolicy {
    /// The first policy of an installation: revision 1. A kind that is absent is trusted from nobody.
    ///
    /// # Errors
    /// When a kind has no key, one twice, or a threshold that its keys cannot reach.
    pub fn first(kinds: BTreeMap<ArtifactKind, Quorum>) -> Result<Self, TrustPolicyError> {
        let mut document = Document { revision: Some(NonZeroU64::MIN), ..Document::default() };
        for (kind, quorum) in kinds {
            *document.requirement_mut(kind) = Some(quorum.into());
        }
        Self::checked(document)
    }

    /// The policy that takes this one's place when a key is replaced by another, or taken away, wherever it is named.
    /// What else the rules say stays.
    ///
    /// # Errors
    /// When what is left cannot be met any more: without its only key, or below its threshold.
    pub fn with_key_replaced(
        &self,
        old: &PublicKey,
        new: Option<&(String, PublicKey)>,
    ) -> Result<Replaced, TrustPolicyError> {
        let mut document = self.document().clone();
        let mut kinds = Vec::new();
        for kind in ArtifactKind::ALL {
            let Some(requirement) = document.requirement_mut(kind) else { continue };
            let lists = [&mut requirement.all_of, &mut requirement.any_of];
            let mut named = 0;
            for rules in lists.into_iter().flatten() {
                named += replace(rules, old, new);
            }
            if named > 0 {
                kinds.push(kind);
            }
        }
        document.revision = NonZeroU64::new(self.revision().saturating_add(1));
        Ok(Replaced { policy: Self::checked(document)?, kinds })
    }
}

/// How many rules named the key.
fn replace(rules: &mut Vec<Rule>, old: &PublicKey, new: Option<&(String, PublicKey)>) -> usize {
    let before = rules.iter().filter(|rule| rule.key() == Some(old)).count();
    match new {
        None => rules.retain(|rule| rule.key() != Some(old)),
        Some((new_name, new_key)) => {
            for rule in rules {
                if let Rule::PublicKey { name, key, .. } = rule
                    && key == old
                {
                    (*name, *key) = (new_name.clone(), new_key.clone());
                }
            }
        }
    }
    before
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::SigningKey;

    fn key(name: &str) -> (String, PublicKey) {
        (name.to_owned(), SigningKey::generate().unwrap().public().clone())
    }

    fn quorum(keys: &[&(String, PublicKey)], threshold: Option<usize>) -> Quorum {
        Quorum { keys: keys.iter().map(|key| (*key).clone()).collect(), threshold, never_older: false }
    }

    #[test]
    fn the_first_policy_says_who_signs_what_and_is_read_back() {
        let (root_1, root_2, team) = (key("root-1"), key("root-2"), key("team"));
        let kinds = [
            (ArtifactKind::TrustPolicy, quorum(&[&root_1, &root_2], Some(2))),
            (ArtifactKind::Step, Quorum { never_older: true, ..quorum(&[&team], None) }),
        ];
        let policy = TrustPolicy::first(kinds.into()).unwrap();
        assert_eq!(policy.revision(), 1);
        let words = policy.in_words();
        assert_eq!(words.keys().copied().collect::<Vec<_>>(), ["step", "trust_policy"]);
        assert!(words["trust_policy"].starts_with("2 of `root-1`"), "{words:?}");
        assert!(words["step"].ends_with("never older than what was seen"), "{words:?}");
        let text = serde_json::to_string(&policy).unwrap();
        assert_eq!(TrustPolicy::read(&text).unwrap(), policy);
        let too_many = [(ArtifactKind::Step, quorum(&[&team], Some(2)))];
        assert!(TrustPolicy::first(too_many.into()).is_err(), "nobody can meet it");
        assert!(TrustPolicy::first([(ArtifactKind::Step, Quorum::default())].into()).is_err(), "nobody could sign");
    }

    #[test]
    fn a_key_is_replaced_wherever_it_is_named_and_everything_else_stays() {
        let (root_1, root_2, team, newer) = (key("root-1"), key("root-2"), key("team"), key("newer"));
        let kinds = [
            (ArtifactKind::TrustPolicy, quorum(&[&root_1, &root_2], Some(2))),
            (ArtifactKind::Step, Quorum { never_older: true, ..quorum(&[&team, &root_1], None) }),
            (ArtifactKind::Catalog, quorum(&[&team], None)),
        ];
        let policy = TrustPolicy::first(kinds.into()).unwrap();
        let Replaced { policy: next, kinds: changed } = policy.with_key_replaced(&team.1, Some(&newer)).unwrap();
        assert_eq!((next.revision(), changed), (2, vec![ArtifactKind::Step, ArtifactKind::Catalog]));
        let expected = [
            (ArtifactKind::TrustPolicy, quorum(&[&root_1, &root_2], Some(2))),
            (ArtifactKind::Step, Quorum { never_older: true, ..quorum(&[&newer, &root_1], None) }),
            (ArtifactKind::Catalog, quorum(&[&newer], None)),
        ];
        assert_eq!(next.in_words(), TrustPolicy::first(expected.into()).unwrap().in_words());
        // Back again, it is what it was but for its revision.
        let back = next.with_key_replaced(&newer.1, Some(&team)).unwrap();
        assert_eq!((back.policy.in_words(), back.policy.revision()), (policy.in_words(), 3));
        let unknown = policy.with_key_replaced(&key("nobody").1, Some(&newer)).unwrap();
        assert_eq!(unknown.kinds, []);
    }

    #[test]
    fn a_key_is_taken_away_only_where_others_can_still_sign() {
        let (one, two, three) = (key("one"), key("two"), key("three"));
        let policy = TrustPolicy::first([(ArtifactKind::Step, quorum(&[&one, &two, &three], Some(2)))].into()).unwrap();
        let fewer = policy.with_key_replaced(&one.1, None).unwrap();
        assert!(fewer.policy.in_words()["step"].starts_with("2 of `two`"), "{:?}", fewer.policy.in_words());
        assert!(fewer.policy.with_key_replaced(&two.1, None).is_err(), "two of one");
        let alone = TrustPolicy::first([(ArtifactKind::Step, quorum(&[&one], None))].into()).unwrap();
        assert!(alone.with_key_replaced(&one.1, None).is_err(), "nobody of nobody");
        // The same key under two names would count twice.
        assert!(policy.with_key_replaced(&one.1, Some(&("again".to_owned(), two.1))).is_err());
    }
}
