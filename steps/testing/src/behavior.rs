//! What the modes do.

use std::{
    hash::{BuildHasher as _, Hasher as _, RandomState},
    hint::black_box,
};

use fettle_step::{Failure, exec, facts, files, gpu, report};
use serde_json::{Value, json};

use crate::input::{Input, Mode};

/// Does what `input.mode` says.
pub(crate) fn act(input: &Input) -> Result<Value, Failure> {
    match input.mode {
        Mode::Ok => Ok(input.value.clone()),
        Mode::Loop => endless(),
        Mode::Busy => Ok(json!(busy(input.count))),
        Mode::Allocate => allocate(),
        Mode::Log => Ok(log(input)),
        Mode::Panic => panic(&input.text),
        // These answer text that no typed output can make: see `Misbehaving`.
        Mode::InvalidJson | Mode::WrongSchema | Mode::HugeOutput => Ok(Value::Null),
        Mode::Fail => Err(fail(input)),
        Mode::Exec => execute(input),
        Mode::ReadFile => {
            let content = files::read(&input.path, files::CONTENT_LIMIT)?;
            Ok(json!(String::from_utf8_lossy(&content)))
        }
        Mode::WriteFile => Ok(json!(files::write(&input.path, input.text.as_bytes(), files::mode(0o644))?)),
        Mode::Stat => Ok(json!(files::stat(&input.path)?)),
        Mode::Facts => fact(&input.name),
        Mode::Gpu => Ok(json!(gpu::read()?)),
        Mode::Chance => Ok(json!(chance().to_string())),
        Mode::Ask => Ok(json!((0..input.count).filter(|_| fact(&input.name).is_err()).count())),
    }
}

/// The failure that `input` describes.
pub(crate) fn fail(input: &Input) -> Failure {
    Failure::new(input.class.into(), "testing.asked-for", input.text.clone())
}

/// Never ends.
pub(crate) fn endless() -> ! {
    let mut counter = 0_u64;
    loop {
        counter = black_box(counter.wrapping_add(1));
    }
}

/// A hash under a key that the standard library draws.
fn chance() -> u64 {
    RandomState::new().build_hasher().finish()
}

fn busy(millions: u64) -> u64 {
    let mut sum = 0_u64;
    for round in 0..millions.saturating_mul(1_000_000) {
        sum = black_box(sum.wrapping_mul(31).wrapping_add(round));
    }
    sum
}

fn allocate() -> ! {
    let mut kept: Vec<Vec<u8>> = Vec::new();
    loop {
        kept.push(black_box(vec![1; 1024 * 1024]));
    }
}

fn log(input: &Input) -> Value {
    let mut line = 0_u64;
    while input.count == 0 || line < input.count {
        report::info(&input.text);
        line += 1;
    }
    json!(line)
}

#[expect(clippy::panic, reason = "a host must survive it")]
fn panic(message: &str) -> ! {
    panic!("{message}");
}

fn execute(input: &Input) -> Result<Value, Failure> {
    let arguments: Vec<_> = (input.arguments.iter())
        .map(|(name, value)| exec::Argument { name: name.clone(), value: value.clone() })
        .collect();
    Ok(json!(exec::run(&input.name, &arguments)?))
}

fn fact(name: &str) -> Result<Value, Failure> {
    match name {
        "system" => Ok(json!(facts::system()?)),
        "memory" => Ok(json!(facts::memory()?)),
        "filesystems" => Ok(json!(facts::filesystems()?)),
        "processes" => Ok(json!(facts::processes()?)),
        "kernel-log" => Ok(json!(facts::kernel_log()?)),
        _ => Err(Failure::invalid_input("testing.fact", format!("there is no fact `{name}`"))),
    }
}
