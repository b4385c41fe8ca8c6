use fettle_step::{
    FailureClass,
    fake::{Node, Trial, converges},
    policy::{ActivePolicies, Error, Refusal},
};
use serde_json::json;

const ONE: &str =
    "registry.internal:5000/policy@sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";

fn active(revision: u64) -> ActivePolicies {
    ActivePolicies { activation: ONE.to_owned(), revision, bundles: vec!["sha256:aa".to_owned()] }
}

#[test]
fn what_counts_from_then_on_comes_out() {
    let node = Node::new();
    node.put_activation(ONE, Ok(active(7)));
    let output = Trial::new(super::step()).run(&json!({ "activation": ONE })).unwrap();
    assert_eq!(output, json!({ "activation": ONE, "revision": 7, "bundles": ["sha256:aa"] }));
    assert_eq!(node.calls(), [format!("policy.activate {ONE}")]);
}

#[test]
fn it_converges() {
    let node = Node::new();
    node.put_activation(ONE, Ok(active(7)));
    converges(&Trial::new(super::step()), &json!({ "activation": ONE }));
}

#[test]
fn the_nodes_refusal_keeps_its_code_and_its_words() {
    let refused = Refusal { code: "policy.older-activation".to_owned(), reason: "revision 8 is active".to_owned() };
    for (answer, class, code, words) in [
        (Error::Refused(refused), FailureClass::Denied, "policy.older-activation", "revision 8 is active"),
        (Error::AccessDenied, FailureClass::Denied, "policy.access-denied", "policy: { activate: true }"),
        (
            Error::InvalidRequest("no digest".to_owned()),
            FailureClass::InvalidInput,
            "policy.invalid-request",
            "no digest",
        ),
        (Error::Unavailable("away".to_owned()), FailureClass::Transient, "policy.unavailable", "away"),
        (Error::Failed("broken".to_owned()), FailureClass::Permanent, "policy.failed", "broken"),
    ] {
        let node = Node::new();
        node.put_activation(ONE, Err(answer));
        let failure = Trial::new(super::step()).run(&json!({ "activation": ONE })).unwrap_err();
        assert_eq!((failure.class, failure.code.as_str()), (class, code), "{failure}");
        assert!(failure.message.contains(words), "{failure}");
    }
}
