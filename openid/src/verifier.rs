//! From a token to an identity.

use std::{collections::BTreeMap, sync::Arc};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use jsonwebtoken::{
    Algorithm, DecodingKey, Validation, decode,
    errors::ErrorKind,
    jwk::{Jwk, KeyAlgorithm},
};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{Discovery, Issuer, IssuerError, Refusal, Source, keys::Keys, refusal::cut};

/// The longest token in bytes. Those with hundreds of groups have some thousands.
const LONGEST: usize = 16 << 10;

/// Seconds that the clocks of issuer and plane may differ.
const LEEWAY: i64 = 60;

/// Signatures that only the issuer can make. With `none` nobody signs, and with `HS256` whoever knows the key.
const TAKEN: [(&str, Algorithm); 9] = [
    ("RS256", Algorithm::RS256),
    ("RS384", Algorithm::RS384),
    ("RS512", Algorithm::RS512),
    ("PS256", Algorithm::PS256),
    ("PS384", Algorithm::PS384),
    ("PS512", Algorithm::PS512),
    ("ES256", Algorithm::ES256),
    ("ES384", Algorithm::ES384),
    ("EdDSA", Algorithm::EdDSA),
];

/// Somebody, by the word of an issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Who says so.
    pub issuer: String,
    /// What the issuer knows it by; never given to anybody else.
    pub subject: String,
    /// What people call it by; another one may have it tomorrow.
    pub name: String,
    /// All that the issuer says.
    pub claims: Map<String, Value>,
    /// Until when the issuer says so.
    pub expires_at: Timestamp,
}

/// Believes a few issuers.
pub struct Verifier(BTreeMap<String, Believed>);

struct Believed {
    issuer: Issuer,
    keys: Arc<Keys>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    /// What a reader must understand, or refuse (RFC 7515, 4.1.11). Nothing of that kind is understood here.
    crit: Option<Value>,
}

#[derive(Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    exp: f64,
    nbf: Option<f64>,
    iat: Option<f64>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

impl Verifier {
    /// Asks these issuers over the network. Nothing is sent yet.
    ///
    /// # Errors
    /// When one cannot be believed, or is there twice.
    pub fn of(issuers: Vec<Issuer>) -> Result<Self, IssuerError> {
        let with_source = issuers.into_iter().map(|issuer| {
            let source: Box<dyn Source> = Box::new(Discovery::of(&issuer)?);
            Ok((issuer, source))
        });
        Self::with(with_source.collect::<Result<_, _>>()?)
    }

    /// The same with other sources of keys.
    ///
    /// # Errors
    /// When one cannot be believed, or is there twice.
    pub fn with(issuers: Vec<(Issuer, Box<dyn Source>)>) -> Result<Self, IssuerError> {
        let mut believed = BTreeMap::new();
        for (issuer, source) in issuers {
            issuer.check()?;
            let (name, keys) = (issuer.issuer.clone(), Keys::of(issuer.issuer.clone(), source));
            if believed.insert(name.clone(), Believed { issuer, keys }).is_some() {
                return Err(IssuerError::Twice(name));
            }
        }
        Ok(Self(believed))
    }

    /// Whether a bearer token looks like one of an issuer: three parts, of which the first is a header.
    #[must_use]
    pub fn is_meant_by(token: &str) -> bool {
        token.starts_with("eyJ") && token.bytes().filter(|byte| *byte == b'.').count() == 2
    }

    /// Who the holder of a token is.
    ///
    /// # Errors
    /// Why it says nothing.
    pub async fn verify(&self, token: &str, now: Timestamp) -> Result<Identity, Refusal> {
        let (header, claimed) = unverified(token).ok_or(Refusal::Malformed)?;
        let taken = TAKEN.iter().find(|(name, _)| *name == header.alg);
        let &(_, algorithm) = taken.ok_or_else(|| Refusal::Algorithm(cut(&header.alg)))?;
        let believed = self.0.get(&claimed.iss).ok_or_else(|| Refusal::UnknownIssuer(cut(&claimed.iss)))?;
        let keys = believed.keys.find(header.kid.as_deref(), now).await?;
        let mut refusal = Refusal::UnknownKey { issuer: claimed.iss };
        for key in keys.iter().filter(|key| is_for(key, algorithm)) {
            match believed.checked(token, key, algorithm) {
                Ok(claims) => return believed.identity(claims, now),
                Err(other) => refusal = other,
            }
        }
        Err(refusal)
    }
}

/// What a token says before anybody has looked at its signature.
fn unverified(token: &str) -> Option<(Header, Claims)> {
    let mut parts = (token.len() <= LONGEST).then_some(token)?.split('.');
    let (header, claims) = (parts.next()?, parts.next()?);
    let decode = |part| URL_SAFE_NO_PAD.decode(part).ok();
    let header: Header = serde_json::from_slice(&decode(header)?).ok()?;
    let claims = serde_json::from_slice(&decode(claims)?).ok()?;
    header.crit.is_none().then_some((header, claims))
}

/// Whether a key may be used so: one that names its algorithm is for no other.
fn is_for(key: &Jwk, algorithm: Algorithm) -> bool {
    let named = key.common.key_algorithm.as_ref();
    named.is_none_or(|named: &KeyAlgorithm| named.to_string().parse() == Ok(algorithm))
}

impl Believed {
    fn checked(&self, token: &str, key: &Jwk, algorithm: Algorithm) -> Result<Claims, Refusal> {
        let issuer = || self.issuer.issuer.clone();
        let key = DecodingKey::from_jwk(key).map_err(|_| Refusal::UnknownKey { issuer: issuer() })?;
        let mut validation = Validation::new(algorithm);
        let audiences: Vec<_> = self.issuer.audiences.iter().collect();
        validation.set_audience(&audiences);
        validation.set_issuer(&[&self.issuer.issuer]);
        validation.set_required_spec_claims(&["exp", "iss", "sub", "aud"]);
        // By our own clock.
        (validation.validate_exp, validation.validate_nbf) = (false, false);
        let checked = decode::<Claims>(token, &key, &validation);
        checked.map(|token| token.claims).map_err(|error| match error.kind() {
            ErrorKind::InvalidAudience => Refusal::Audience(self.audiences()),
            ErrorKind::MissingRequiredClaim(_) | ErrorKind::Json(_) | ErrorKind::Base64(_) => Refusal::Malformed,
            _ => Refusal::Signature { issuer: issuer() },
        })
    }

    fn audiences(&self) -> String {
        self.issuer.audiences.iter().map(|one| format!("`{one}`")).collect::<Vec<_>>().join(" or ")
    }

    fn identity(&self, claims: Claims, now: Timestamp) -> Result<Identity, Refusal> {
        let second = now.as_second();
        if seconds(claims.exp) + LEEWAY <= second {
            return Err(Refusal::Expired);
        }
        // Made in the future, or not meant for now.
        if [claims.nbf, claims.iat].into_iter().flatten().any(|at| seconds(at) - LEEWAY > second) {
            return Err(Refusal::NotYetValid);
        }
        let named = self.issuer.name_claim.as_deref().and_then(|claim| claims.others.get(claim));
        let name = named.and_then(Value::as_str).filter(|name| !name.is_empty()).unwrap_or(&claims.sub);
        let (name, expires_at) = (cut(name), Timestamp::from_second(seconds(claims.exp)).unwrap_or(Timestamp::MAX));
        let mut all = claims.others;
        all.insert("sub".to_owned(), claims.sub.clone().into());
        Ok(Identity { issuer: claims.iss, subject: claims.sub, name, claims: all, expires_at })
    }
}

/// A NumericDate (RFC 7519, 2), which may have a fraction.
#[expect(clippy::cast_possible_truncation, reason = "what is beyond any time ends at the last one")]
fn seconds(date: f64) -> i64 {
    date as i64
}
