//! A control group per program: whatever a program starts stays in it, whichever process group, session or
//! environment it chooses, and is killed with it.
//!
//! Only version 2 of control groups is used: below the group that the host itself is in, one for this host,
//! and in it one per program. No controller is needed, only the right to make directories there.

use std::{
    fs::File,
    io::{self, Read as _},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use procfs::process::Process;
use rustix::{
    fs::{Access, access},
    process::{Pid, Signal, kill_process},
};

/// How long killed processes may take to be gone.
const PATIENCE: Duration = Duration::from_millis(500);
/// How often it is looked whether they are.
const INTERVAL: Duration = Duration::from_millis(5);
/// Rounds of killing one by one, where the kernel cannot kill a group whole.
const ROUNDS: usize = 50;

/// The control groups of one host. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Cgroups(Arc<Home>);

#[derive(Debug)]
struct Home {
    directory: PathBuf,
    next: AtomicU64,
    /// Groups whose processes were not gone yet.
    stale: Mutex<Vec<PathBuf>>,
}

/// Why there are none.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// The kernel or the container has none of version 2.
    #[error("no control groups of version 2 are mounted; mount them at /sys/fs/cgroup")]
    NotMounted,
    /// The system does not say which group the host is in.
    #[error("the control group of this process cannot be found")]
    Unknown(#[source] procfs::ProcError),
    /// They belong to somebody else.
    #[error("{} may not be used; run the host as root, or as a systemd service with `Delegate=yes`", directory.display())]
    NotDelegated {
        /// The group.
        directory: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl Cgroups {
    /// Makes the group of the host with this id, and kills what an earlier run left in it. Answers how many
    /// processes that were.
    ///
    /// # Errors
    /// When this machine or this user has no control groups.
    pub fn open(host_id: &str) -> Result<(Self, usize), CgroupError> {
        let parent = own_group()?;
        let directory = parent.join(format!("fettle-{host_id}"));
        let not_delegated = |source: io::Error| CgroupError::NotDelegated { directory: directory.clone(), source };
        // A child is moved from the host's own group, which takes the right to write there as well.
        access(parent.join("cgroup.procs"), Access::WRITE_OK).map_err(|errno| not_delegated(errno.into()))?;
        match std::fs::create_dir(&directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(not_delegated(error)),
            Ok(()) | Err(_) => {}
        }
        access(directory.join("cgroup.procs"), Access::WRITE_OK).map_err(|errno| not_delegated(errno.into()))?;
        let home = Home { directory, next: AtomicU64::new(0), stale: Mutex::default() };
        let killed = home.clear();
        Ok((Self(Arc::new(home)), killed))
    }

    /// Makes the group of one program.
    pub(super) fn leaf(&self) -> io::Result<Leaf> {
        self.0.remove_stale();
        let directory = self.0.directory.join(self.0.next.fetch_add(1, Ordering::Relaxed).to_string());
        std::fs::create_dir(&directory)?;
        Ok(Leaf { home: Arc::clone(&self.0), directory })
    }
}

impl Home {
    fn leaves(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.directory).into_iter().flatten().filter_map(Result::ok);
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
    }

    /// Kills and removes every group that is there; answers how many processes were in them.
    fn clear(&self) -> usize {
        let mut killed = 0;
        for leaf in self.leaves() {
            killed += members(&leaf).len();
            kill(&leaf);
            self.remove(leaf);
        }
        killed
    }

    fn remove(&self, leaf: PathBuf) {
        if std::fs::remove_dir(&leaf).is_err_and(|error| error.kind() != io::ErrorKind::NotFound) {
            self.stale.lock().unwrap_or_else(PoisonError::into_inner).push(leaf);
        }
    }

    fn remove_stale(&self) {
        let stale = std::mem::take(&mut *self.stale.lock().unwrap_or_else(PoisonError::into_inner));
        for leaf in stale {
            kill(&leaf);
            self.remove(leaf);
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.remove_stale();
        let _ = std::fs::remove_dir(&self.directory);
    }
}

/// The group of one program. Dropping it kills everything in it.
#[derive(Debug)]
pub(super) struct Leaf {
    home: Arc<Home>,
    directory: PathBuf,
}

impl Leaf {
    /// What a child writes `0` to, to enter.
    pub(super) fn entrance(&self) -> io::Result<OwnedFd> {
        Ok(File::options().write(true).open(self.directory.join("cgroup.procs"))?.into())
    }

    /// Kills everything in it.
    pub(super) fn kill(&self) {
        kill(&self.directory);
    }

    /// Waits until nothing is left in it, a short time at most: a process in the middle of a broken system
    /// call does not end.
    pub(super) async fn emptied(&self) {
        let empty = async {
            while is_populated(&self.directory) {
                tokio::time::sleep(INTERVAL).await;
            }
        };
        let _ = tokio::time::timeout(PATIENCE, empty).await;
    }
}

impl Drop for Leaf {
    fn drop(&mut self) {
        self.kill();
        self.home.remove(std::mem::take(&mut self.directory));
    }
}

/// The directory of the group that this process is in.
fn own_group() -> Result<PathBuf, CgroupError> {
    let myself = Process::myself().map_err(CgroupError::Unknown)?;
    let group = myself.cgroups().map_err(CgroupError::Unknown)?.into_iter().find(|group| group.hierarchy == 0);
    let mounts = myself.mountinfo().map_err(CgroupError::Unknown)?;
    let mount = mounts.into_iter().find(|mount| mount.fs_type == "cgroup2");
    let (Some(group), Some(mount)) = (group, mount) else { return Err(CgroupError::NotMounted) };
    // In a container, the mount may show a part of the tree only.
    let below = group.pathname.strip_prefix(mount.root.trim_end_matches('/')).unwrap_or(&group.pathname);
    Ok(mount.mount_point.join(below.trim_start_matches('/')))
}

fn members(group: &Path) -> Vec<Pid> {
    let text = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).filter_map(Pid::from_raw).collect()
}

fn is_populated(group: &Path) -> bool {
    let mut text = String::new();
    let read = File::open(group.join("cgroup.events")).and_then(|mut file| file.read_to_string(&mut text));
    read.is_ok() && text.lines().any(|line| line == "populated 1")
}

/// Kills a group whole. Before Linux 5.14 one by one, until nobody is left.
fn kill(group: &Path) {
    if std::fs::write(group.join("cgroup.kill"), "1").is_ok() {
        return;
    }
    for _ in 0..ROUNDS {
        let members = members(group);
        if members.is_empty() {
            return;
        }
        for pid in members {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}
