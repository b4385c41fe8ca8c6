//! When a token was used last, written down once a minute at most.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use fettle_store::{context::Actor, id::TokenId, token::Token};
use jiff::{SignedDuration, Timestamp};

use crate::state::State;

/// A use is written down when the one before is older than that.
const EVERY: SignedDuration = SignedDuration::from_mins(1);

/// Tokens remembered at most; then all are forgotten.
const REMEMBERED: usize = 10_000;

/// When the last use of each token was written down, as far as this plane knows.
#[derive(Default)]
pub(crate) struct TokenUses(Mutex<HashMap<TokenId, Timestamp>>);

impl TokenUses {
    /// Whether this use is to be written down.
    fn is_due(&self, token: &Token, now: Timestamp) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = known.get(&token.id).copied().or(token.used_at);
        if last.is_some_and(|last| now.duration_since(last).abs() < EVERY) {
            return false;
        }
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(token.id, now);
        true
    }
}

/// Notes that a token is used. Nobody waits for it.
pub(super) fn note(state: &State, token: &Token) {
    if !state.token_uses.is_due(token, state.clock.now()) {
        return;
    }
    let (id, state) = (token.id, state.clone());
    let actor = Actor::Token { id, name: token.name.clone() };
    tokio::spawn(async move {
        let context = state.context(actor, String::new());
        if let Err(error) = state.store.record_token_use(id, context).await {
            tracing::warn!(%error, "the last use of a token could not be written down");
        }
    });
}

#[cfg(test)]
mod tests {
    use fettle_store::token::Access;

    use super::*;

    #[test]
    fn a_use_is_written_down_once_a_minute() {
        let at = |seconds: i64| Timestamp::from_second(seconds).unwrap();
        let token = |used_at: Option<i64>| Token {
            id: TokenId::new(ulid::Ulid(1)),
            name: "ci".to_owned(),
            access: Access::PlatformAdmin,
            created_at: at(0),
            expires_at: None,
            revoked_at: None,
            used_at: used_at.map(at),
        };
        let uses = TokenUses::default();
        // Another plane has written one down a moment ago.
        assert!(!uses.is_due(&token(Some(100)), at(130)));
        for (now, is_due) in [(200, true), (201, false), (259, false), (260, true), (261, false), (10, true)] {
            assert_eq!(uses.is_due(&token(Some(100)), at(now)), is_due, "{now}");
        }
    }
}
