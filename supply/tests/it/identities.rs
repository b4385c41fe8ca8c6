//! Signatures by identities: a certificate of an authority, a log entry, a trusted root, no network.

use std::collections::BTreeMap;

use crate::support::World;
use crate::support::lab::{BRANCH, How, ISSUER, Lab, OWNER, REPOSITORY, SUBJECT};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use fettle_model::{digest::Digest, reference::Reference};
use fettle_supply::{
    Evidence, Rejection, Signed, Signer, TrustedRoot, TrustedRootError, Verdict, Workflow,
    mutation::{Protection, without},
    testing::attach,
};
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Cosign,
    Bundle,
}

const FORMATS: [Format; 2] = [Format::Cosign, Format::Bundle];

fn statement(subjects: &[Digest], predicate: &str) -> Vec<u8> {
    let subjects: Vec<Value> = subjects.iter().map(|it| json!({ "digest": { "sha256": it.hex() } })).collect();
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": predicate,
        "predicate": {},
    })
    .to_string()
    .into_bytes()
}

fn sign_statement(subject: Digest) -> Vec<u8> {
    statement(&[subject], "https://sigstore.dev/cosign/sign/v1")
}

fn payload(subject: Digest) -> Vec<u8> {
    json!({
        "critical": {
            "identity": { "docker-reference": "registry.example.com/steps/render" },
            "image": { "docker-manifest-digest": subject },
            "type": "cosign container image signature",
        },
        "optional": null,
    })
    .to_string()
    .into_bytes()
}

struct Case {
    world: World,
    reference: Reference,
    lab: Lab,
}

impl Case {
    async fn new() -> Self {
        let world = World::new().await;
        let reference = world.push().await;
        let reference = world.direct().at(reference.digest);
        Self { world, reference, lab: Lab::new() }
    }

    async fn attach(&self, format: Format, subject: Digest, how: &How) -> Vec<Evidence> {
        match format {
            Format::Cosign => {
                let payload = payload(subject);
                let annotations = self.lab.cosign(&payload, how).into_iter().collect();
                self.attach_cosign(&payload, &annotations).await
            }
            Format::Bundle => self.attach_bundle(&self.lab.bundle(&sign_statement(subject), how)).await,
        }
    }

    async fn attach_cosign(&self, payload: &[u8], annotations: &BTreeMap<String, String>) -> Vec<Evidence> {
        attach::cosign(&self.world.client, &self.reference, payload, annotations).await;
        self.evidence().await
    }

    async fn attach_bundle(&self, bundle: &Value) -> Vec<Evidence> {
        attach::bundle(&self.world.client, &self.reference, bundle.to_string().as_bytes()).await;
        self.evidence().await
    }

    async fn evidence(&self) -> Vec<Evidence> {
        self.world.client.fetch_signatures(&self.reference).await.unwrap()
    }

    fn check(&self, evidence: &[Evidence]) -> Result<Signed, Rejection> {
        let [evidence] = evidence else { panic!("{} signatures", evidence.len()) };
        evidence.statement_by(self.reference.digest, &[self.world.key.public().clone()], Some(&self.lab.root()))
    }
}

/// The attack is kept out, and gets through when the protection is taken out.
fn kept_out_by(case: &Case, evidence: &[Evidence], protections: &[Protection], expected: &str) {
    let rejection = case.check(evidence).unwrap_err();
    assert!(rejection.to_string().contains(expected), "{rejection}");
    let _taken_out: Vec<_> = protections.iter().map(|protection| without(*protection)).collect();
    case.check(evidence).unwrap_or_else(|rejection| panic!("without {protections:?}: {rejection}"));
}

#[tokio::test]
async fn an_identity_is_proven_offline_in_both_formats_with_its_workflow() {
    for format in FORMATS {
        let case = Case::new().await;
        let evidence = case.attach(format, case.reference.digest, &How::default()).await;
        let signed = case.check(&evidence).unwrap_or_else(|rejection| panic!("{format:?}: {rejection}"));
        let Signer::Identity { issuer, subject, workflow } = signed.signer else { panic!("{:?}", signed.signer) };
        assert_eq!((issuer.as_str(), subject.as_str()), (ISSUER, SUBJECT));
        let expected = Workflow {
            owner: Some(OWNER.to_owned()),
            repository: REPOSITORY.to_owned(),
            reference: Some(BRANCH.to_owned()),
        };
        assert_eq!(workflow, Some(expected));
        assert!(signed.integrated_time.is_some());
        // Without a root, and with another lab's, it is nobody's.
        let own = case.world.key.public().clone();
        let [evidence] = evidence.as_slice() else { panic!() };
        let none = evidence.statement_by(case.reference.digest, std::slice::from_ref(&own), None).unwrap_err();
        assert_eq!(none, Rejection::NoTrustedRoot);
        let other = evidence.statement_by(case.reference.digest, &[own], Some(&Lab::new().root())).unwrap_err();
        assert_eq!(other.verdict(), Verdict::Untrusted);
        assert!(matches!(other, Rejection::Unproven(_)), "{other}");
    }
}

#[tokio::test]
async fn a_keyless_signature_whose_payload_was_signed_by_another_key_than_the_certificates_is_refused() {
    for format in FORMATS {
        let case = Case::new().await;
        let how = How { own_key: false, ..How::default() };
        let evidence = case.attach(format, case.reference.digest, &how).await;
        kept_out_by(&case, &evidence, &[Protection::IdentityIsProven], "ignature verification failed");
    }
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_refused() {
    for format in FORMATS {
        let mut case = Case::new().await;
        let evidence = case.attach(format, case.reference.digest, &How::default()).await;
        // The root trusts the same logs, and another authority.
        let (mut root, other) = (case.lab.root_text(), Lab::new().root_text());
        root["certificateAuthorities"] = other["certificateAuthorities"].clone();
        let root = TrustedRoot::read(&root.to_string()).unwrap();
        let [evidence] = evidence.as_slice() else { panic!() };
        let rejection = evidence.statement_by(case.reference.digest, &[], Some(&root)).unwrap_err();
        assert!(rejection.to_string().contains("chain"), "{rejection}");
        {
            let _out = without(Protection::CertificateChains);
            evidence.statement_by(case.reference.digest, &[], Some(&root)).unwrap();
        }
        case.lab = Lab::new();
        assert!(case.check(std::slice::from_ref(evidence)).is_err());
    }
}

#[tokio::test]
async fn a_certificate_that_had_expired_when_it_was_used_is_refused() {
    for (issued, seen) in [(60, 4), (5, 60)] {
        for format in FORMATS {
            let case = Case::new().await;
            let how = How { issued, seen, ..How::default() };
            let evidence = case.attach(format, case.reference.digest, &how).await;
            let rejection = case.check(&evidence).unwrap_err();
            assert!(matches!(rejection, Rejection::Unproven(_)), "{rejection}");
            let _out = without(Protection::IdentityIsProven);
            case.check(&evidence).unwrap();
        }
    }
}

#[tokio::test]
async fn a_certificate_that_was_in_no_log_is_refused_where_the_root_names_logs() {
    for format in FORMATS {
        let case = Case::new().await;
        let how = How { sct: false, ..How::default() };
        let evidence = case.attach(format, case.reference.digest, &how).await;
        kept_out_by(&case, &evidence, &[Protection::CertificateIsLogged], "SCT");
        let mut root = case.lab.root_text();
        root["ctlogs"] = json!([]);
        let root = TrustedRoot::read(&root.to_string()).unwrap();
        evidence[0].statement_by(case.reference.digest, &[], Some(&root)).unwrap();
    }
}

#[tokio::test]
async fn a_signature_that_was_in_no_log_is_refused() {
    for format in FORMATS {
        let case = Case::new().await;
        let how = How { logged: false, ..How::default() };
        let evidence = case.attach(format, case.reference.digest, &how).await;
        let rejection = case.check(&evidence).unwrap_err();
        assert!(matches!(rejection, Rejection::Unproven(_)), "{rejection}");
        let _out = without(Protection::IdentityIsProven);
        case.check(&evidence).unwrap();
    }
}

#[tokio::test]
async fn a_log_entry_for_another_payload_is_refused() {
    let case = Case::new().await;
    let (mine, other) = (case.reference.digest, Digest::of(b"another artifact"));
    let mut bundle = case.lab.bundle(&sign_statement(mine), &How::default());
    let elsewhere = case.lab.bundle(&sign_statement(other), &How::default());
    bundle["verificationMaterial"]["tlogEntries"] = elsewhere["verificationMaterial"]["tlogEntries"].clone();
    let evidence = case.attach_bundle(&bundle).await;
    kept_out_by(&case, &evidence, &[Protection::IdentityIsProven], "mismatch");

    let case = Case::new().await;
    let mut annotations: BTreeMap<_, _> = case.lab.cosign(&payload(mine), &How::default()).into_iter().collect();
    let elsewhere: BTreeMap<_, _> = case.lab.cosign(&payload(other), &How::default()).into_iter().collect();
    let log = "dev.sigstore.cosign/bundle";
    annotations.insert(log.to_owned(), elsewhere[log].clone());
    let evidence = case.attach_cosign(&payload(mine), &annotations).await;
    kept_out_by(&case, &evidence, &[Protection::IdentityIsProven], "mismatch");
}

/// A bundle of the case whose log entry has one part that is of another log, or of another time.
fn with_foreign(case: &Case, part: &str) -> Value {
    let statement = sign_statement(case.reference.digest);
    let mut bundle = case.lab.bundle(&statement, &How::default());
    let stranger = Lab::new().bundle(&statement, &How::default());
    let entry = "/verificationMaterial/tlogEntries/0";
    let foreign =
        if part == "integratedTime" { json!("1600000000") } else { stranger.pointer(entry).unwrap()[part].clone() };
    bundle.pointer_mut(entry).unwrap()[part] = foreign;
    bundle
}

#[tokio::test]
async fn a_signature_that_was_promised_to_a_log_and_is_not_in_it_is_refused() {
    let case = Case::new().await;
    let evidence = case.attach_bundle(&with_foreign(&case, "inclusionProof")).await;
    kept_out_by(&case, &evidence, &[Protection::SignatureIsLogged], "");
}

#[tokio::test]
async fn a_log_entry_whose_promise_or_time_was_changed_is_refused() {
    for part in ["inclusionPromise", "integratedTime"] {
        let case = Case::new().await;
        let evidence = case.attach_bundle(&with_foreign(&case, part)).await;
        let rejection = case.check(&evidence).unwrap_err();
        assert!(matches!(rejection, Rejection::Unproven(_)), "{part}: {rejection}");
        kept_out_by(&case, &evidence, &[Protection::IdentityIsProven], "");
    }
}

#[tokio::test]
async fn a_signature_by_an_identity_over_another_artifact_is_refused() {
    for format in FORMATS {
        let case = Case::new().await;
        let other = Digest::of(b"another artifact");
        let evidence = case.attach(format, other, &How::default()).await;
        kept_out_by(&case, &evidence, &[Protection::SubjectIsTheArtifact], &format!("about {other}"));
    }
}

#[tokio::test]
async fn a_statement_about_several_artifacts_is_refused() {
    let case = Case::new().await;
    let subjects = [case.reference.digest, Digest::of(b"another artifact")];
    let statement = statement(&subjects, "https://sigstore.dev/cosign/sign/v1");
    let evidence = case.attach_bundle(&case.lab.bundle(&statement, &How::default())).await;
    kept_out_by(&case, &evidence, &[Protection::OneSubject], "about 2 subjects");
}

#[tokio::test]
async fn a_bundle_of_another_version_is_refused() {
    for version in
        ["application/vnd.dev.sigstore.bundle+json;version=0.1", "application/vnd.dev.sigstore.bundle+json;version=0.2"]
    {
        let case = Case::new().await;
        let mut bundle = case.lab.bundle(&sign_statement(case.reference.digest), &How::default());
        bundle["mediaType"] = json!(version);
        let evidence = case.attach_bundle(&bundle).await;
        assert_eq!(case.check(&evidence).unwrap_err().verdict(), Verdict::Malformed);
        kept_out_by(&case, &evidence, &[Protection::BundleIsOfKnownVersion], version);
    }
}

#[tokio::test]
async fn a_certificate_that_names_no_issuer_is_nobodys() {
    let case = Case::new().await;
    let how = How { names_issuer: false, ..How::default() };
    let evidence = case.attach(Format::Bundle, case.reference.digest, &how).await;
    let rejection = case.check(&evidence).unwrap_err();
    assert!(rejection.to_string().contains("does not name"), "{rejection}");
}

#[tokio::test]
async fn annotations_beside_the_signature_are_not_believed() {
    let case = Case::new().await;
    let payload = payload(case.reference.digest);
    let mut annotations: BTreeMap<_, _> = case.lab.cosign(&payload, &How::default()).into_iter().collect();
    annotations.insert("environment".to_owned(), "production".to_owned());
    let evidence = case.attach_cosign(&payload, &annotations).await;
    assert_eq!(case.check(&evidence).unwrap().annotations, BTreeMap::new());
}

#[test]
fn a_root_that_could_prove_nothing_is_refused() {
    let lab = Lab::new();
    let spoil = |change: &dyn Fn(&mut Value)| {
        let mut root = lab.root_text();
        change(&mut root);
        TrustedRoot::read(&root.to_string()).unwrap_err()
    };
    assert!(matches!(TrustedRoot::read("{}"), Err(TrustedRootError::Document(_))));
    assert!(matches!(spoil(&|root| root["certificateAuthorities"] = json!([])), TrustedRootError::NoAuthority));
    assert!(matches!(spoil(&|root| root["tlogs"] = json!([])), TrustedRootError::NoTime));
    let garbage = STANDARD.encode(b"no key");
    let error = spoil(&|root| root["tlogs"][0]["publicKey"]["rawBytes"] = json!(garbage));
    assert!(matches!(error, TrustedRootError::Material(_)), "{error}");
}
