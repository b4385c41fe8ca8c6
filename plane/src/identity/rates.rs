//! How often each token may ask.

use std::time::Duration;

use fettle_store::{id::TokenId, secret::SecretHash};
use governor::{
    Quota, RateLimiter,
    clock::{Clock, DefaultClock},
    middleware::NoOpMiddleware,
    state::keyed::HashMapStateStore,
};

use crate::config::RateLimit;

/// Whose requests are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Rated {
    /// The holder of a token.
    Token(TokenId),
    /// One person of one OpenID provider, whatever tokens that one comes with.
    User(SecretHash),
}

/// What the crate counts in: one cell for each.
type Limiter<C> = RateLimiter<Rated, HashMapStateStore<Rated>, C, NoOpMiddleware<<C as Clock>::Instant>>;

/// One rate for each. Only those whose tokens are valid get here, so there are no more entries than tokens and people.
pub(crate) struct Rates<C: Clock + Clone = DefaultClock> {
    limiter: Option<Limiter<C>>,
    clock: C,
}

impl Rates {
    /// By the clock of the system. Without a limit everything may be asked.
    pub(crate) fn new(limit: Option<RateLimit>) -> Self {
        Self::with_clock(limit, DefaultClock::default())
    }
}

impl<C: Clock + Clone> Rates<C> {
    fn with_clock(limit: Option<RateLimit>, clock: C) -> Self {
        let quota = |limit: RateLimit| Quota::per_second(limit.per_second).allow_burst(limit.burst);
        let limiter = limit.map(|limit| RateLimiter::hashmap_with_clock(quota(limit), clock.clone()));
        Self { limiter, clock }
    }

    /// Counts a request.
    ///
    /// # Errors
    /// How long to wait, when it is one too many.
    pub(super) fn take(&self, whose: Rated) -> Result<(), Duration> {
        let Some(limiter) = &self.limiter else { return Ok(()) };
        limiter.check_key(&whose).map_err(|early| early.wait_time_from(self.clock.now()))
    }
}

#[cfg(test)]
mod tests {
    use governor::clock::FakeRelativeClock;

    use super::*;

    #[test]
    fn a_token_has_its_burst_then_its_rate_and_takes_nothing_from_others() {
        let limit = RateLimit { per_second: 2.try_into().unwrap(), burst: 3.try_into().unwrap() };
        let clock = FakeRelativeClock::default();
        let rates = Rates::with_clock(Some(limit), clock.clone());
        let token = |number| Rated::Token(TokenId::new(ulid::Ulid::from_parts(1, number)));
        assert!((0..3).all(|_| rates.take(token(1)).is_ok()));
        assert_eq!(rates.take(token(1)), Err(Duration::from_millis(500)));
        assert_eq!(rates.take(token(2)), Ok(()));
        clock.advance(Duration::from_millis(500));
        assert_eq!(rates.take(token(1)), Ok(()));
        assert!(rates.take(token(1)).is_err());
        assert!(Rates::new(None).take(token(1)).is_ok());
    }
}
