//! The points when they are compiled in.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::Write as _,
    sync::{Mutex, OnceLock, PoisonError},
};

use rustix::process::{Signal, getpid, kill_process};

struct Points {
    hits: BTreeMap<&'static str, u64>,
    trace: Option<File>,
    crash_at: Option<(String, u64)>,
}

impl Points {
    fn from_environment() -> Self {
        let trace = std::env::var_os("FETTLE_CRASH_TRACE").and_then(|path| {
            OpenOptions::new()
                .create(true)
                .append(true)
                .open(&path)
                .inspect_err(|error| eprintln!("FETTLE_CRASH_TRACE={}: {error}", path.display()))
                .ok()
        });
        let crash_at = std::env::var("FETTLE_CRASH_AT").ok().and_then(|text| {
            let parsed = text.rsplit_once(':').and_then(|(name, hit)| Some((name.to_owned(), hit.parse().ok()?)));
            if parsed.is_none() {
                eprintln!("FETTLE_CRASH_AT={text}: write `<point>:<n>`, like `store::before_commit:3`");
            }
            parsed
        });
        Self { hits: BTreeMap::new(), trace, crash_at }
    }

    fn hit(&mut self, name: &'static str) {
        let count = self.hits.entry(name).or_default();
        *count += 1;
        if let Some(trace) = &mut self.trace {
            // One write call, so that a line is whole even when the process dies right after.
            let _ = trace.write_all(format!("{name}:{count}\n").as_bytes());
        }
        if self.crash_at.as_ref().is_some_and(|(at, hit)| at == name && hit == count) {
            let _ = kill_process(getpid(), Signal::KILL);
            // The signal may be delivered a moment later; nothing may happen in between.
            loop {
                std::thread::park();
            }
        }
    }
}

/// A place where a test may kill the process.
pub fn point(name: &'static str) {
    static POINTS: OnceLock<Mutex<Points>> = OnceLock::new();
    let points = POINTS.get_or_init(|| Mutex::new(Points::from_environment()));
    points.lock().unwrap_or_else(PoisonError::into_inner).hit(name);
}
