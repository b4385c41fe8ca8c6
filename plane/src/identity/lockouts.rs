//! Who is not listened to for a while, because of what came before: addresses that show tokens which do not count, and
//! tokens and people that ask again and again for what they may not.
//!
//! A token has 192 bits and is not guessed; this keeps whoever tries from asking the database without end, and makes the
//! trying seen. Each plane counts for itself.

use std::{
    collections::HashMap,
    num::NonZeroU32,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use fettle_store::{audit::Refusal, context::Context};
use governor::{
    Quota, RateLimiter,
    clock::{Clock, DefaultClock, Reference as _},
    middleware::NoOpMiddleware,
    state::keyed::HashMapStateStore,
};

use super::{network::Network, rates::Rated};
use crate::{config::Lockout, state::State};

/// Whoever is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Suspect {
    /// An address that shows tokens which do not count.
    Network(Network),
    /// The holder of a token that counts, who is refused.
    Identity(Rated),
}

/// Those who are told apart.
const MOST: usize = 10_000;

/// After so many counts those who were quiet are forgotten.
const FORGOTTEN_AFTER: u32 = 1_000;

type Counted<C> = RateLimiter<Suspect, HashMapStateStore<Suspect>, C, NoOpMiddleware<<C as Clock>::Instant>>;

/// What is counted, and who is locked out.
pub(crate) struct Lockouts<C: Clock + Clone = DefaultClock> {
    limits: Option<Limits<C>>,
    clock: C,
}

struct Limits<C: Clock> {
    failures: Counted<C>,
    refusals: Counted<C>,
    until: Mutex<HashMap<Suspect, C::Instant>>,
    lasts: Duration,
    counts: AtomicU32,
}

impl Lockouts {
    /// By the clock of the system; nobody is locked out without a limit.
    pub(crate) fn new(limit: Option<Lockout>) -> Self {
        Self::with_clock(limit, DefaultClock::default())
    }
}

impl<C: Clock + Clone> Lockouts<C> {
    fn with_clock(limit: Option<Lockout>, clock: C) -> Self {
        let counted = |at_once: NonZeroU32, clock: C| {
            RateLimiter::hashmap_with_clock(Quota::per_minute(at_once).allow_burst(at_once), clock)
        };
        let limits = limit.map(|Lockout { after, lasts }| Limits {
            failures: counted(after, clock.clone()),
            refusals: counted(after.saturating_mul(REFUSALS), clock.clone()),
            until: Mutex::default(),
            lasts,
            counts: AtomicU32::new(0),
        });
        Self { limits, clock }
    }

    /// How long this one is not listened to yet.
    pub(crate) fn wait(&self, suspect: Suspect) -> Option<Duration> {
        let limits = self.limits.as_ref()?;
        let now = self.clock.now();
        let until = *limits.until.lock().unwrap_or_else(PoisonError::into_inner).get(&suspect)?;
        let wait = Duration::from(until.duration_since(now));
        (!wait.is_zero()).then_some(wait)
    }

    /// Counts something that this one should not have done; whether it is locked out from now on.
    fn count(&self, suspect: Suspect) -> bool {
        let Some(limits) = &self.limits else { return false };
        let counted = match suspect {
            Suspect::Network(_) => &limits.failures,
            Suspect::Identity(_) => &limits.refusals,
        };
        if limits.counts.fetch_add(1, Ordering::Relaxed).is_multiple_of(FORGOTTEN_AFTER) {
            counted.retain_recent();
        }
        if counted.len() > MOST || counted.check_key(&suspect).is_ok() {
            return false;
        }
        let now = self.clock.now();
        let mut until = limits.until.lock().unwrap_or_else(PoisonError::into_inner);
        if until.len() >= MOST {
            until.retain(|_, until| *until > now);
        }
        if until.len() >= MOST {
            return false;
        }
        until.insert(suspect, now + limits.lasts.into());
        true
    }
}

/// How many times as often somebody whose token counts may be refused, as an address may come with one that does not: a
/// script that asks for what it may not is a mistake more often than an attack.
const REFUSALS: NonZeroU32 = NonZeroU32::new(3).unwrap();

/// Counts what somebody should not have done. That one is locked out from now on is written down once.
pub(crate) async fn count(state: &State, suspect: Suspect, name: String, context: Context) {
    if !state.lockouts.count(suspect) {
        return;
    }
    let of = match suspect {
        Suspect::Network(_) => "address",
        Suspect::Identity(_) => "identity",
    };
    state.metrics.lockouts.with([of]).inc();
    tracing::warn!(of, name, "somebody is locked out for a while");
    let refusal = Refusal {
        scope: "platform".to_owned(),
        action: "access.lock_out",
        resource_name: name,
        code: "access.locked_out",
        details: None,
    };
    if let Err(error) = state.store.record_refusal(refusal, context).await {
        tracing::error!(%error, "a lock-out could not be written down");
    }
}

#[cfg(test)]
mod tests {
    use governor::clock::FakeRelativeClock;

    use super::*;

    fn address(last: u8) -> Suspect {
        Suspect::Network(Network::of(std::net::IpAddr::from([203, 0, 113, last])))
    }

    fn lockouts(after: u32) -> (Lockouts<FakeRelativeClock>, FakeRelativeClock) {
        let clock = FakeRelativeClock::default();
        let limit = Lockout { after: after.try_into().unwrap(), lasts: Duration::from_secs(60) };
        (Lockouts::with_clock(Some(limit), clock.clone()), clock)
    }

    #[test]
    fn whoever_fails_too_often_is_locked_out_for_a_while_and_nobody_else_is() {
        let (lockouts, clock) = lockouts(3);
        assert!((0..3).all(|_| !lockouts.count(address(1)) && lockouts.wait(address(1)).is_none()));
        assert!(lockouts.count(address(1)));
        assert_eq!(lockouts.wait(address(1)), Some(Duration::from_secs(60)));
        assert_eq!(lockouts.wait(address(2)), None);
        clock.advance(Duration::from_secs(59));
        assert_eq!(lockouts.wait(address(1)), Some(Duration::from_secs(1)));
        clock.advance(Duration::from_secs(1));
        assert_eq!(lockouts.wait(address(1)), None);
        assert!(!lockouts.count(address(1)), "after that it may fail again");
    }

    #[test]
    fn who_fails_now_and_then_is_never_locked_out() {
        let (lockouts, clock) = lockouts(3);
        for _ in 0..100 {
            assert!(!lockouts.count(address(1)));
            clock.advance(Duration::from_secs(20));
        }
    }

    #[test]
    fn somebody_whose_token_counts_may_be_refused_three_times_as_often() {
        let (lockouts, _) = lockouts(3);
        let token = Suspect::Identity(Rated::Token(fettle_store::id::TokenId::new(ulid::Ulid::from_parts(1, 1))));
        assert!((0..9).all(|_| !lockouts.count(token)));
        assert!(lockouts.count(token));
    }

    #[test]
    fn what_is_remembered_is_bounded_and_without_a_limit_nobody_is_locked_out() {
        let (lockouts, _) = lockouts(1);
        for number in 0..20_000_u32 {
            let one = Suspect::Network(Network::of(std::net::IpAddr::from(number.to_be_bytes())));
            lockouts.count(one);
            lockouts.count(one);
        }
        let limits = lockouts.limits.as_ref().unwrap();
        assert!(limits.until.lock().unwrap().len() <= MOST && limits.failures.len() <= MOST + 1);
        let without = Lockouts::new(None);
        assert!((0..1000).all(|_| !without.count(address(1))));
        assert_eq!(without.wait(address(1)), None);
    }
}
