//! Keys of an issuer, what it publishes, and tokens that are made with them.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use fettle_openid::{Issuer, JwkSet, Source, Unavailable, Verifier};
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rcgen::PublicKeyData as _;
use serde_json::{Value, json};

pub(crate) const ISSUER: &str = "https://login.example/realms/a";
pub(crate) const NOW: i64 = 1_800_000_000;

pub(crate) fn now() -> Timestamp {
    at(0)
}

/// So many seconds from now.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(NOW + seconds).unwrap()
}

/// A key on P-256.
pub(crate) struct Key {
    pub(crate) id: String,
    pub(crate) algorithm: Algorithm,
    signs: EncodingKey,
    public: Vec<u8>,
}

impl Key {
    pub(crate) fn new(id: &str) -> Self {
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let signs = EncodingKey::from_ec_der(pair.serialized_der());
        Self { id: id.to_owned(), algorithm: Algorithm::ES256, signs, public: pair.der_bytes().to_vec() }
    }

    pub(crate) fn on_the_edwards_curve(id: &str) -> Self {
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        let signs = EncodingKey::from_ed_der(pair.serialized_der());
        Self { id: id.to_owned(), algorithm: Algorithm::EdDSA, signs, public: pair.der_bytes().to_vec() }
    }

    /// As the issuer publishes it.
    pub(crate) fn published(&self) -> Value {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let public = &self.public;
        if self.algorithm == Algorithm::EdDSA {
            return json!({ "kty": "OKP", "crv": "Ed25519", "kid": self.id, "x": text(public) });
        }
        // An uncompressed point: 4, x, y.
        json!({ "kty": "EC", "crv": "P-256", "kid": self.id, "use": "sig", "alg": "ES256",
            "x": text(&public[1..33]), "y": text(&public[33..]) })
    }

    /// The public half as bytes, which everybody has.
    pub(crate) fn public(&self) -> &[u8] {
        &self.public
    }

    pub(crate) fn token(&self, claims: &Value) -> String {
        let header = Header { kid: Some(self.id.clone()), ..Header::new(self.algorithm) };
        encode(&header, claims, &self.signs).unwrap()
    }

    /// With a header of one's own.
    pub(crate) fn token_with(&self, header: Header, claims: &Value) -> String {
        encode(&header, claims, &self.signs).unwrap()
    }
}

pub(crate) fn set(keys: &[&Key]) -> JwkSet {
    set_of(keys.iter().map(|key| key.published()).collect())
}

pub(crate) fn set_of(keys: Vec<Value>) -> JwkSet {
    serde_json::from_value(json!({ "keys": keys })).unwrap()
}

/// Claims of a good token.
pub(crate) fn claims() -> Value {
    json!({ "iss": ISSUER, "sub": "alice", "aud": ["other", "fettle"], "exp": NOW + 300, "iat": NOW,
        "email": "alice@example", "groups": ["ml", "ops"] })
}

/// An issuer that answers one thing after the other, and the last one for ever.
#[derive(Clone)]
pub(crate) struct Recorded {
    answers: Arc<Mutex<VecDeque<Result<JwkSet, Unavailable>>>>,
    pub(crate) asked: Arc<AtomicUsize>,
}

impl Recorded {
    pub(crate) fn new(answers: impl IntoIterator<Item = Result<JwkSet, Unavailable>>) -> Self {
        Self { answers: Arc::new(Mutex::new(answers.into_iter().collect())), asked: Arc::default() }
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    pub(crate) fn verifier(&self) -> Verifier {
        Verifier::with(vec![(issuer(), Box::new(self.clone()))]).unwrap()
    }
}

#[async_trait]
impl Source for Recorded {
    async fn key_set(&self) -> Result<JwkSet, Unavailable> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut answers = self.answers.lock().unwrap();
        let answer = answers.pop_front().unwrap();
        if answers.is_empty() {
            answers.push_back(answer.clone());
        }
        answer
    }
}

pub(crate) fn issuer() -> Issuer {
    Issuer {
        issuer: ISSUER.to_owned(),
        audiences: ["fettle".to_owned()].into(),
        name_claim: Some("email".to_owned()),
        authorities: Vec::new(),
    }
}
