//! Mounted file systems. Asking one whose server is gone blocks for as long as the server stays away, so
//! each has a deadline, and one that has not answered yet is not asked again.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use futures::{FutureExt as _, future::FusedFuture as _};
use procfs::{FromRead as _, process::MountInfos};
use tokio::sync::mpsc;

use super::read::unreadable;
use crate::{blocking::Blocking, sandbox::bindings::fettle::facts::facts::Filesystem};

const FILESYSTEMS: usize = 512;

/// How long one mount may take to answer. A healthy network server needs milliseconds.
const DEADLINE: Duration = Duration::from_secs(2);

/// File systems that hold no data of their own.
const PSEUDO: [&str; 24] = [
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fuse.lxcfs",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "nsfs",
    "proc",
    "pstore",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "sysfs",
    "tracefs",
    "ramfs",
    "fuse.portal",
];

/// Mounts that were asked and have not answered. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Silent(Arc<Mutex<BTreeMap<PathBuf, Asked>>>);

/// Who waits for one mount.
#[derive(Debug)]
struct Asked {
    since: Instant,
    threads: usize,
    /// Somebody has waited for it in vain.
    given_up: bool,
}

impl Silent {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Asked>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a mount may be asked: not while one who asked before has waited in vain.
    fn begin(&self, at: &Path) -> bool {
        let mut asked = self.lock();
        let entry =
            asked.entry(at.to_owned()).or_insert_with(|| Asked { since: Instant::now(), threads: 0, given_up: false });
        let answers = !entry.given_up && entry.since.elapsed() < DEADLINE;
        entry.threads += usize::from(answers);
        answers
    }

    /// Somebody stops waiting for a mount. From now on it is not asked, however late the thread began that
    /// asks it.
    fn give_up(&self, at: &Path) {
        if let Some(entry) = self.lock().get_mut(at) {
            entry.given_up = true;
        }
    }

    fn end(&self, at: &Path) {
        let mut asked = self.lock();
        let left = asked.get_mut(at).map(|entry| {
            entry.threads = entry.threads.saturating_sub(1);
            entry.threads
        });
        if left == Some(0) {
            asked.remove(at);
        }
    }
}

/// A mount that is to be asked.
#[derive(Clone)]
pub(super) struct Mount {
    at: PathBuf,
    source: String,
    kind: String,
    read_only: bool,
}

/// All mounts that hold data, as the kernel lists them in this file.
pub(super) fn list(mounts: &Path) -> Result<Vec<Mount>, String> {
    let mounts = MountInfos::from_file(mounts).map_err(unreadable("the list of mounts"))?;
    let mut found: Vec<Mount> = Vec::new();
    for mount in mounts.0.into_iter().filter(|mount| !PSEUDO.contains(&mount.fs_type.as_str())) {
        // A later mount hides an earlier one at the same place.
        found.retain(|earlier| earlier.at != mount.mount_point);
        found.push(Mount {
            at: mount.mount_point,
            source: mount.mount_source.unwrap_or_default(),
            kind: mount.fs_type,
            read_only: mount.mount_options.contains_key("ro") || mount.super_options.contains_key("ro"),
        });
    }
    found.truncate(FILESYSTEMS);
    Ok(found)
}

/// Asks each for its sizes. One thread goes from mount to mount; when it gets stuck, another goes on with
/// the next.
pub(super) async fn ask(blocking: &Blocking, silent: &Silent, mounts: Vec<Mount>) -> Result<Vec<Filesystem>, String> {
    let mut found = Vec::new();
    let mut stuck: Vec<PathBuf> = Vec::new();
    let mut left = mounts;
    while !left.is_empty() {
        let (answers, mut answered) = mpsc::unbounded_channel();
        let (asked, silent_mounts) = (left.clone(), silent.clone());
        let work = blocking.run("asking a mounted file system", move || {
            for mount in asked {
                if answers.send(one(mount, &silent_mounts)).is_err() {
                    return;
                }
            }
        });
        let mut work = std::pin::pin!(work.fuse());
        loop {
            let next = async {
                tokio::select! {
                    biased;
                    answer = answered.recv() => answer,
                    _ = &mut work => answered.recv().await,
                }
            };
            match tokio::time::timeout(DEADLINE, next).await {
                Ok(Some(answer)) => {
                    left.remove(0);
                    match answer {
                        Answer::Known(filesystem) => found.push(filesystem),
                        Answer::Silent(at) => stuck.push(at),
                        Answer::Nothing => {}
                    }
                    if left.is_empty() {
                        // It has answered for all of them and is about to end: nobody leaves it behind.
                        if !work.is_terminated() {
                            let _ = (&mut work).await;
                        }
                        break;
                    }
                }
                Ok(None) => return Err("asking the mounted file systems was abandoned".to_owned()),
                Err(_) => {
                    let mount = left.remove(0);
                    silent.give_up(&mount.at);
                    stuck.push(mount.at);
                    break;
                }
            }
        }
    }
    if stuck.is_empty() {
        return Ok(found);
    }
    let names: Vec<_> = stuck.iter().map(|at| at.to_string_lossy()).collect();
    Err(format!(
        "what is mounted at {} does not answer within {} s; bring its server back, or unmount it with `umount --lazy --force`",
        names.join(", "),
        DEADLINE.as_secs()
    ))
}

enum Answer {
    Known(Filesystem),
    /// It was asked before and still has not answered.
    Silent(PathBuf),
    /// It cannot be asked by this user, or was unmounted meanwhile.
    Nothing,
}

fn one(mount: Mount, silent: &Silent) -> Answer {
    if !silent.begin(&mount.at) {
        return Answer::Silent(mount.at);
    }
    let stat = rustix::fs::statvfs(&mount.at);
    silent.end(&mount.at);
    let Ok(stat) = stat else { return Answer::Nothing };
    Answer::Known(Filesystem {
        mount_point: mount.at.to_string_lossy().into_owned(),
        source: mount.source,
        kind: mount.kind,
        read_only: mount.read_only,
        total: stat.f_blocks.saturating_mul(stat.f_frsize),
        available: stat.f_bavail.saturating_mul(stat.f_frsize),
        inodes: stat.f_files,
        inodes_free: stat.f_favail,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_root_of_this_machine_is_found() {
        let found = ask(&Blocking::default(), &Silent::default(), list(Path::new("/proc/self/mountinfo")).unwrap())
            .await
            .unwrap();
        assert!(found.iter().any(|found| found.mount_point == "/" && found.total > 0));
    }
}
