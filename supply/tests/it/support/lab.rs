//! A small Sigstore: an authority that issues short-lived certificates, a certificate log and a
//! signature log, and the trusted root that names them.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use fettle_model::{canonical, digest::Digest};
use fettle_supply::TrustedRoot;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CustomExtension, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData as _, SanType, SerialNumber, SigningKey as _,
};
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime};

pub(crate) const ISSUER: &str = "https://token.ci.example.com";
pub(crate) const OWNER: &str = "https://ci.example.com/acme";
pub(crate) const REPOSITORY: &str = "https://ci.example.com/acme/steps";
pub(crate) const SUBJECT: &str = "https://ci.example.com/acme/steps/.ci/release.yml@refs/heads/main";
pub(crate) const BRANCH: &str = "refs/heads/main";
const SCT_LIST: [u64; 10] = [1, 3, 6, 1, 4, 1, 11129, 2, 4, 2];

pub(crate) struct Lab {
    authority: Issuer<'static, KeyPair>,
    authority_certificate: Certificate,
    certificate_log: KeyPair,
    signature_log: KeyPair,
}

/// How a signature is made. The default is right.
#[derive(Clone)]
pub(crate) struct How {
    /// Whether the certificate is in the log.
    pub(crate) sct: bool,
    /// Whether the signature is in the log.
    pub(crate) logged: bool,
    /// How long before now the certificate begins, in minutes. It is valid for ten.
    pub(crate) issued: i64,
    /// How long before now the log saw the signature, in minutes.
    pub(crate) seen: i64,
    /// Whether the key that signs is the certificate's.
    pub(crate) own_key: bool,
    /// Whether the certificate names its issuer.
    pub(crate) names_issuer: bool,
}

impl Default for How {
    fn default() -> Self {
        Self { sct: true, logged: true, issued: 5, seen: 4, own_key: true, names_issuer: true }
    }
}

struct Leaf {
    der: Vec<u8>,
    key: KeyPair,
}

impl Lab {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning];
        params.not_before = OffsetDateTime::now_utc() - Duration::days(30);
        params.not_after = OffsetDateTime::now_utc() + Duration::days(30);
        params.distinguished_name.push(rcgen::DnType::CommonName, "lab");
        let authority_certificate = params.self_signed(&key).unwrap();
        let authority = Issuer::new(params, key);
        let (certificate_log, signature_log) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        Self { authority, authority_certificate, certificate_log, signature_log }
    }

    /// The root that trusts this lab.
    pub(crate) fn root(&self) -> TrustedRoot {
        TrustedRoot::read(&self.root_text().to_string()).unwrap()
    }

    pub(crate) fn root_text(&self) -> Value {
        let since = json!({ "start": "2020-01-01T00:00:00Z" });
        let log = |key: &KeyPair| {
            let der = key.subject_public_key_info();
            json!([{
                "baseUrl": "https://log.example.com",
                "hashAlgorithm": "SHA2_256",
                "publicKey": { "rawBytes": STANDARD.encode(&der), "keyDetails": "PKIX_ECDSA_P256_SHA_256", "validFor": since },
                "logId": { "keyId": STANDARD.encode(Digest::of(&der).as_bytes()) },
            }])
        };
        json!({
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": log(&self.signature_log),
            "ctlogs": log(&self.certificate_log),
            "certificateAuthorities": [{
                "subject": { "organization": "example.com", "commonName": "lab" },
                "uri": "https://authority.example.com",
                "certChain": { "certificates": [{ "rawBytes": STANDARD.encode(self.authority_certificate.der()) }] },
                "validFor": since,
            }],
            "timestampAuthorities": [],
        })
    }

    fn leaf(&self, how: &How) -> Leaf {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.serial_number = Some(SerialNumber::from(vec![7; 16]));
        params.subject_alt_names = vec![SanType::URI(SUBJECT.try_into().unwrap())];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning];
        params.not_before = OffsetDateTime::now_utc() - Duration::minutes(how.issued);
        params.not_after = params.not_before + Duration::minutes(10);
        let claims = [(8, ISSUER), (12, REPOSITORY), (14, BRANCH), (16, OWNER)];
        for (number, text) in claims.into_iter().filter(|(number, _)| *number != 8 || how.names_issuer) {
            let value = [&[0x0c, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
            let oid = [1, 3, 6, 1, 4, 1, 57264, 1, number];
            params.custom_extensions.push(CustomExtension::from_oid_content(&oid, value));
        }
        if how.sct {
            let without = params.signed_by(&key, &self.authority).unwrap();
            let list = self.timestamp_list(to_be_signed(without.der()));
            params.custom_extensions.push(CustomExtension::from_oid_content(&SCT_LIST, list));
        }
        let der = params.signed_by(&key, &self.authority).unwrap().der().to_vec();
        Leaf { der, key }
    }

    /// The extension with which the certificate log says that it saw a certificate (RFC 6962, 3.3).
    fn timestamp_list(&self, to_be_signed: &[u8]) -> Vec<u8> {
        let time = [0, 0, 1, 0x90, 0, 0, 0, 0];
        let issuer = Digest::of(&self.authority.key().subject_public_key_info());
        let length = u32::try_from(to_be_signed.len()).unwrap().to_be_bytes();
        let entry = [&[0, 0], &time[..], &[0, 1], issuer.as_bytes(), &length[1..], to_be_signed, &[0, 0]].concat();
        let signature = self.certificate_log.sign(&entry).unwrap();
        let log = Digest::of(&self.certificate_log.subject_public_key_info());
        let timestamp = [&[0], &log.as_bytes()[..], &time, &[0, 0, 4, 3], &length16(&signature), &signature].concat();
        let one = [&length16(&timestamp)[..], &timestamp].concat();
        let list = [&length16(&one)[..], &one].concat();
        let length = u8::try_from(list.len()).unwrap();
        let head: &[u8] = if length < 0x80 { &[0x04, length] } else { &[0x04, 0x81, length] };
        [head, &list].concat()
    }

    /// An entry of the signature log, as a bundle holds it.
    fn entry(&self, kind: &str, body: &Value, how: &How) -> Value {
        let body = canonical::to_bytes(body).unwrap();
        let log = Digest::of(&self.signature_log.subject_public_key_info());
        let seen = (OffsetDateTime::now_utc() - Duration::minutes(how.seen)).unix_timestamp();
        let promise = canonical::to_bytes(&json!({
            "body": STANDARD.encode(&body), "integratedTime": seen, "logID": log.hex(), "logIndex": 0,
        }));
        let root = Digest::of(&[&[0], &body[..]].concat());
        let note = format!("log.example.com\n1\n{}\n", STANDARD.encode(root.as_bytes()));
        let signed = [&log.as_bytes()[..4], &self.signature_log.sign(note.as_bytes()).unwrap()].concat();
        let checkpoint = format!("{note}\n\u{2014} log.example.com {}\n", STANDARD.encode(signed));
        json!({
            "logIndex": "0",
            "logId": { "keyId": STANDARD.encode(log.as_bytes()) },
            "kindVersion": { "kind": kind, "version": "0.0.1" },
            "integratedTime": seen.to_string(),
            "inclusionPromise": {
                "signedEntryTimestamp": STANDARD.encode(self.signature_log.sign(&promise.unwrap()).unwrap()),
            },
            "inclusionProof": {
                "logIndex": "0",
                "rootHash": STANDARD.encode(root.as_bytes()),
                "treeSize": "1",
                "hashes": [],
                "checkpoint": { "envelope": checkpoint },
            },
            "canonicalizedBody": STANDARD.encode(&body),
        })
    }

    /// A bundle with a statement, as a CI job makes it.
    pub(crate) fn bundle(&self, statement: &[u8], how: &How) -> Value {
        let leaf = self.leaf(how);
        let kind = "application/vnd.in-toto+json";
        let signed = [format!("DSSEv1 {} {kind} {} ", kind.len(), statement.len()).as_bytes(), statement].concat();
        let signature = STANDARD.encode(signer(&leaf, how).sign(&signed).unwrap());
        let envelope = json!({
            "payload": STANDARD.encode(statement), "payloadType": kind, "signatures": [{ "sig": signature }],
        });
        let body = json!({
            "apiVersion": "0.0.1",
            "kind": "dsse",
            "spec": {
                "envelopeHash": { "algorithm": "sha256", "value": Digest::of(envelope.to_string().as_bytes()).hex() },
                "payloadHash": { "algorithm": "sha256", "value": Digest::of(statement).hex() },
                "signatures": [{ "signature": signature, "verifier": STANDARD.encode(pem(&leaf.der)) }],
            },
        });
        let entries = if how.logged { json!([self.entry("dsse", &body, how)]) } else { json!([]) };
        json!({
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {
                "certificate": { "rawBytes": STANDARD.encode(&leaf.der) },
                "tlogEntries": entries,
                "timestampVerificationData": null,
            },
            "dsseEnvelope": envelope,
        })
    }

    /// The annotations of a payload layer, as cosign makes them in a CI job.
    pub(crate) fn cosign(&self, payload: &[u8], how: &How) -> Vec<(String, String)> {
        let leaf = self.leaf(how);
        let signature = STANDARD.encode(signer(&leaf, how).sign(payload).unwrap());
        let body = json!({
            "apiVersion": "0.0.1",
            "kind": "hashedrekord",
            "spec": {
                "data": { "hash": { "algorithm": "sha256", "value": Digest::of(payload).hex() } },
                "signature": { "content": signature, "publicKey": { "content": STANDARD.encode(pem(&leaf.der)) } },
            },
        });
        let entry = self.entry("hashedrekord", &body, how);
        let promise = json!({
            "SignedEntryTimestamp": entry["inclusionPromise"]["signedEntryTimestamp"],
            "Payload": {
                "body": entry["canonicalizedBody"],
                "integratedTime": entry["integratedTime"].as_str().unwrap().parse::<i64>().unwrap(),
                "logIndex": 0,
                "logID": Digest::of(&self.signature_log.subject_public_key_info()).hex(),
            },
        });
        let mut annotations = vec![
            ("dev.cosignproject.cosign/signature".to_owned(), signature),
            ("dev.sigstore.cosign/certificate".to_owned(), pem(&leaf.der)),
            ("dev.sigstore.cosign/chain".to_owned(), pem(self.authority_certificate.der())),
        ];
        if how.logged {
            annotations.push(("dev.sigstore.cosign/bundle".to_owned(), promise.to_string()));
        }
        annotations
    }
}

/// The key that signs: the certificate's, or a stranger's.
fn signer(leaf: &Leaf, how: &How) -> KeyPair {
    let own = KeyPair::try_from(leaf.key.serialized_der()).unwrap();
    if how.own_key { own } else { KeyPair::generate().unwrap() }
}

fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

fn length16(bytes: &[u8]) -> [u8; 2] {
    u16::try_from(bytes.len()).unwrap().to_be_bytes()
}

/// The first element of a certificate: what its authority signs.
fn to_be_signed(certificate: &[u8]) -> &[u8] {
    let (_, inner) = element(certificate);
    element(inner).0
}

/// The first element, and what is in it.
fn element(der: &[u8]) -> (&[u8], &[u8]) {
    let (start, length) = match usize::from(der[1]) {
        short if short < 0x80 => (2, short),
        long => {
            let count = long & 0x7f;
            (2 + count, der[2..2 + count].iter().fold(0, |length, byte| (length << 8) | usize::from(*byte)))
        }
    };
    (&der[..start + length], &der[start..start + length])
}
