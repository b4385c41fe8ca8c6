//! Which tokens say who somebody is.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use fettle_openid::{Identity, Refusal, Verifier};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

use crate::support::{ISSUER, Key, NOW, Recorded, at, claims, now, set, set_of};

async fn verify(keys: &[&Key], token: &str) -> Result<Identity, Refusal> {
    Recorded::new([Ok(set(keys))]).verifier().verify(token, now()).await
}

/// The claims with some that are others; `null` takes one away.
fn with(changes: Value) -> Value {
    let mut claims = claims();
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
            value => claims[name] = value.clone(),
        }
    }
    claims
}

/// A token with any header and any signature.
fn assembled(header: &Value, claims: &Value, signature: &[u8]) -> String {
    let part = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    format!("{}.{}.{}", part(header.to_string().as_bytes()), part(claims.to_string().as_bytes()), part(signature))
}

#[tokio::test]
async fn a_token_of_an_issuer_says_who_its_holder_is() {
    for key in [Key::new("a"), Key::on_the_edwards_curve("a")] {
        let identity = verify(&[&key, &Key::new("b")], &key.token(&claims())).await.unwrap();
        assert_eq!((identity.issuer.as_str(), identity.subject.as_str()), (ISSUER, "alice"));
        assert_eq!((identity.name.as_str(), identity.expires_at), ("alice@example", at(300)));
        assert_eq!(identity.claims["groups"], json!(["ml", "ops"]));
    }
    let key = Key::new("a");
    let unnamed = verify(&[&key], &key.token(&with(json!({ "email": null })))).await.unwrap();
    assert_eq!(unnamed.name, "alice", "its subject, where the claim is missing");
    let single = verify(&[&key], &key.token(&with(json!({ "aud": "fettle" })))).await;
    assert!(single.is_ok(), "an audience need not be a list");
}

#[tokio::test]
async fn what_is_wrong_with_a_token_is_said() {
    let (key, stranger) = (Key::new("a"), Key::new("a"));
    let issuer = || ISSUER.to_owned();
    let cases = [
        ("no token", "eyJ.a.b".to_owned(), Refusal::Malformed),
        ("another's signature", stranger.token(&claims()), Refusal::Signature { issuer: issuer() }),
        ("another audience", key.token(&with(json!({ "aud": "other" }))), Refusal::Audience("`fettle`".to_owned())),
        ("no audience", key.token(&with(json!({ "aud": null }))), Refusal::Malformed),
        ("no subject", key.token(&with(json!({ "sub": null }))), Refusal::Malformed),
        ("no end", key.token(&with(json!({ "exp": null }))), Refusal::Malformed),
        ("over", key.token(&with(json!({ "exp": NOW - 60 }))), Refusal::Expired),
        ("not begun", key.token(&with(json!({ "nbf": NOW + 61 }))), Refusal::NotYetValid),
        ("made tomorrow", key.token(&with(json!({ "iat": NOW + 86_400 }))), Refusal::NotYetValid),
        (
            "a slash more",
            key.token(&with(json!({ "iss": format!("{ISSUER}/") }))),
            Refusal::UnknownIssuer(format!("{ISSUER}/")),
        ),
        (
            "another realm",
            key.token(&with(json!({ "iss": "https://login.example/realms/b" }))),
            Refusal::UnknownIssuer("https://login.example/realms/b".to_owned()),
        ),
        ("too long", key.token(&with(json!({ "x": "y".repeat(20_000) }))), Refusal::Malformed),
    ];
    for (what, token, expected) in cases {
        assert_eq!(verify(&[&key], &token).await, Err(expected), "{what}");
    }
    for (what, claims) in
        [("a minute late", json!({ "exp": NOW - 59 })), ("a minute early", json!({ "nbf": NOW + 60 }))]
    {
        assert!(verify(&[&key], &key.token(&with(claims))).await.is_ok(), "{what}: clocks may differ by that much");
    }
}

#[tokio::test]
async fn no_token_chooses_how_it_is_verified() {
    let (key, edwards) = (Key::new("a"), Key::on_the_edwards_curve("b"));
    let refused = |algorithm: &str| Err(Refusal::Algorithm(algorithm.to_owned()));
    for none in ["none", "None", "NONE"] {
        let token = assembled(&json!({ "alg": none, "kid": "a" }), &claims(), b"");
        assert_eq!(verify(&[&key], &token).await, refused(none));
    }
    // The public key, which everybody has, taken for a shared secret.
    let header = Header { kid: Some("a".to_owned()), ..Header::new(Algorithm::HS256) };
    let switched = encode(&header, &claims(), &EncodingKey::from_secret(key.public())).unwrap();
    assert_eq!(verify(&[&key], &switched).await, refused("HS256"));
    // Even where the issuer publishes a shared secret.
    let secret = json!({ "kty": "oct", "kid": "a", "alg": "HS256", "k": URL_SAFE_NO_PAD.encode(b"secret") });
    let verifier = Recorded::new([Ok(set_of(vec![secret]))]).verifier();
    let token = encode(&header, &claims(), &EncodingKey::from_secret(b"secret")).unwrap();
    assert_eq!(verifier.verify(&token, now()).await, refused("HS256"));
    // A key for one algorithm, named in a token of another.
    let named = Header { kid: Some("a".to_owned()), ..Header::new(Algorithm::EdDSA) };
    let token = edwards.token_with(named, &claims());
    assert_eq!(verify(&[&key, &edwards], &token).await, Err(Refusal::UnknownKey { issuer: ISSUER.to_owned() }));
    // What must be understood and is not.
    let critical = assembled(&json!({ "alg": "ES256", "kid": "a", "crit": ["b64"], "b64": false }), &claims(), b"x");
    assert_eq!(verify(&[&key], &critical).await, Err(Refusal::Malformed));
}

#[tokio::test]
async fn a_token_that_names_no_key_counts_where_there_is_only_one() {
    let (key, other) = (Key::new("a"), Key::new("b"));
    let token = key.token_with(Header::new(Algorithm::ES256), &claims());
    assert!(verify(&[&key], &token).await.is_ok());
    assert_eq!(verify(&[&key, &other], &token).await, Err(Refusal::UnknownKey { issuer: ISSUER.to_owned() }));
}

#[tokio::test]
async fn a_key_for_encryption_signs_nothing() {
    let key = Key::new("a");
    let mut published = key.published();
    published["use"] = json!("enc");
    let verifier = Recorded::new([Ok(set_of(vec![published]))]).verifier();
    let refused = verifier.verify(&key.token(&claims()), now()).await;
    assert_eq!(refused, Err(Refusal::UnknownKey { issuer: ISSUER.to_owned() }));
}

#[test]
fn a_token_of_an_issuer_is_told_from_one_of_the_plane() {
    assert!(Verifier::is_meant_by(&Key::new("a").token(&claims())));
    for other in ["fettle_abc", "eyJhbGciOiJub25lIn0", "a.b.c", ""] {
        assert!(!Verifier::is_meant_by(other), "{other}");
    }
}

#[test]
fn nothing_of_a_token_is_in_a_refusal_but_who_it_says_it_is_from() {
    let long = Refusal::UnknownIssuer("https://login.example".to_owned()).to_string();
    assert!(long.contains("letter by letter"));
    let codes = [Refusal::Malformed.code(), Refusal::Expired.code(), Refusal::NotYetValid.code()];
    assert!(codes.iter().all(|code| code.starts_with("openid.")), "{codes:?}");
}
