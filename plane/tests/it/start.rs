//! Starting and stopping.

use fettle_plane::{
    Plane, PlaneConfig, StartError,
    administration::{Access, Administration},
};
use reqwest::StatusCode;

use crate::support::{plane, within};

#[tokio::test]
async fn nothing_listens_beyond_loopback_unless_told_to() {
    let directory = tempfile::tempdir().unwrap();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"] {
        let config = PlaneConfig { listen: address.parse().unwrap(), ..PlaneConfig::new(directory.path()) };
        let error = Plane::start(config).await.err().unwrap();
        assert!(matches!(error, StartError::Remote(_)), "{error}");
        assert!(error.to_string().contains("--allow-remote"));
    }
    let listen = "0.0.0.0:0".parse().unwrap();
    let told = PlaneConfig { listen, allow_remote: true, ..PlaneConfig::new(directory.path()) };
    Plane::start(told).await.unwrap().shutdown().await;
}

#[tokio::test]
async fn one_plane_per_data_directory() {
    let plane = plane().await;
    let error = Plane::start(PlaneConfig::new(plane.directory.path())).await.err().unwrap();
    assert!(matches!(error, StartError::Locked(_)), "{error}");
}

#[tokio::test]
async fn the_data_directory_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let plane = plane().await;
    let mode = std::fs::metadata(plane.directory.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[tokio::test]
async fn a_plane_without_a_trust_policy_registers_nothing_and_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let plane = Plane::start(PlaneConfig::new(directory.path())).await.unwrap();
    let administration = Administration::open(directory.path()).await.unwrap();
    let (_, admin) = administration.create_token("admin", Access::PlatformAdmin, None).await.unwrap();
    administration.close().await;
    let reference = format!("localhost:5000/x@{}", fettle_model::digest::Digest::of(b"x"));
    let body = serde_json::json!({ "definition": reference, "catalog": reference, "policy": reference });
    let url = format!("http://{}/api/v1/admin/operation-definitions", plane.http_address());
    let answer = reqwest::Client::new().post(url).bearer_auth(admin.reveal()).json(&body).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::UNPROCESSABLE_ENTITY);
    assert!(answer.text().await.unwrap().contains("--trust"));
    plane.shutdown().await;
}

#[tokio::test]
async fn a_bad_trust_policy_is_refused_at_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let trust = directory.path().join("trust.yaml");
    for text in ["", "step: {anyOf: []}", "steps: 1", "{"] {
        std::fs::write(&trust, text).unwrap();
        let config =
            PlaneConfig { trust_policy: Some(trust.clone()), ..PlaneConfig::new(directory.path().join("data")) };
        assert!(matches!(Plane::start(config).await.err(), Some(StartError::Trust { .. })), "{text}");
    }
}

#[tokio::test]
async fn health_and_readiness_are_answered_and_a_stopped_plane_answers_nothing() {
    let plane = plane().await;
    for path in ["/healthz", "/readyz"] {
        assert_eq!(plane.http.get(plane.url(path)).send().await.unwrap().status(), StatusCode::OK);
    }
    let url = plane.url("/healthz");
    within(plane.running.shutdown()).await;
    assert!(reqwest::Client::new().get(url).send().await.is_err());
}
