use std::time::Duration;

use fettle_model::credential::CredentialType;

use crate::support::{Place, mint};

/// The example of AWS' own documentation of "Signature Version 4: using query parameters", with its keys and time.
#[tokio::test]
async fn an_address_is_signed_as_aws_says() {
    let place = Place::new();
    let provider = format!(
        "{{ type: s3_read, scope: 'examplebucket/*', lifetime: 10m, from: {{ presigned: {{ endpoint: 'https://s3.amazonaws.com', \
         region: us-east-1, access_key_id: AKIAIOSFODNN7EXAMPLE, secret_access_key: {} }} }} }}",
        place.seal("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
    );
    let desk = place.desk(&provider).unwrap();
    let minted = mint(&desk, CredentialType::S3Read, "examplebucket/weights/test.txt").await.unwrap();
    let url = minted.material["url"].as_str();
    assert!(
        url.starts_with("https://examplebucket.s3.amazonaws.com/weights/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256"),
        "{url}"
    );
    for part in [
        "X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20261122%2Fus-east-1%2Fs3%2Faws4_request",
        "X-Amz-Date=20261122T120000Z",
        "X-Amz-Expires=600",
        "X-Amz-SignedHeaders=host",
        "X-Amz-Signature=",
    ] {
        assert!(url.contains(part), "{part}: {url}");
    }
    assert!(!url.contains("wJalr") && minted.lifetime == Duration::from_mins(10));
}
