//! Many seeds: each in a process of its own, since nothing else gives it the same chance again.

use std::{
    ops::Range,
    path::Path,
    process::{Command, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::broken::Broken;

/// What a process said of its seed.
#[derive(Clone, Debug)]
pub struct Said {
    /// The seed.
    pub seed: u64,
    /// Whether every law held.
    pub held: bool,
    /// All of it.
    pub text: String,
}

/// Simulates one seed with this program.
///
/// # Errors
/// When the program cannot be started.
pub fn one(program: &Path, seed: u64, broken: Option<Broken>) -> std::io::Result<Said> {
    let mut arguments = vec!["seed".to_owned(), seed.to_string()];
    arguments.extend(broken.into_iter().flat_map(|broken| ["--broken".to_owned(), broken.name().to_owned()]));
    run(program, seed, arguments)
}

/// Simulates one seed in which nothing goes wrong, until certificates were renewed so often.
///
/// # Errors
/// When the program cannot be started.
pub fn renewals(program: &Path, seed: u64, renewals: u64) -> std::io::Result<Said> {
    run(program, seed, vec!["renewals".to_owned(), seed.to_string(), renewals.to_string()])
}

#[expect(clippy::disallowed_methods, reason = "a simulation starts itself; nothing of it runs on a node")]
fn run(program: &Path, seed: u64, arguments: Vec<String>) -> std::io::Result<Said> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output()?;
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Ok(Said { seed, held: output.status.success(), text })
}

/// Simulates seeds, as many at once as there are processors, until `enough` says so; what was said of them.
///
/// # Errors
/// When the program cannot be started.
pub fn all(
    program: &Path,
    seeds: Range<u64>,
    broken: Option<Broken>,
    enough: impl Fn(&Said) -> bool + Sync,
) -> std::io::Result<Vec<Said>> {
    let next = AtomicU64::new(seeds.start);
    let said = Mutex::new(Vec::new());
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let work = || -> std::io::Result<()> {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= seeds.end {
                    return Ok(());
                }
                let of_seed = one(program, seed, broken)?;
                if enough(&of_seed) {
                    next.store(seeds.end, Ordering::Relaxed);
                }
                said.lock().unwrap_or_else(PoisonError::into_inner).push(of_seed);
            }
        };
        let threads: Vec<_> = (0..processors).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(std::io::ErrorKind::Other.into())))
    })?;
    let mut said = said.into_inner().unwrap_or_else(PoisonError::into_inner);
    said.sort_by_key(|said| said.seed);
    Ok(said)
}
