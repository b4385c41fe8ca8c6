use std::time::Duration;

use fettle_credentials::ProviderError;
use fettle_model::credential::CredentialType;
use serde_json::{Value, json};

use crate::support::{DIGEST, Place, Service, mint};

fn token_service(place: &Place, service: &Service) -> String {
    format!(
        "{{ type: oci_pull, scope: 'r:1/*', from: {{ token_service: {{ realm: 'http://{}/token', service: registry, \
         username: fettle, password: {} }} }} }}",
        service.address,
        place.seal("hunter2")
    )
}

fn issuer(place: &Place, service: &Service) -> String {
    format!(
        "{{ type: cluster_join_token, scope: training, lifetime: 90s, from: {{ issuer: {{ url: 'http://{}/join', token: {} }} }} }}",
        service.address,
        place.seal("s3cret")
    )
}

#[tokio::test]
async fn a_token_service_is_asked_for_one_repository_and_no_more() {
    let place = Place::new();
    for (answer, lifetime) in [
        (json!({"token": "abc", "expires_in": 120}), 120),
        (json!({"access_token": "abc", "issued_at": "2026-11-22T12:00:00Z"}), 60),
        (json!({"token": "abc", "expires_in": 100_000}), 3600),
    ] {
        let service = Service::answering(200, answer.to_string()).await;
        let desk = place.desk(&token_service(&place, &service)).unwrap();
        let scope = format!("r:1/models/a@{DIGEST}");
        let minted = mint(&desk, CredentialType::OciPull, &scope).await.unwrap();
        assert_eq!((minted.material["token"].as_str(), minted.lifetime), ("abc", Duration::from_secs(lifetime)));
        let asked = service.last();
        assert_eq!(asked.line, "GET /token?service=registry&scope=repository%3Amodels%2Fa%3Apull&client_id=fettle");
        assert_eq!(asked.authorization, "Basic ZmV0dGxlOmh1bnRlcjI=");
    }
}

#[tokio::test]
async fn an_issuer_is_told_for_whom_it_makes_a_credential() {
    let place = Place::new();
    let answer = json!({"material": {"token": "join-me"}, "expires_in_seconds": 30}).to_string();
    let service = Service::answering(200, answer).await;
    let desk = place.desk(&issuer(&place, &service)).unwrap();
    let minted = mint(&desk, CredentialType::ClusterJoinToken, "training").await.unwrap();
    assert_eq!((minted.material["token"].as_str(), minted.lifetime), ("join-me", Duration::from_secs(30)));
    let asked = service.last();
    assert_eq!((asked.line.as_str(), asked.authorization.as_str()), ("POST /join", "Bearer s3cret"));
    let told: Value = serde_json::from_str(&asked.body).unwrap();
    assert_eq!(
        told,
        json!({
            "credential_type": "cluster_join_token", "scope": "training", "lifetime_seconds": 90, "node_id": "node-1",
            "task_id": "task-1", "operation_id": "operation-1", "step_id": "token",
        })
    );
}

#[tokio::test]
async fn a_service_that_gives_none_says_so_without_secrets() {
    let place = Place::new();
    let secret = json!({"material": {"password": "l3ak"}, "expires_in_seconds": 30}).to_string();
    for (status, body, kind) in [
        (401, "l3ak".to_owned(), "refuses"),
        (302, String::new(), "refuses"),
        (429, "l3ak".to_owned(), "cannot be asked now"),
        (503, String::new(), "cannot be asked now"),
        (200, "l3ak".to_owned(), "something else"),
        (200, secret, "consists of token"),
        (200, json!({"material": {}, "expires_in_seconds": 30}).to_string(), "consists of token"),
        (200, "x".repeat(70_000), "larger than 65536 bytes"),
    ] {
        let service = Service::answering(status, body).await;
        let desk = place.desk(&issuer(&place, &service)).unwrap();
        let error = mint(&desk, CredentialType::ClusterJoinToken, "training").await.err().unwrap().to_string();
        assert!(error.contains(kind) && error.contains("/join"), "{status}: {error}");
        assert!(!error.contains("l3ak") && !error.contains("s3cret"), "{error}");
    }
    let service = Service::answering(200, json!({"token": ""}).to_string()).await;
    let desk = place.desk(&token_service(&place, &service)).unwrap();
    let scope = format!("r:1/models/a@{DIGEST}");
    let error = mint(&desk, CredentialType::OciPull, &scope).await.err().unwrap();
    assert!(matches!(error, ProviderError::Malformed { .. }), "{error}");
    let other = mint(&desk, CredentialType::S3Read, "bucket/a").await.err().unwrap();
    assert!(matches!(&other, ProviderError::None(named) if named == "s3_read bucket/a"), "{other}");
}

#[tokio::test]
async fn a_service_that_is_away_is_asked_again_later() {
    let place = Place::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let provider = format!(
        "{{ type: hf_token, scope: 'meta/*', from: {{ issuer: {{ url: 'http://{address}/', token: {} }} }} }}",
        place.seal("s3cret")
    );
    let desk = place.desk(&provider).unwrap();
    let error = mint(&desk, CredentialType::HfToken, "meta/llama").await.err().unwrap();
    assert!(matches!(error, ProviderError::Unavailable { .. }), "{error}");
}

#[tokio::test]
async fn a_fixed_secret_is_given_for_a_while() {
    let place = Place::new();
    let provider = format!(
        "{{ type: hf_token, scope: 'meta/*', lifetime: 2m, from: {{ fixed: {{ token: {} }} }} }}",
        place.seal("hf_abc")
    );
    let desk = place.desk(&provider).unwrap();
    let minted = mint(&desk, CredentialType::HfToken, "meta/llama").await.unwrap();
    assert_eq!((minted.material["token"].as_str(), minted.lifetime), ("hf_abc", Duration::from_secs(120)));
}
