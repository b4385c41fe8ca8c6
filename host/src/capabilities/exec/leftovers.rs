//! Processes that an attempt left behind: found by a mark in their environment, and killed.
//!
//! A child that left its process group is still found this way, also after the host itself was killed.
//! One that also cleared its environment is not; only a cgroup could hold it.

use procfs::process::all_processes;
use rustix::process::{Pid, Signal, kill_process};

/// The variable that marks every program a host starts: `<host id>/<task>/<step>/<attempt>`.
pub const MARK: &str = "FETTLE_ATTEMPT";

/// Kills every process whose mark starts with `prefix`; answers how many.
pub fn kill(prefix: &str) -> usize {
    if prefix.is_empty() {
        return 0;
    }
    let Ok(processes) = all_processes() else { return 0 };
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let marked = |process: &procfs::process::Process| {
        let environment = process.environ().unwrap_or_default();
        let mark = environment.get(std::ffi::OsStr::new(MARK)).and_then(|value| value.to_str());
        mark.is_some_and(|mark| mark.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
    };
    processes
        .filter_map(Result::ok)
        .filter(|process| process.pid != own && marked(process))
        .filter_map(|process| Pid::from_raw(process.pid))
        .filter(|pid| kill_process(*pid, Signal::KILL).is_ok())
        .count()
}
