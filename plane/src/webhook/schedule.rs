//! When an event is tried again: exponential waits with full jitter, and what the receiver asks for.

use std::time::Duration;

use super::{WebhookConfig, attempt::Answer};

/// Attempts when the receiver says that the request is wrong: it will hardly be right later.
const REFUSED: u32 = 4;

/// The longest wait that a receiver may ask for.
const LONGEST_ASKED: Duration = Duration::from_secs(24 * 3600);

/// How often an event is tried that is answered so.
pub(super) fn most(config: &WebhookConfig, answer: &Answer) -> u32 {
    match answer {
        Answer::Refused(_) => config.attempts.min(REFUSED),
        _ => config.attempts,
    }
}

/// How long to wait after that many attempts: a random part of a wait that doubles, and no less than was asked for.
pub(super) fn delay(config: &WebhookConfig, answer: &Answer, attempts: u32, random: u64) -> Duration {
    let doubled = 2_u32.saturating_pow(attempts.saturating_sub(1));
    let longest = config.first_delay.saturating_mul(doubled).min(config.longest_delay);
    let milliseconds = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
    let jittered = Duration::from_millis(random % milliseconds.saturating_add(1));
    match answer {
        Answer::Later { wait: Some(wait), .. } => jittered.max(*wait).min(LONGEST_ASKED),
        _ => jittered,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_are_spread_and_have_an_end() {
        let config = WebhookConfig::default();
        let failed = Answer::Failed("x".to_owned());
        let longest = |attempts| {
            let draws = (0..2_000_u64).map(|number| number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let waits: Vec<_> = draws.map(|random| delay(&config, &failed, attempts, random)).collect();
            let (least, most) = (*waits.iter().min().unwrap(), *waits.iter().max().unwrap());
            assert!(least < most / 10, "{attempts}: {least:?} to {most:?}");
            most
        };
        assert!((Duration::from_millis(4_500)..=Duration::from_secs(5)).contains(&longest(1)));
        assert!((Duration::from_secs(36)..=Duration::from_secs(40)).contains(&longest(4)));
        assert!((Duration::from_secs(3200)..=Duration::from_secs(3600)).contains(&longest(99)));
    }

    #[test]
    fn a_receiver_is_not_asked_before_it_wants_to_be_and_may_not_wait_for_ever() {
        let config = WebhookConfig::default();
        let later = |seconds| Answer::Later { status: 503, wait: Some(Duration::from_secs(seconds)) };
        assert_eq!(delay(&config, &later(90), 1, 3_000), Duration::from_secs(90));
        assert_eq!(delay(&config, &later(999_999), 1, 3_000), LONGEST_ASKED);
        assert_eq!(delay(&config, &later(0), 1, 3_000), Duration::from_secs(3));
        assert_eq!((most(&config, &later(1)), most(&config, &Answer::Refused(400))), (15, 4));
    }
}
