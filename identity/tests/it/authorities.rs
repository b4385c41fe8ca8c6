//! What an authority signs, and how one replaces another.

use std::{os::unix::fs::PermissionsExt as _, sync::Arc};

use fettle_identity::{
    Authority, AuthorityError, Certificate, Directory, DirectoryError, Key, KeyPlace, Peer, Role, Roots, Serial,
    Validity, requested_key, tls::Check,
};
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, ExtendedKeyUsagePurpose, IsCa, KeyUsagePurpose, SanType,
};

const NODE: &str = "01K00000000000000000000001";
const SERIAL: Serial = Serial([7; 16]);

fn at(hour: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap() + SignedDuration::from_hours(hour)
}

fn between(from: i64, until: i64) -> Validity {
    Validity { from: at(from), until: at(until) }
}

fn node() -> Role {
    Role::Node(NODE.to_owned())
}

fn authority() -> Authority {
    Authority::create(Arc::new(Key::generate().unwrap()), between(-1, 1000), SERIAL).unwrap()
}

fn check(authority: &Authority) -> Check {
    Check::new(&Roots::new(vec![authority.root().clone()]).unwrap()).unwrap()
}

#[test]
fn a_certificate_counts_from_its_first_second_to_its_last_and_says_whose_it_is() {
    let authority = authority();
    let key = Key::generate().unwrap();
    let certificate = authority.issue(&key.request().unwrap(), &node(), between(0, 4), SERIAL).unwrap();
    let check = check(&authority);
    let second = SignedDuration::from_secs(1);
    for (when, counts) in
        [(at(0) - second, false), (at(0), true), (at(2), true), (at(4), true), (at(4) + second, false)]
    {
        assert_eq!(check.at(&certificate, when).is_ok(), counts, "{when}");
    }
    let peer = check.at(&certificate, at(1)).unwrap();
    assert_eq!((peer.role, peer.validity), (node(), between(0, 4)));
}

#[test]
fn what_a_request_asks_for_beside_its_key_is_not_given() {
    let authority = authority();
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let mut asked = CertificateParams::default();
    asked.distinguished_name = DistinguishedName::new();
    asked.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    asked.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    asked.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    asked.subject_alt_names = vec![
        SanType::URI(Role::Plane.uri().try_into().unwrap()),
        SanType::DnsName(fettle_identity::tls::PLANE_NAME.try_into().unwrap()),
    ];
    // A request for an authority is not even read.
    let refused = authority.issue(asked.serialize_request(&key).unwrap().der(), &node(), between(0, 1), SERIAL);
    let mut given = vec![refused.ok()];
    asked.is_ca = IsCa::NoCa;
    given.push(authority.issue(asked.serialize_request(&key).unwrap().der(), &node(), between(0, 1), SERIAL).ok());
    let given: Vec<Certificate> = given.into_iter().flatten().collect();
    assert!(!given.is_empty());
    for certificate in given {
        assert_eq!(Peer::read(&certificate).unwrap().role, node());
        let (_, read) = x509_parser::parse_x509_certificate(&certificate).unwrap();
        assert!(!read.is_ca());
        let usage = read.extended_key_usage().unwrap().unwrap().value;
        assert!(usage.client_auth && !usage.server_auth && !usage.any);
        assert!(!read.key_usage().unwrap().unwrap().value.key_cert_sign());
        assert_eq!(read.subject_alternative_name().unwrap().unwrap().value.general_names.len(), 1);
    }
}

#[test]
fn a_request_that_its_key_has_not_signed_is_refused() {
    let authority = authority();
    let request = Key::generate().unwrap().request().unwrap();
    let key = requested_key(&request).unwrap();
    for place in 0..request.len() {
        let mut changed = request.clone();
        changed[place] ^= 1;
        // What the signature does not cover names no key: the wrapping has more than one form.
        if let Ok(certificate) = authority.issue(&changed, &node(), between(0, 1), SERIAL) {
            assert_eq!(Peer::read(&certificate).unwrap().public_key, key, "changed at {place} of {}", request.len());
        }
    }
    for cut in [0, 1, request.len() / 2, request.len() - 1] {
        let refused = authority.issue(&request[..cut], &node(), between(0, 1), SERIAL);
        assert!(matches!(refused, Err(AuthorityError::Request(_))), "{cut}");
    }
}

#[test]
fn a_key_of_another_kind_is_refused() {
    let authority = authority();
    for kind in [&rcgen::PKCS_ED25519, &rcgen::PKCS_ECDSA_P384_SHA384] {
        let key = rcgen::KeyPair::generate_for(kind).unwrap();
        let request = CertificateParams::default().serialize_request(&key).unwrap();
        let refused = authority.issue(request.der(), &node(), between(0, 1), SERIAL);
        assert!(matches!(refused, Err(AuthorityError::Algorithm)));
    }
}

#[test]
fn what_is_no_certificate_of_ours_names_nobody() {
    let authority = authority();
    let key = Key::generate().unwrap();
    let good = authority.issue(&key.request().unwrap(), &node(), between(0, 1), SERIAL).unwrap();
    assert!(Peer::read(&good).is_ok());
    assert!(Peer::read(&[&good[..], b"x"].concat()).is_err());
    for cut in 0..good.len() {
        assert!(Peer::read(&good[..cut]).is_err(), "{cut}");
    }
    assert!(Peer::read(authority.root()).is_err());
}

#[test]
fn one_authority_replaces_another_with_both_counting_in_between() {
    let directory = tempfile::tempdir().unwrap();
    let authorities = Directory::new(directory.path().join("authority"));
    assert!(matches!(authorities.open(), Err(DirectoryError::Nobody(_))));
    let first = authorities.open_or_create(between(-1, 100), SERIAL).unwrap();
    let key = Key::generate().unwrap();
    let by = |standing: &fettle_identity::Standing| {
        standing.signs.issue(&key.request().unwrap(), &node(), between(0, 1), SERIAL).unwrap()
    };
    let old = by(&first);
    assert!(matches!(authorities.activate(), Err(DirectoryError::NotRotating)));
    assert!(matches!(authorities.finish_rotation(first.signs.fingerprint()), Err(DirectoryError::NotRotating)));

    let second = authorities.begin_rotation(&KeyPlace::File, between(-1, 200), SERIAL).unwrap();
    assert!(matches!(
        authorities.begin_rotation(&KeyPlace::File, between(-1, 200), SERIAL),
        Err(DirectoryError::Rotating(..))
    ));
    let begun = authorities.open().unwrap();
    assert_eq!(begun.signs.fingerprint(), first.signs.fingerprint());
    assert_eq!(begun.roots.certificates().len(), 2);
    assert!(matches!(authorities.finish_rotation(second), Err(DirectoryError::StillSigns(_))));

    authorities.activate().unwrap();
    let active = authorities.open().unwrap();
    assert_eq!(active.signs.fingerprint(), second);
    let new = by(&active);
    let both = Check::new(&active.roots).unwrap();
    assert!(both.at(&old, at(0)).is_ok() && both.at(&new, at(0)).is_ok());
    // Who knows the first one only takes nothing of the second: that is why both are told before the second signs.
    assert!(Check::new(&first.roots).unwrap().at(&new, at(0)).is_err());

    authorities.finish_rotation(second).unwrap();
    let finished = Check::new(&authorities.open().unwrap().roots).unwrap();
    assert!(finished.at(&old, at(0)).is_err() && finished.at(&new, at(0)).is_ok());
}

#[test]
fn a_key_that_others_can_read_is_not_used() {
    let directory = tempfile::tempdir().unwrap();
    let authorities = Directory::new(directory.path().join("authority"));
    let standing = authorities.open_or_create(between(-1, 100), SERIAL).unwrap();
    let key = authorities.path().join(standing.signs.fingerprint().to_string()).join("key.pem");
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o640)).unwrap();
    let refused = authorities.open().err().unwrap().to_string();
    assert!(refused.contains("chmod 600"), "{refused}");
}

#[test]
fn an_authority_whose_certificate_was_exchanged_is_not_used() {
    let directory = tempfile::tempdir().unwrap();
    let authorities = Directory::new(directory.path().join("authority"));
    let standing = authorities.open_or_create(between(-1, 100), SERIAL).unwrap();
    let root = authorities.path().join(standing.signs.fingerprint().to_string()).join("root.pem");
    std::fs::write(&root, Roots::new(vec![authority().root().clone()]).unwrap().to_pem()).unwrap();
    assert!(matches!(authorities.open(), Err(DirectoryError::Root(_))));
}
