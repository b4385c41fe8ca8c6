//! Attacks through what a toolchain drags in.

use std::{hint::black_box, io::Write as _, time::Duration};

use crate::Attack;

pub(crate) fn attack(attack: Attack, count: usize) {
    match attack {
        Attack::Handles => handles(count),
        Attack::Streams => streams(count),
        Attack::Random => {
            black_box(wasip2::random::random::get_random_bytes((count as u64) << 20));
        }
        Attack::Sleep => sleep(Duration::from_secs(count as u64)),
        _ => {}
    }
}

fn handles(count: usize) {
    let mut kept = Vec::new();
    while count == 0 || kept.len() < count {
        kept.push(wasip2::clocks::monotonic_clock::subscribe_duration(1_000_000_000_000));
    }
    black_box(&kept);
}

fn streams(mebibytes: usize) {
    let block = vec![b'x'; 4096];
    let mut written = 0_usize;
    while mebibytes == 0 || written < mebibytes << 20 {
        // An error is no reason to stop.
        let _ = std::io::stdout().write_all(&block);
        let _ = std::io::stderr().write_all(&block);
        written = written.saturating_add(2 * block.len());
    }
}

fn sleep(duration: Duration) {
    let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    wasip2::clocks::monotonic_clock::subscribe_duration(nanoseconds).block();
}
