use std::error::Error as _;

use fettle_credentials::{Desk, DeskError};

use crate::support::Place;

fn sentence(error: &DeskError) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}

#[test]
fn what_would_not_work_or_not_be_safe_is_refused_with_the_fix() {
    let place = Place::new();
    let sealed = place.seal("x");
    let fixed = |entry: &str| format!("{{ {entry}, from: {{ fixed: {{ token: {sealed} }} }} }}");
    let service = |url: &str| {
        format!("{{ type: hf_token, scope: 'a/*', from: {{ issuer: {{ url: '{url}', token: {sealed} }} }} }}")
    };
    for (provider, expected) in [
        (fixed("type: hf_token, scope: 'a/*', lifetime: 2h"), "at most 1h"),
        (fixed("type: oci_pull, scope: 'r:1/*'"), "gives no `oci_pull`"),
        (fixed("type: ssh_key, scope: a"), "ssh_key"),
        (fixed("type: hf_token, scope: 'a/*', colour: red"), "colour"),
        (
            "{ type: hf_token, scope: 'a/*', from: { fixed: { token: hunter2 } } }".to_owned(),
            "`token`: it is not sealed",
        ),
        (service("http://issuer.example/"), "not reached by https"),
        (service("https://user:pw@issuer.example/"), "write the address alone"),
        (service("https://issuer.example/?a=b"), "write the address alone"),
        (
            format!(
                "{{ type: oci_pull, scope: 'r:1/*', from: {{ registry_key: {{ issuer: a, service: b, certificate_file: none.pem, key: {sealed} }} }} }}"
            ),
            "cannot read",
        ),
        (
            format!(
                "{{ type: s3_read, scope: 'b/*', from: {{ presigned: {{ endpoint: 'http://s3.example', region: a, access_key_id: a, secret_access_key: {sealed} }} }} }}"
            ),
            "not reached by https",
        ),
    ] {
        let refused = place.desk(&provider).err().map(|error| sentence(&error)).unwrap_or_default();
        assert!(refused.contains(expected), "{provider}: {refused}");
        assert!(!refused.contains("hunter2"), "{refused}");
    }
    assert!(place.desk(&fixed("type: hf_token, scope: 'a/*'")).is_ok());
}

#[test]
fn the_key_is_needed_and_must_be_the_right_one() {
    let (place, other) = (Place::new(), Place::new());
    let provider = format!("{{ type: hf_token, scope: 'a/*', from: {{ fixed: {{ token: {} }} }} }}", other.seal("x"));
    let refused = sentence(&place.desk(&provider).err().unwrap());
    assert!(refused.contains("provider 1, of `hf_token a/*`") && refused.contains("another key"), "{refused}");
    let document = place.directory.path().join("credentials.yaml");
    assert!(matches!(Desk::load(&document, None), Err(DeskError::NoKey(_))));
    assert!(matches!(Desk::load(&place.directory.path().join("none"), None), Err(DeskError::File { .. })));
}
