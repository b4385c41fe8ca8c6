//! Facts from `/proc`.

use procfs::Current as _;

use crate::sandbox::bindings::fettle::facts::facts::{MemoryUsage, Process, SystemInformation};

const PROCESSES: usize = 32_768;

pub(super) fn unreadable<E: std::fmt::Display>(what: &'static str) -> impl Fn(E) -> String {
    move |error| format!("{what} cannot be read: {error}")
}

pub(super) fn system() -> Result<SystemInformation, String> {
    let name = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let pretty = release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))
        .map(|value| value.trim_matches('"').to_owned());
    let uptime = procfs::Uptime::current().map_err(unreadable("/proc/uptime"))?;
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map_err(unreadable("the boot id"))?;
    Ok(SystemInformation {
        hostname: text(name.nodename()),
        operating_system: pretty.unwrap_or_else(|| text(name.sysname())),
        kernel_release: text(name.release()),
        architecture: text(name.machine()),
        boot_id: boot_id.trim().to_owned(),
        uptime_seconds: uptime.uptime_duration().as_secs(),
        processors: std::thread::available_parallelism()
            .map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX)),
    })
}

pub(super) fn memory() -> Result<MemoryUsage, String> {
    let memory = procfs::Meminfo::current().map_err(unreadable("/proc/meminfo"))?;
    Ok(MemoryUsage {
        total: memory.mem_total,
        available: memory.mem_available.ok_or("the kernel does not say how much memory is available")?,
        swap_total: memory.swap_total,
        swap_free: memory.swap_free,
    })
}

pub(super) fn processes() -> Result<Vec<Process>, String> {
    let uptime = procfs::Uptime::current().map_err(unreadable("/proc/uptime"))?.uptime_duration().as_secs();
    let ticks = procfs::ticks_per_second().max(1);
    let all = procfs::process::all_processes().map_err(unreadable("/proc"))?;
    // A process that ends while the list is read is no longer there: not an error.
    let stats = all.filter_map(|process| process.ok()?.stat().ok());
    let mut found: Vec<Process> = stats
        .take(PROCESSES)
        .filter_map(|stat| {
            let pid = u32::try_from(stat.pid).ok()?;
            Some(Process {
                pid,
                name: stat.comm,
                state: stat.state,
                age_seconds: uptime.saturating_sub(stat.starttime / ticks),
            })
        })
        .collect();
    found.sort_by_key(|process| process.pid);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_facts() {
        let memory = memory().unwrap();
        assert!(memory.total > 0 && memory.available <= memory.total);
        let own = std::process::id();
        assert!(processes().unwrap().iter().any(|process| process.pid == own));
        assert!(!system().unwrap().boot_id.is_empty());
    }
}
