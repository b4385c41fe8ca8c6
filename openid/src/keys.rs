//! The keys of one issuer: kept, looked at again every hour, and at once when a token names one that is not known.

use std::sync::{Arc, PoisonError, RwLock};

use jiff::{SignedDuration, Timestamp};
use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, PublicKeyUse};

use crate::{Refusal, Source, Unavailable};

/// After that the keys are read again, beside whatever is verified with those that are known.
const FRESH: SignedDuration = SignedDuration::from_hours(1);

/// After that keys do not count any more that could not be read again: one may have been taken away meanwhile.
const STALE: SignedDuration = SignedDuration::from_hours(24);

/// The issuer is asked at most once in that time, however many tokens name keys that it does not have.
const PAUSE: SignedDuration = SignedDuration::from_secs(10);

/// Keys of an issuer that are looked at.
const MOST: usize = 64;

/// What is known of them.
#[derive(Clone, Default)]
struct Known {
    keys: Vec<Jwk>,
    read_at: Option<Timestamp>,
    tried_at: Option<Timestamp>,
    /// Why the last try failed.
    problem: Option<Unavailable>,
}

/// The keys of one issuer.
pub(crate) struct Keys {
    issuer: String,
    source: Box<dyn Source>,
    known: RwLock<Known>,
    reading: tokio::sync::Mutex<()>,
}

impl Known {
    fn age(&self, now: Timestamp) -> SignedDuration {
        self.read_at.map_or(SignedDuration::MAX, |at| now.duration_since(at).abs())
    }

    /// Those that a token with this header may be signed with.
    fn named(&self, id: Option<&str>, now: Timestamp) -> Vec<Jwk> {
        if self.age(now) > STALE {
            return Vec::new();
        }
        match id {
            Some(_) => self.keys.iter().filter(|key| key.common.key_id.as_deref() == id).cloned().collect(),
            // Without a name only where there is nothing to choose.
            None if self.keys.len() == 1 => self.keys.clone(),
            None => Vec::new(),
        }
    }
}

impl Keys {
    pub(crate) fn of(issuer: String, source: Box<dyn Source>) -> Arc<Self> {
        Arc::new(Self { issuer, source, known: RwLock::default(), reading: tokio::sync::Mutex::default() })
    }

    fn known(&self) -> Known {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The keys that a token names.
    pub(crate) async fn find(self: &Arc<Self>, id: Option<&str>, now: Timestamp) -> Result<Vec<Jwk>, Refusal> {
        let known = self.known();
        let named = known.named(id, now);
        if !named.is_empty() {
            if known.age(now) > FRESH {
                let keys = Arc::clone(self);
                tokio::spawn(async move { keys.read(now).await });
            }
            return Ok(named);
        }
        self.read(now).await;
        let known = self.known();
        let named = known.named(id, now);
        match (named.is_empty(), known.problem) {
            (false, _) => Ok(named),
            (true, Some(problem)) => {
                Err(Refusal::Unavailable { issuer: self.issuer.clone(), reason: problem.to_string() })
            }
            (true, None) => Err(Refusal::UnknownKey { issuer: self.issuer.clone() }),
        }
    }

    /// Reads them, unless that was tried a moment ago. Whoever comes meanwhile waits for the same answer.
    async fn read(&self, now: Timestamp) {
        let _one = self.reading.lock().await;
        if self.known().tried_at.is_some_and(|at| now.duration_since(at).abs() < PAUSE) {
            return;
        }
        let read = self.source.key_set().await;
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.tried_at = Some(now);
        match read {
            Ok(set) => {
                known.keys = set.keys.into_iter().filter(is_for_signatures).take(MOST).collect();
                (known.read_at, known.problem) = (Some(now), None);
            }
            Err(problem) => {
                tracing::warn!(issuer = self.issuer, reason = %problem, "the keys of an issuer cannot be read");
                known.problem = Some(problem);
            }
        }
    }
}

/// A public key of a kind that signs. A shared secret among them would let everybody sign who can read them.
fn is_for_signatures(key: &Jwk) -> bool {
    let signs = !matches!(key.common.public_key_use, Some(PublicKeyUse::Encryption));
    let is_public = matches!(
        key.algorithm,
        AlgorithmParameters::RSA(_) | AlgorithmParameters::EllipticCurve(_) | AlgorithmParameters::OctetKeyPair(_)
    );
    signs && is_public
}
