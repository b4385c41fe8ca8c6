use fettle_step::{
    FailureClass,
    credentials::Error,
    fake::{Node, Trial},
};
use serde_json::json;

const TYPES: [&str; 5] = ["oci_pull", "s3_read", "gcs_read", "hf_token", "cluster_join_token"];

#[test]
fn the_handle_is_all_that_comes_out() {
    let node = Node::new();
    for credential_type in TYPES {
        node.put_credential(credential_type, "what/it-opens", Ok(format!("handle-of-{credential_type}")));
        let output =
            Trial::new(super::step()).run(&json!({"credential_type": credential_type, "scope": "what/it-opens"}));
        let expected =
            json!({"credential": format!("handle-of-{credential_type}"), "credential_type": credential_type});
        assert_eq!(output, Ok(expected));
    }
    assert_eq!(node.calls().len(), TYPES.len());
}

#[test]
fn every_refusal_is_explained() {
    for (answer, class, code) in [
        (Err(Error::AccessDenied), FailureClass::Denied, "credentials.access-denied"),
        (Err(Error::InvalidRequest("rule".to_owned())), FailureClass::InvalidInput, "credentials.invalid-request"),
        (Err(Error::Unavailable("away".to_owned())), FailureClass::Transient, "credentials.unavailable"),
        (Err(Error::Failed("broken".to_owned())), FailureClass::Permanent, "credentials.failed"),
    ] {
        let node = Node::new();
        node.put_credential("s3_read", "bucket/a", answer);
        let failure =
            Trial::new(super::step()).run(&json!({"credential_type": "s3_read", "scope": "bucket/a"})).unwrap_err();
        assert_eq!((failure.class, failure.code.as_str()), (class, code), "{failure}");
        assert!(failure.message.contains("bucket/a"), "{failure}");
    }
    let failure = Trial::new(super::step()).run(&json!({"credential_type": "ssh_key", "scope": "a"})).unwrap_err();
    assert_eq!(failure.class, FailureClass::InvalidInput);
}
