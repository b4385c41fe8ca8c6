//! What a child gets and what it does not: whom it runs as, its limits, its descriptors, its control group.

use std::{
    io,
    os::fd::{AsRawFd as _, OwnedFd, RawFd},
};

use fettle_model::policy::ResourceLimits;
use rustix::{
    fs::Gid,
    process::{Resource, Rlimit, Signal, Uid, setrlimit},
};

/// How a program is held, beside what every program is.
#[derive(Debug, Default)]
pub struct Confinement {
    /// Whom it runs as; none is the host's own user.
    pub user: Option<Uid>,
    /// With which group; none is the host's own. The only one: supplementary groups are dropped.
    pub group: Option<Gid>,
    /// What it may use.
    pub limits: ResourceLimits,
    /// The file that is executed, when it was checked; otherwise what is at the path.
    pub checked: Option<OwnedFd>,
    /// Descriptors that it finds under the numbers they have here, and no other.
    pub inherited: Vec<OwnedFd>,
}

/// Sets up what happens between fork and execve. `entrance` is that of the program's control group.
#[expect(unsafe_code, reason = "pre_exec: only async-signal-safe system calls, no allocation, no locks")]
pub(super) fn confine(command: &mut std::process::Command, confinement: Confinement, entrance: Option<OwnedFd>) {
    use std::os::unix::process::CommandExt as _;

    command.process_group(0);
    // Changing user or group as root also drops all supplementary groups (std calls setgroups).
    if let Some(group) = confinement.group {
        command.gid(group.as_raw());
    }
    if let Some(user) = confinement.user {
        command.uid(user.as_raw());
    }
    let in_child = move || -> io::Result<()> {
        // All of it, so that every descriptor stays open until the child has been started.
        let confinement = &confinement;
        if let Some(entrance) = &entrance {
            rustix::io::write(entrance, b"0")?;
        }
        limit(&confinement.limits)?;
        rustix::thread::set_no_new_privs(true)?;
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        close_inherited()?;
        for descriptor in &confinement.inherited {
            keep(descriptor.as_raw_fd())?;
        }
        Ok(())
    };
    // SAFETY: `in_child` makes system calls only; it touches neither memory shared with the parent nor locks.
    unsafe {
        command.pre_exec(in_child);
    }
}

fn limit(limits: &ResourceLimits) -> io::Result<()> {
    let set = |resource, maximum: Option<u64>| match maximum {
        Some(maximum) => setrlimit(resource, Rlimit { current: Some(maximum), maximum: Some(maximum) }),
        None => Ok(()),
    };
    set(Resource::Core, Some(0))?;
    set(Resource::Nofile, Some(limits.open_files.into()))?;
    set(Resource::Nproc, limits.processes.map(u64::from))?;
    set(Resource::Fsize, limits.file_size_bytes)?;
    set(Resource::As, limits.memory_bytes)?;
    set(Resource::Cpu, limits.processor_seconds.map(u64::from))?;
    Ok(())
}

/// Marks every descriptor above standard error close-on-exec, whoever opened it.
fn close_inherited() -> io::Result<()> {
    mark_from(3)
}

/// Whether the system can mark descriptors so.
///
/// # Errors
/// When it cannot.
pub fn can_close_descriptors() -> io::Result<()> {
    // No descriptor has this number, so nothing changes.
    mark_from(libc::c_uint::MAX)
}

#[expect(unsafe_code, reason = "close_range has no safe wrapper; it takes three integers")]
fn mark_from(first: libc::c_uint) -> io::Result<()> {
    const CLOSE_RANGE_CLOEXEC: libc::c_int = 4;
    // SAFETY: no memory is passed.
    match unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, CLOSE_RANGE_CLOEXEC) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Takes the mark away again.
#[expect(unsafe_code, reason = "the descriptor is only borrowed for a system call that takes integers")]
fn keep(descriptor: RawFd) -> io::Result<()> {
    // SAFETY: no memory is passed; the descriptor is open in this process.
    match unsafe { libc::fcntl(descriptor, libc::F_SETFD, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
