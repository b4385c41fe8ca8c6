//! Somebody on the network.

use std::{sync::Arc, time::Duration};

use fettle_identity::{
    Certificate, Key, Role, Roots,
    tls::{self, Own, PLANE_NAME},
};
use fettle_wire::node::{HeartbeatRequest, PullHello, PullRequest, pull_request};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, RootCertStore, version::TLS12},
};
use tonic::{Code, Status};

use crate::{
    Ground, PATIENCE, code, issued,
    member::{Client, Member, client},
    signed, strange_authority,
};

async fn beat(mut client: Client, node_id: &str) -> Result<(), Status> {
    client.heartbeat(HeartbeatRequest { node_id: node_id.to_owned(), clock_milliseconds: 0 }).await.map(drop)
}

/// Calls as who has this certificate.
fn with(ground: &Ground, (key, certificate): &(Key, Certificate)) -> Client {
    let own = Own { chain: vec![certificate.clone()], key };
    client(ground.plane.node_address(), tls::client(&ground.roots(), Some(&own)).unwrap())
}

#[tokio::test]
async fn who_has_no_certificate_can_only_join() {
    let ground = Ground::new().await;
    let member = ground.member("node-a").await;
    let refused = beat(member.stranger(ground.plane.node_address()), &member.node_id).await.unwrap_err();
    assert_eq!((refused.code(), code(&refused).as_str()), (Code::Unauthenticated, "node.certificate_missing"));
    ground.is_audited("node.certificate_missing").await;
}

#[tokio::test]
async fn a_certificate_that_does_not_count_opens_nothing() {
    let ground = Ground::new().await;
    let member = ground.member("node-a").await;
    let role = Role::Node(member.node_id.clone());
    for (identity, code) in [
        (issued(&ground.authority(), &role, (-2, -1)), "tls.certificate_expired"),
        (issued(&ground.authority(), &role, (1, 2)), "tls.certificate_not_yet_valid"),
        (issued(&strange_authority(), &role, (-1, 1)), "tls.authority_unknown"),
    ] {
        // The handshake fails; there is no status of the plane to carry a code.
        assert!(beat(with(&ground, &identity), &member.node_id).await.is_err(), "{code}");
        ground.is_audited(code).await;
    }
    beat(member.client(ground.plane.node_address()), &member.node_id).await.unwrap();
}

#[tokio::test]
async fn a_planes_certificate_and_one_of_an_unknown_node_speak_for_nobody() {
    let ground = Ground::new().await;
    let member = ground.member("node-a").await;
    for (role, expected) in [
        (Role::Plane, "node.certificate_wrong_purpose"),
        (Role::Node("01K00000000000000000000001".to_owned()), "node.unknown"),
        (Role::Node("nonsense".to_owned()), "node.certificate_wrong_purpose"),
        // Whoever has stolen the key of the authority is no node that has keys of its own.
        (Role::Node(member.node_id.clone()), "node.certificate_outdated"),
    ] {
        let identity = issued(&ground.authority(), &role, (-1, 1));
        let refused = beat(with(&ground, &identity), &member.node_id).await.unwrap_err();
        assert_eq!(code(&refused), expected);
        ground.is_audited(expected).await;
    }
}

#[tokio::test]
async fn older_tls_and_no_tls_are_refused() {
    let ground = Ground::new().await;
    let mut trusted = RootCertStore::empty();
    trusted.add(ground.authority().root().clone()).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::aws_lc_rs::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS12]).unwrap();
    let old = versions.with_root_certificates(trusted).with_no_client_auth();
    let stream = TcpStream::connect(ground.plane.node_address()).await.unwrap();
    let connected = TlsConnector::from(Arc::new(old)).connect(PLANE_NAME.try_into().unwrap(), stream).await;
    assert!(connected.is_err());
    ground.is_audited("tls.version_too_old").await;

    let mut plain = TcpStream::connect(ground.plane.node_address()).await.unwrap();
    plain.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!answer.windows(4).any(|bytes| bytes == b"HTTP"), "{answer:?}");
    ground.is_audited("tls.not_spoken").await;
}

#[tokio::test]
async fn whoever_is_refused_a_thousand_times_does_not_fill_the_audit_trail() {
    let ground = Ground::new().await;
    for _ in 0..300 {
        let mut stream = TcpStream::connect(ground.plane.node_address()).await.unwrap();
        stream.write_all(b"nonsense, and more of it\r\n\r\n").await.unwrap();
        let _ = stream.read(&mut [0; 16]).await;
    }
    ground.is_audited("tls.not_spoken").await;
    let written = ground.audited("tls.not_spoken").await;
    assert!(written <= 11, "{written} rows");
    // And somebody with a certificate is let in beside it.
    let member = ground.member("node-a").await;
    beat(member.client(ground.plane.node_address()), &member.node_id).await.unwrap();
}

#[tokio::test]
async fn who_says_nothing_keeps_nobody_out() {
    let ground = Ground::new().await;
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(TcpStream::connect(ground.plane.node_address()).await.unwrap());
    }
    let member = ground.member("node-a").await;
    let beaten = beat(member.client(ground.plane.node_address()), &member.node_id);
    tokio::time::timeout(Duration::from_secs(5), beaten).await.unwrap().unwrap();
    ground.is_audited("tls.timed_out").await;
}

#[tokio::test]
async fn a_node_joins_no_plane_but_the_one_its_token_names() {
    let ground = Ground::new().await;
    let other = Ground::new().await;
    let token = ground.join_token(1).await;
    // Somebody leads the node to another plane: it is refused by the node, before the token is told.
    let refused = Member::join(other.plane.node_address(), &token, crate::facts("node-a")).await;
    assert!(refused.is_err_and(|status| !status.message().contains("join-token create")));
    Member::join(ground.plane.node_address(), &token, crate::facts("node-a")).await.unwrap();
}

#[tokio::test]
async fn a_node_comes_back_with_an_expired_certificate_for_a_while_and_with_no_other() {
    let ground = Ground::with(|config| config.rejoin_within = Duration::from_secs(3 * 3600)).await;
    let member = ground.member("node-a").await;
    let role = Role::Node(member.node_id.clone());
    let again = async |(key, certificate): &(Key, Certificate), by: &Key| {
        let request = fettle_wire::node::JoinRequest {
            node: Some(crate::facts("node-a")),
            certificate_request: by.request().unwrap(),
            expired_certificate: certificate.to_vec(),
        };
        let answer = member.stranger(ground.plane.node_address()).join(request).await;
        let _ = key;
        answer.map(|answer| answer.into_inner().node_id)
    };
    let of_its_key = |hours| {
        let key = Key::from_pem(&member.key.to_pem()).unwrap();
        let certificate = signed(&ground.authority(), &key, &role, hours);
        (key, certificate)
    };
    let lately = of_its_key((-9, -1));
    assert_eq!(again(&lately, &lately.0).await.unwrap(), member.node_id);
    let other_key = Key::generate().unwrap();
    let stolen = again(&lately, &other_key).await.unwrap_err();
    assert_eq!(code(&stolen), "join.certificate_unknown", "a certificate is public: without its key it opens nothing");
    let old = of_its_key((-9, -5));
    assert_eq!(code(&again(&old, &old.0).await.unwrap_err()), "join.certificate_too_old");
    // As from a backup of long ago, or made with a stolen key of the authority.
    let outdated = issued(&ground.authority(), &role, (-9, -1));
    assert_eq!(code(&again(&outdated, &outdated.0).await.unwrap_err()), "node.certificate_outdated");
    let strange = issued(&strange_authority(), &role, (-9, -1));
    assert_eq!(code(&again(&strange, &strange.0).await.unwrap_err()), "join.certificate_unknown");
    let plane = issued(&ground.authority(), &Role::Plane, (-9, -1));
    assert_eq!(code(&again(&plane, &plane.0).await.unwrap_err()), "join.certificate_unknown");
    for code in ["join.certificate_unknown", "join.certificate_too_old"] {
        ground.is_audited(code).await;
    }
    let url = format!("http://{}/api/v1/nodes/node-a/revoke", ground.plane.http_address());
    let revoked = reqwest::Client::new().post(url).bearer_auth(&ground.admin).send().await.unwrap();
    assert!(revoked.status().is_success());
    assert_eq!(code(&again(&lately, &lately.0).await.unwrap_err()), "node.revoked");
}

#[tokio::test]
async fn nobody_plays_the_plane() {
    let ground = Ground::new().await;
    let member = ground.member("node-a").await;
    let stranger = strange_authority();
    // What a node has, and what anybody can make.
    for (key, certificate) in [
        (Key::from_pem(&member.key.to_pem()).unwrap(), member.certificate.clone()),
        issued(&stranger, &Role::Plane, (-1, 1)),
    ] {
        let roots = Roots::new(vec![ground.authority().root().clone()]).unwrap();
        let chain = vec![certificate, ground.authority().root().clone()];
        let server = tls::server(&roots, &Own { chain, key: &key }).unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            tokio_rustls::TlsAcceptor::from(Arc::new(server)).accept(stream).await.is_ok()
        });
        assert!(beat(member.client(address), &member.node_id).await.is_err());
        let accepted = tokio::time::timeout(PATIENCE, served).await.unwrap().unwrap();
        assert!(!accepted, "the node went on with somebody who is no plane");
    }
}

#[tokio::test]
async fn a_stolen_join_token_is_noticed_by_the_one_it_was_made_for_or_worth_nothing() {
    let ground = Ground::new().await;
    let plane = ground.plane.node_address();
    let token = ground.join_token(1).await;
    let thief = Member::join(plane, &token, crate::facts("node-a")).await.unwrap();
    // Nothing was heard of it yet, so the node's own host is let in with the same token: the thief is out.
    let host = Member::join(plane, &token, crate::facts("node-a")).await.unwrap();
    let refused = beat(thief.client(plane), &thief.node_id).await.unwrap_err();
    assert_eq!(code(&refused), "node.certificate_outdated");
    beat(host.client(plane), &host.node_id).await.unwrap();
    // Once it was heard of, nobody else is let in: whoever comes second sees that somebody was first.
    let late = Member::join(plane, &token, crate::facts("node-a")).await;
    assert_eq!(code(&late.err().unwrap()), "join.token_refused");
}

#[tokio::test]
async fn what_an_authority_signed_that_was_replaced_ends_on_open_connections_too() {
    let ground = Ground::new().await;
    let member = ground.member("node-a").await;
    let mut client = member.client(ground.plane.node_address());
    let beat = HeartbeatRequest { node_id: member.node_id.clone(), clock_milliseconds: 0 };
    client.heartbeat(beat.clone()).await.unwrap();
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    let hello =
        PullHello { node_id: member.node_id.clone(), free_slots: 1, challenge: vec![7; 32], ..PullHello::default() };
    sender.send(PullRequest { request: Some(pull_request::Request::Hello(hello)) }).await.unwrap();
    let leases = client.pull(tokio_stream::wrappers::ReceiverStream::new(receiver)).await.unwrap();
    ground.replace_authority();
    let ended = tokio::time::timeout(PATIENCE, leases.into_inner().message()).await.unwrap();
    assert!(ended.is_err(), "{ended:?}");
    let refused = client.heartbeat(beat).await.unwrap_err();
    assert_eq!(code(&refused), "node.certificate_outdated");
}

#[tokio::test]
async fn a_request_to_join_is_small() {
    let ground = Ground::new().await;
    let token = ground.join_token(1).await;
    let mut node = crate::facts("node-a");
    node.labels = (0..2_000).map(|number| (format!("label-{number}"), "x".repeat(100))).collect();
    assert!(Member::join(ground.plane.node_address(), &token, node).await.is_err());
    Member::join(ground.plane.node_address(), &token, crate::facts("node-a")).await.unwrap();
}
