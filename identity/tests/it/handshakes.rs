//! Real handshakes, in memory: who is let in, and what the others are told.

use std::{io, sync::Arc};

use fettle_identity::{
    Authority, Certificate, Fingerprint, Key, Peer, Refusal, Role, Roots, Serial, Validity,
    tls::{self, Own, PLANE_NAME},
};
use jiff::{SignedDuration, Timestamp};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
use tokio_rustls::{
    TlsAcceptor, TlsConnector,
    rustls::{ClientConfig, ServerConfig, version::TLS12},
};

const NODE: &str = "01K00000000000000000000001";

fn hours(from: i64, until: i64) -> Validity {
    let now = Timestamp::now();
    Validity { from: now + SignedDuration::from_hours(from), until: now + SignedDuration::from_hours(until) }
}

struct World {
    authority: Authority,
    roots: Roots,
    plane: (Key, Certificate),
}

fn authority() -> Authority {
    Authority::create(Arc::new(Key::generate().unwrap()), hours(-1, 1000), Serial([1; 16])).unwrap()
}

/// A key with a certificate for this.
fn issued(authority: &Authority, role: &Role, validity: Validity) -> (Key, Certificate) {
    let key = Key::generate().unwrap();
    let certificate = authority.issue(&key.request().unwrap(), role, validity, Serial([2; 16])).unwrap();
    (key, certificate)
}

fn node() -> Role {
    Role::Node(NODE.to_owned())
}

fn own((key, certificate): &(Key, Certificate)) -> Own<'_> {
    Own { chain: vec![certificate.clone()], key }
}

impl World {
    fn new() -> Self {
        let authority = authority();
        let roots = Roots::new(vec![authority.root().clone()]).unwrap();
        let plane = issued(&authority, &Role::Plane, hours(-1, 1));
        Self { authority, roots, plane }
    }

    fn server(&self) -> ServerConfig {
        let chain = vec![self.plane.1.clone(), self.authority.root().clone()];
        tls::server(&self.roots, &Own { chain, key: &self.plane.0 }).unwrap()
    }

    fn client(&self, identity: &(Key, Certificate)) -> ClientConfig {
        tls::client(&self.roots, Some(&own(identity))).unwrap()
    }
}

type Met = Result<Option<Vec<u8>>, Refusal>;

/// Lets both ends meet and exchange a byte. Answers what each end saw of the other: its certificate, or why not.
async fn meet(server: ServerConfig, client: ClientConfig) -> (Met, Met) {
    let (near, far) = duplex(1 << 16);
    let serve = async {
        let mut stream = TlsAcceptor::from(Arc::new(server)).accept(near).await?;
        stream.write_all(b"x").await?;
        stream.flush().await?;
        // The other end may have found fault with us only now.
        stream.read_u8().await?;
        let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first).map(|shown| shown.to_vec());
        Ok::<_, io::Error>(shown)
    };
    let call = async {
        let name = PLANE_NAME.try_into().unwrap();
        let mut stream = TlsConnector::from(Arc::new(client)).connect(name, far).await?;
        // What the server finds fault with, it says after the client's part of the handshake is over.
        stream.read_u8().await?;
        stream.write_all(b"x").await?;
        stream.flush().await?;
        let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first).map(|shown| shown.to_vec());
        Ok::<_, io::Error>(shown)
    };
    let (served, called) = tokio::join!(serve, call);
    (served.map_err(|error| Refusal::of(&error)), called.map_err(|error| Refusal::of(&error)))
}

#[tokio::test]
async fn a_node_and_its_plane_know_each_other() {
    let world = World::new();
    let (served, called) = meet(world.server(), world.client(&issued(&world.authority, &node(), hours(-1, 1)))).await;
    let seen = Peer::read(&served.unwrap().unwrap()).unwrap();
    assert_eq!(seen.role, node());
    assert_eq!(Peer::read(&called.unwrap().unwrap()).unwrap().role, Role::Plane);
    assert!(!seen.authority.is_empty() && seen.serial.len() == 32, "{seen:?}");
}

#[tokio::test]
async fn who_shows_no_certificate_is_let_in_as_nobody() {
    let world = World::new();
    let (served, called) = meet(world.server(), tls::client(&world.roots, None).unwrap()).await;
    assert_eq!(served, Ok(None));
    assert!(called.unwrap().is_some());
}

#[tokio::test]
async fn a_certificate_that_does_not_count_is_refused_with_the_reason() {
    let world = World::new();
    let stranger = authority();
    for (identity, reason) in [
        (issued(&world.authority, &node(), hours(-2, -1)), Refusal::Expired),
        (issued(&world.authority, &node(), hours(1, 2)), Refusal::NotYetValid),
        (issued(&stranger, &node(), hours(-1, 1)), Refusal::UnknownAuthority),
        (issued(&stranger, &Role::Plane, hours(-1, 1)), Refusal::UnknownAuthority),
    ] {
        let (served, called) = meet(world.server(), world.client(&identity)).await;
        assert_eq!(served, Err(reason));
        // The alert of the one is the alert of the other.
        let is_time = matches!(reason, Refusal::Expired | Refusal::NotYetValid);
        let told = if is_time { Refusal::Expired } else { Refusal::Alert };
        assert_eq!(called, Err(told), "{reason:?}");
    }
}

#[tokio::test]
async fn a_certificate_without_its_key_is_refused() {
    let world = World::new();
    let (_, certificate) = issued(&world.authority, &node(), hours(-1, 1));
    let other = Key::generate().unwrap();
    // The library itself does not let them be put together.
    assert!(tls::client(&world.roots, Some(&Own { chain: vec![certificate], key: &other })).is_err());
}

#[tokio::test]
async fn nobody_plays_a_plane_with_a_certificate_of_a_node_or_of_a_stranger() {
    let world = World::new();
    let client = || world.client(&issued(&world.authority, &node(), hours(-1, 1)));
    let stranger = authority();
    for (identity, reason) in [
        (issued(&world.authority, &node(), hours(-1, 1)), [Refusal::WrongName, Refusal::WrongPurpose]),
        (issued(&world.authority, &Role::Plane, hours(-2, -1)), [Refusal::Expired; 2]),
        (issued(&stranger, &Role::Plane, hours(-1, 1)), [Refusal::UnknownAuthority; 2]),
    ] {
        let server = tls::server(&world.roots, &own(&identity)).unwrap();
        let (_, called) = meet(server, client()).await;
        assert!(reason.contains(&called.unwrap_err()), "{reason:?}");
    }
}

#[tokio::test]
async fn who_joins_takes_only_the_plane_of_the_authority_it_was_told() {
    let world = World::new();
    let (_, called) = meet(world.server(), tls::joining(world.authority.fingerprint()).unwrap()).await;
    assert!(called.is_ok());
    let stranger = authority();
    let (_, called) = meet(world.server(), tls::joining(stranger.fingerprint()).unwrap()).await;
    assert_eq!(called, Err(Refusal::UnknownAuthority));
    // A stranger that shows the right authority's certificate, which anybody has, and has not signed with its key.
    let impostor = issued(&stranger, &Role::Plane, hours(-1, 1));
    let chain = vec![impostor.1.clone(), world.authority.root().clone()];
    let server = tls::server(&world.roots, &Own { chain, key: &impostor.0 }).unwrap();
    let (_, called) = meet(server, tls::joining(world.authority.fingerprint()).unwrap()).await;
    assert_eq!(called, Err(Refusal::UnknownAuthority));
}

#[tokio::test]
async fn what_is_older_than_tls_1_3_is_refused() {
    let world = World::new();
    let mut trusted = tokio_rustls::rustls::RootCertStore::empty();
    trusted.add(world.authority.root().clone()).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::aws_lc_rs::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS12]).unwrap();
    let mut client = versions.with_root_certificates(trusted).with_no_client_auth();
    client.alpn_protocols = vec![b"h2".to_vec()];
    let (served, called) = meet(world.server(), client).await;
    assert_eq!((served, called), (Err(Refusal::OldTls), Err(Refusal::OldTls)));
}

#[tokio::test]
async fn a_session_is_never_resumed_so_that_each_connection_looks_at_the_certificate() {
    let world = World::new();
    let client = Arc::new(world.client(&issued(&world.authority, &node(), hours(-1, 1))));
    let server = Arc::new(world.server());
    for _ in 0..3 {
        let (near, far) = duplex(1 << 16);
        let serve = async {
            let mut stream = TlsAcceptor::from(Arc::clone(&server)).accept(near).await.unwrap();
            stream.write_all(b"x").await.unwrap();
            stream.flush().await.unwrap();
            stream.get_ref().1.handshake_kind()
        };
        let call = async {
            let name = PLANE_NAME.try_into().unwrap();
            TlsConnector::from(Arc::clone(&client)).connect(name, far).await.unwrap().read_u8().await.unwrap();
        };
        let (kind, ()) = tokio::join!(serve, call);
        assert_eq!(kind, Some(tokio_rustls::rustls::HandshakeKind::Full));
    }
}

#[tokio::test]
async fn what_is_no_tls_is_told_apart() {
    let world = World::new();
    let (near, mut far) = duplex(1 << 16);
    far.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let error = TlsAcceptor::from(Arc::new(world.server())).accept(near).await.unwrap_err();
    assert_eq!(Refusal::of(&error), Refusal::NoTls);
}

#[test]
fn each_refusal_has_a_code_of_its_own_and_a_sentence() {
    let codes: std::collections::BTreeSet<_> = Refusal::ALL.iter().map(|refusal| refusal.code()).collect();
    let sentences: std::collections::BTreeSet<_> = Refusal::ALL.iter().map(ToString::to_string).collect();
    assert_eq!((codes.len(), sentences.len()), (Refusal::ALL.len(), Refusal::ALL.len()));
}

#[test]
fn a_fingerprint_is_read_back_as_it_was_written() {
    let fingerprint = authority().fingerprint();
    assert_eq!(fingerprint.to_string().parse::<Fingerprint>().unwrap(), fingerprint);
    for bad in ["", "ab", &"g".repeat(64), &"a".repeat(63), &"a".repeat(65)] {
        assert!(bad.parse::<Fingerprint>().is_err(), "{bad}");
    }
}
