//! Whose signatures of tasks count.

use std::sync::Arc;

use fettle_identity::{
    Authority, Certificate, Key, Role, Roots, Serial, Validity,
    signing::{NotSigned, Signer, Signers, challenge},
    tls::Check,
};
use jiff::{SignedDuration, Timestamp};

const SERIAL: Serial = Serial([7; 16]);

/// What is signed here: its type, and its bytes.
const SAID: (&str, &[u8]) = ("text/plain", b"restart the driver");

fn at(hour: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap() + SignedDuration::from_hours(hour)
}

fn authority() -> Authority {
    let validity = Validity { from: at(-1), until: at(1000) };
    Authority::create(Arc::new(Key::generate().unwrap()), validity, SERIAL).unwrap()
}

fn roots(authority: &Authority) -> Roots {
    Roots::new(vec![authority.root().clone()]).unwrap()
}

fn signer(authority: &Authority, role: &Role) -> Signer {
    let key = Key::generate().unwrap();
    let validity = Validity { from: at(0), until: at(4) };
    let certificate = authority.issue(&key.request().unwrap(), role, validity, SERIAL).unwrap();
    Signer::new(key, certificate)
}

#[test]
fn a_key_for_tasks_counts_from_its_first_second_to_its_last() {
    let authority = authority();
    let (signer, signers) = (signer(&authority, &Role::TaskSigner), Signers::of(&roots(&authority)));
    let signature = signer.sign(SAID.0, SAID.1).unwrap();
    let accepted = signers.accept(signer.certificate().clone(), at(1)).unwrap();
    let second = SignedDuration::from_secs(1);
    for (when, counts) in
        [(at(0) - second, false), (at(0), true), (at(2), true), (at(4), true), (at(4) + second, false)]
    {
        let expected = if counts { Ok(()) } else { Err(NotSigned::Expired) };
        assert_eq!(signers.accept(signer.certificate().clone(), when).map(drop), expected, "{when}");
        assert_eq!(accepted.verify(SAID, &signature, when), expected, "{when}");
    }
}

#[test]
fn a_signature_is_over_the_bytes_and_their_type() {
    let authority = authority();
    let [signer, other] = [(); 2].map(|()| signer(&authority, &Role::TaskSigner));
    let signature = signer.sign(SAID.0, SAID.1).unwrap();
    let accepted = Signers::of(&roots(&authority)).accept(signer.certificate().clone(), at(1)).unwrap();
    assert_eq!(accepted.verify(SAID, &signature, at(1)), Ok(()));
    let mut bent = signature.clone();
    *bent.last_mut().unwrap() ^= 1;
    for (said, signature) in [
        ((SAID.0, b"restart the drivel".as_slice()), signature.clone()),
        (("text/html", SAID.1), signature.clone()),
        // The border between type and bytes is signed, too.
        (("text/plain 18 restart", b"the driver".as_slice()), signature),
        (SAID, bent),
        (SAID, other.sign(SAID.0, SAID.1).unwrap()),
        (SAID, Vec::new()),
    ] {
        assert_eq!(accepted.verify(said, &signature, at(1)), Err(NotSigned::Signature), "{said:?}");
    }
}

#[test]
fn no_other_certificate_is_for_tasks_and_one_for_tasks_is_for_nothing_else() {
    let (authority, strange) = (self::authority(), self::authority());
    let signers = Signers::of(&roots(&authority));
    let refused = |certificate: Certificate| signers.accept(certificate, at(1)).map(drop);
    for role in [Role::Plane, Role::Node("01K00000000000000000000001".to_owned())] {
        let signer = signer(&authority, &role);
        assert_eq!(refused(signer.certificate().clone()), Err(NotSigned::WrongPurpose), "{role:?}");
    }
    assert_eq!(refused(signer(&strange, &Role::TaskSigner).certificate().clone()), Err(NotSigned::UnknownAuthority));
    assert_eq!(refused(authority.root().clone()), Err(NotSigned::Malformed), "an authority signs no tasks itself");
    assert_eq!(refused(Certificate::from(b"nonsense".to_vec())), Err(NotSigned::Malformed));
    assert_eq!(
        Signers::of(&Roots::default()).accept(strange.root().clone(), at(1)).map(drop),
        Err(NotSigned::Malformed)
    );
    let for_tasks = signer(&authority, &Role::TaskSigner);
    assert!(
        Check::new(&roots(&authority)).unwrap().at(for_tasks.certificate(), at(1)).is_err(),
        "it opens connections"
    );
}

#[test]
fn no_challenge_comes_twice() {
    let (one, other) = (challenge().unwrap(), challenge().unwrap());
    assert_eq!((one.len(), other.len()), (32, 32));
    assert_ne!(one, other);
}
