//! Which signer counts for which rule: each at most once.

/// Gives rules to signers, one each, as many as possible; an earlier rule never loses its signer to a
/// later one. `candidates` are, per rule, the signers that meet it. Returns each rule's signer.
///
/// Without this, one signer that meets two rules would count as two, and rules served first come first
/// could take the only signer of another.
pub(super) fn assign(candidates: &[Vec<usize>]) -> Vec<Option<usize>> {
    let signers = candidates.iter().flatten().max().map_or(0, |last| last + 1);
    let mut rule_of = vec![None; signers];
    for rule in 0..candidates.len() {
        place(rule, candidates, &mut vec![false; signers], &mut rule_of);
    }
    let mut signer_of = vec![None; candidates.len()];
    for (signer, rule) in rule_of.into_iter().enumerate() {
        if let Some(place) = rule.and_then(|rule: usize| signer_of.get_mut(rule)) {
            *place = Some(signer);
        }
    }
    signer_of
}

/// Finds a signer for a rule, moving other rules to other signers where that helps.
fn place(rule: usize, candidates: &[Vec<usize>], tried: &mut [bool], rule_of: &mut [Option<usize>]) -> bool {
    for &signer in candidates.get(rule).map(Vec::as_slice).unwrap_or_default() {
        if std::mem::replace(&mut tried[signer], true) {
            continue;
        }
        let free = match rule_of[signer] {
            None => true,
            Some(other) => place(other, candidates, tried, rule_of),
        };
        if free {
            rule_of[signer] = Some(rule);
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::assign;

    #[test]
    fn a_signer_of_two_rules_counts_once_and_takes_no_other_rules_place() {
        assert_eq!(assign(&[vec![0], vec![0]]), [Some(0), None]);
        assert_eq!(assign(&[vec![0, 1], vec![0]]), [Some(1), Some(0)]);
        assert_eq!(assign(&[vec![0, 1], vec![0, 2], vec![0]]).iter().flatten().count(), 3);
        assert_eq!(assign(&[vec![], vec![3]]), [None, Some(3)]);
        assert_eq!(assign(&[]), Vec::<Option<usize>>::new());
    }

    /// The largest number of rules that can have signers of their own, by trying everything.
    fn most(candidates: &[Vec<usize>], used: &mut Vec<usize>) -> usize {
        let Some((first, rest)) = candidates.split_first() else { return 0 };
        let mut best = most(rest, used);
        for &signer in first {
            if !used.contains(&signer) {
                used.push(signer);
                best = best.max(1 + most(rest, used));
                used.pop();
            }
        }
        best
    }

    proptest! {
        #[test]
        fn as_many_rules_as_possible_are_met(candidates in prop::collection::vec(prop::collection::vec(0_usize..5, 0..4), 0..6)) {
            let assigned = assign(&candidates);
            let mut signers: Vec<usize> = assigned.iter().flatten().copied().collect();
            prop_assert_eq!(signers.len(), most(&candidates, &mut Vec::new()));
            for (rule, signer) in assigned.iter().enumerate() {
                prop_assert!(signer.is_none_or(|signer| candidates[rule].contains(&signer)));
            }
            signers.sort_unstable();
            signers.dedup();
            prop_assert_eq!(signers.len(), assigned.iter().flatten().count());
        }
    }
}
