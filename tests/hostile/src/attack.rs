//! The attacks.

use std::hint::black_box;

use fettle_step::{Failure, exec, facts, files, report, transfer};

use crate::{Attack, Input};

const MIB: usize = 1 << 20;

/// Does what `input` says; answers how far it came.
pub(crate) fn launch(input: &Input) -> Result<String, Failure> {
    let count = usize::try_from(input.count).unwrap_or(usize::MAX);
    match input.attack {
        Attack::None => repeat(input.count, |_| {
            black_box(compute(1));
            facts::memory()?;
            Ok(())
        })?,
        Attack::Memory => return Ok(memory(count)),
        Attack::Churn => repeat(input.count.saturating_mul(1000), |_| {
            black_box(vec![1_u8; MIB]);
            Ok(())
        })?,
        Attack::Compute => return Ok(compute(input.count).to_string()),
        Attack::Calls => repeat(input.count, |_| facts::memory().map(|_| ()).map_err(Into::into))?,
        Attack::Log => repeat(input.count, |line| {
            report::info(&format!("line {line:>20} of a step that has a lot to say today"));
            Ok(())
        })?,
        Attack::Argument => report::info(&"x".repeat(count.saturating_mul(MIB))),
        Attack::Answer => repeat(input.count, |_| {
            black_box(files::read(&input.target, files::CONTENT_LIMIT)?);
            Ok(())
        })?,
        Attack::Output => return Ok("x".repeat(count)),
        Attack::Recursion => return Ok(recurse(input.count).to_string()),
        Attack::Clocks => return Ok(clocks()),
        Attack::Panic => panic(),
        Attack::Children => repeat(input.count, |_| exec::run(&input.target, &[]).map(|_| ()).map_err(Into::into))?,
        Attack::Transfers => repeat(input.count, |round| fetch(input, round))?,
        Attack::Hang => {
            facts::kernel_log()?;
        }
        Attack::Mounts => {
            facts::filesystems()?;
        }
        Attack::Handles | Attack::Streams | Attack::Random | Attack::Sleep => system(input.attack, count),
    }
    Ok("done".to_owned())
}

/// `count` times, or for ever when it is 0.
fn repeat(count: u64, mut act: impl FnMut(u64) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut round = 0;
    while count == 0 || round < count {
        act(round)?;
        round += 1;
    }
    Ok(())
}

fn memory(mebibytes: usize) -> String {
    let mut kept: Vec<Vec<u8>> = Vec::new();
    while mebibytes == 0 || kept.len() < mebibytes {
        kept.push(black_box(vec![1; MIB]));
    }
    format!("{} MiB", kept.len())
}

fn compute(millions: u64) -> u64 {
    let mut sum = 0_u64;
    let mut round = 0_u64;
    while millions == 0 || round < millions.saturating_mul(1_000_000) {
        sum = black_box(sum.wrapping_mul(31).wrapping_add(round));
        round = round.wrapping_add(1);
    }
    sum
}

fn recurse(depth: u64) -> u64 {
    let frame = black_box([depth; 16]);
    if depth == 1 {
        return frame.iter().copied().fold(0, u64::wrapping_add);
    }
    black_box(recurse(depth.wrapping_sub(1))).wrapping_add(black_box(frame)[0])
}

#[expect(clippy::disallowed_methods, reason = "what they say is what it tries to find out")]
fn clocks() -> String {
    format!("{:?}, {:?}", std::time::SystemTime::now(), std::time::Instant::now())
}

#[expect(clippy::panic, reason = "a host must survive it")]
fn panic() -> ! {
    panic!("a step that panics");
}

fn fetch(input: &Input, round: u64) -> Result<(), Failure> {
    let blobs: Vec<_> = (input.digests.iter().enumerate())
        .map(|(index, digest)| transfer::Blob {
            digest: digest.clone(),
            size: 5,
            destination: format!("data/hostile/{round}-{index}"),
        })
        .collect();
    transfer::pull_blobs(&input.target, &blobs)?;
    Ok(())
}

#[cfg(target_arch = "wasm32")]
fn system(attack: Attack, count: usize) {
    crate::wasi::attack(attack, count);
}

/// Only a component has such interfaces.
#[cfg(not(target_arch = "wasm32"))]
const fn system(_attack: Attack, _count: usize) {}
