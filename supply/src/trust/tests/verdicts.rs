//! Signatures that were believed or rejected, to a verdict: every combination.

use serde_json::{Value, json};

use super::{ISSUER, by_key, by_workflow, key, key_rule, keyless_rule, read, reference, saying, signed, workflow_rule};
use crate::{
    error::{SupplyError, Verdict},
    key::PublicKey,
    kind::ArtifactKind,
    signature::{Rejection, Signed, Signer},
    trust::{Seen, TrustPolicy, evaluate::Accepted},
};

fn judge(policy: &TrustPolicy, results: &[Result<Signed, Rejection>]) -> Result<Accepted, SupplyError> {
    policy.evaluate(ArtifactKind::Step, &reference("this"), results, &Seen::new())
}

fn verdict(policy: &TrustPolicy, results: &[Result<Signed, Rejection>]) -> Result<(), Verdict> {
    judge(policy, results).map(|_| ()).map_err(|error| error.verdict().unwrap())
}

fn step(requirement: &Value) -> TrustPolicy {
    read(&json!({ "step": requirement })).unwrap()
}

/// Every way in which a signature can be worth nothing, and one that is worth something.
fn signatures(trusted: &PublicKey) -> Vec<(&'static str, Result<Signed, Rejection>)> {
    let signer = Box::new(Signer::Key(trusted.id()));
    vec![
        ("trusted", Ok(by_key(trusted))),
        ("stranger", Ok(by_workflow("https://github.com/other/steps", "refs/tags/v1"))),
        ("other signer", Err(Rejection::OtherSigner(String::new()))),
        ("other subject", Err(Rejection::OtherSubject { signer, signed: reference("that").digest.to_string() })),
        ("unreadable", Err(Rejection::Unreadable("it is noise".to_owned()))),
        ("no root", Err(Rejection::NoTrustedRoot)),
        ("unproven", Err(Rejection::Unproven("its certificate expired".to_owned()))),
    ]
}

#[test]
fn every_combination_of_signatures_has_exactly_its_verdict() {
    let trusted = key();
    let policy = step(&json!({ "anyOf": [key_rule("team", &trusted)] }));
    let all = signatures(&trusted);
    assert_eq!(verdict(&policy, &[]), Err(Verdict::Unsigned));
    let mut checked = 0;
    for length in 1..=3_u32 {
        for number in 0..all.len().pow(length) {
            let digits = (0..length).map(|place| (number / all.len().pow(place)) % all.len());
            let (names, results): (Vec<&str>, Vec<_>) = digits.map(|digit| all[digit].clone()).unzip();
            let expected = if names.contains(&"trusted") {
                Ok(())
            } else if names.iter().all(|name| *name == "unreadable") {
                Err(Verdict::Malformed)
            } else {
                Err(Verdict::Untrusted)
            };
            let result = judge(&policy, &results);
            assert_eq!(result.as_ref().map(|_| ()).map_err(|error| error.verdict().unwrap()), expected, "{names:?}");
            let chain = result.as_ref().map_or_else(|error| error.chain().unwrap(), |accepted| &accepted.chain);
            assert_eq!(chain.findings.len(), names.len(), "{names:?}");
            let counted = chain.findings.iter().filter(|finding| finding.counted_for.is_some()).count();
            assert_eq!(counted, usize::from(expected.is_ok()), "{names:?}: {chain:?}");
            assert!(chain.findings.iter().all(|finding| finding.counted_for.is_some() != finding.reason.is_some()));
            checked += 1;
        }
    }
    assert_eq!(checked, 7 + 49 + 343);
}

#[test]
fn every_combination_of_lists_and_signers_is_decided_as_it_reads() {
    let keys: Vec<PublicKey> = (0..4).map(|_| key()).collect();
    let rules = |which: &[usize]| which.iter().map(|one| key_rule(&one.to_string(), &keys[*one])).collect::<Vec<_>>();
    for (all_of, any_of, minimum) in [
        (vec![0], vec![], 0),
        (vec![0, 1], vec![], 0),
        (vec![], vec![0], 1),
        (vec![], vec![0, 1, 2], 1),
        (vec![], vec![0, 1, 2], 2),
        (vec![], vec![0, 1, 2], 3),
        (vec![0], vec![1, 2], 1),
        (vec![0, 3], vec![1, 2], 2),
    ] {
        let mut requirement = json!({});
        if !all_of.is_empty() {
            requirement["allOf"] = json!(rules(&all_of));
        }
        if !any_of.is_empty() {
            requirement["anyOf"] = json!(rules(&any_of));
            requirement["minimumMatches"] = json!(minimum);
        }
        let policy = step(&requirement);
        for who in 1..16_usize {
            let has = |one: &usize| who & (1 << one) != 0;
            // Everybody signs twice: a second signature of the same signer changes nothing.
            let results: Vec<_> = (0..4).chain(0..4).filter(has).map(|one| Ok(by_key(&keys[one]))).collect();
            let suffices = all_of.iter().all(has) && any_of.iter().filter(|one| has(one)).count() >= minimum;
            let expected = if suffices { Ok(()) } else { Err(Verdict::Untrusted) };
            assert_eq!(verdict(&policy, &results), expected, "{requirement} by {who:04b}");
        }
    }
}

#[test]
fn one_signer_that_meets_two_rules_counts_once() {
    let prefix = json!({ "urlPrefix": "https://github.com/acme/" });
    let both = json!([workflow_rule("ci"), keyless_rule("org", &prefix)]);
    let of_acme = || Ok(by_workflow("https://github.com/acme/steps", "refs/tags/v1"));
    for requirement in [json!({ "anyOf": both, "minimumMatches": 2 }), json!({ "allOf": both })] {
        let policy = step(&requirement);
        assert_eq!(verdict(&policy, &[of_acme(), of_acme()]), Err(Verdict::Untrusted));
        let other = Ok(by_workflow("https://github.com/acme/other", "refs/heads/x"));
        assert_eq!(verdict(&policy, &[other, of_acme()]), Ok(()), "two signers, each for the rule it can meet");
    }
    let mixed = step(&json!({ "allOf": [workflow_rule("ci")], "anyOf": [keyless_rule("org", &prefix)] }));
    assert_eq!(verdict(&mixed, &[of_acme()]), Err(Verdict::Untrusted));
}

#[test]
fn a_rule_is_met_by_one_signature_as_a_whole() {
    let (a, b) = (key(), key());
    let wants = |name: &str, key: &PublicKey, channel: &str| {
        let mut rule = key_rule(name, key);
        rule["annotations"] = json!({ "channel": channel, "reviewed": "yes" });
        rule
    };
    let policy = step(&json!({ "anyOf": [wants("a", &a, "stable"), wants("b", &b, "beta")] }));
    let say =
        |key, channel: &str, reviewed: &str| Ok(saying(by_key(key), &[("channel", channel), ("reviewed", reviewed)]));
    assert_eq!(verdict(&policy, &[say(&a, "stable", "yes")]), Ok(()));
    for results in [
        vec![Ok(by_key(&a))],
        vec![say(&a, "stable", "no")],
        vec![say(&a, "beta", "yes")],
        vec![say(&a, "beta", "yes"), say(&b, "stable", "yes")],
        // The same signer, and still two signatures.
        vec![say(&a, "stable", "no"), say(&a, "beta", "yes")],
    ] {
        assert_eq!(verdict(&policy, &results), Err(Verdict::Untrusted), "{results:?}");
    }
    let error = judge(&policy, &[say(&a, "stable", "no")]).unwrap_err().to_string();
    assert!(error.contains("it says `reviewed=no`, and the rule wants `reviewed=yes`"), "{error}");
}

#[test]
fn an_identity_is_its_issuer_and_its_subject() {
    let policy = step(&json!({ "anyOf": [
        keyless_rule("exact", &json!({ "equals": "team@example.com" })), workflow_rule("ci"),
    ] }));
    let person = |issuer: &str, subject: &str| {
        signed(Signer::Identity { issuer: issuer.to_owned(), subject: subject.to_owned(), workflow: None })
    };
    for (who, expected) in [
        (person(ISSUER, "team@example.com"), Ok(())),
        (person("https://accounts.example.com", "team@example.com"), Err(Verdict::Untrusted)),
        (person(ISSUER, "team@example.com.evil.example"), Err(Verdict::Untrusted)),
        // A subject that looks like the workflow's, without a workflow in the certificate.
        (person(ISSUER, "https://github.com/acme/steps/.github/workflows/a.yml@refs/tags/v1"), Err(Verdict::Untrusted)),
        (by_workflow("https://github.com/acme/steps", "refs/tags/v1"), Ok(())),
        (by_workflow("https://github.com/acme/steps", "refs/heads/main"), Err(Verdict::Untrusted)),
        (by_workflow("https://github.com/acme/steps-evil", "refs/tags/v1"), Err(Verdict::Untrusted)),
        (by_workflow("https://github.com/acme-evil/steps", "refs/tags/v1"), Err(Verdict::Untrusted)),
    ] {
        assert_eq!(verdict(&policy, &[Ok(who.clone())]), expected, "{who:?}");
    }
}

#[test]
fn a_denied_digest_is_refused_whoever_signed_it() {
    let trusted = key();
    let deny = |content: &str| json!([{ "digest": reference(content).digest, "reason": "it leaks memory" }]);
    let policy = |deny: Value| read(&json!({ "step": { "anyOf": [key_rule("a", &trusted)] }, "deny": deny })).unwrap();
    assert_eq!(verdict(&policy(deny("that")), &[Ok(by_key(&trusted))]), Ok(()));
    let error = judge(&policy(deny("this")), &[Ok(by_key(&trusted))]).unwrap_err();
    assert_eq!(error.verdict(), Some(Verdict::Untrusted));
    assert!(error.to_string().contains("denies (it leaks memory); use another version"), "{error}");
}

#[test]
fn trust_in_one_kind_is_not_trust_in_another() {
    let trusted = key();
    let policy = read(&json!({ "definition": { "anyOf": [key_rule("a", &trusted)] } })).unwrap();
    let this = reference("this");
    for kind in ArtifactKind::ALL {
        let result = policy.evaluate(kind, &this, &[Ok(by_key(&trusted))], &Seen::new());
        if kind == ArtifactKind::Definition {
            assert_eq!(result.unwrap().signers, [Signer::Key(trusted.id())]);
        } else {
            let (error, name) = (result.unwrap_err(), kind.name());
            assert_eq!(
                error.to_string(),
                format!(
                    "UNTRUSTED: {this} is of the kind `{name}`, for which the trust policy names nobody; add a rule \
                     under `{name}`"
                )
            );
        }
    }
}

#[test]
fn a_refusal_tells_of_every_signature_and_what_is_wanted() {
    let (trusted, other) = (key(), key());
    let policy = step(&json!({ "anyOf": [key_rule("one", &trusted), key_rule("two", &other)], "minimumMatches": 2 }));
    let mut results: Vec<_> = signatures(&trusted).into_iter().map(|(_, result)| result).collect();
    results.push(Ok(by_key(&trusted)));
    let error = judge(&policy, &results).unwrap_err();
    let text = error.to_string();
    for part in [
        format!("UNTRUSTED: {}", reference("this")),
        format!("2 of `one` (the key {}), `two` (the key {})", trusted.id(), other.id()),
        format!("signature 1 by the key {} counts for `one`", trusted.id()),
        "no rule for `step` names this signer".to_owned(),
        "signature 3: a signature is by none of the trusted keys".to_owned(),
        format!("it is about {}, not about this artifact", reference("that").digest),
        "signature 5: a signature cannot be read (it is noise)".to_owned(),
        "no trusted root is configured".to_owned(),
        "its certificate expired".to_owned(),
        "signature 8 by".to_owned(),
        "this signer counts already, and each counts once".to_owned(),
    ] {
        assert!(text.contains(&part), "{text}\nlacks {part}");
    }
    assert_eq!(serde_json::to_value(error.chain().unwrap()).unwrap()["findings"][0]["counted_for"], "one");
}
