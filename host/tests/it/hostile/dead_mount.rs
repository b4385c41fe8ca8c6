//! A mounted file system whose server is gone: whoever asks it blocks in the kernel.

use std::{
    fs::File,
    os::fd::AsRawFd as _,
    path::{Path, PathBuf},
    time::Duration,
};

use fettle_host::sandbox::Limits;
use serde_json::json;

use super::{
    attacks::{Attack, Field},
    common::{self, TestNode},
};

/// A file system in user space without anybody in user space. Ends with this value.
pub(crate) struct DeadMount {
    at: PathBuf,
    /// Closing it makes the kernel give up all who wait.
    _server: File,
}

impl DeadMount {
    pub(crate) fn new(at: PathBuf) -> std::io::Result<Self> {
        let server = File::options().read(true).write(true).open("/dev/fuse")?;
        std::fs::create_dir_all(&at)?;
        let data = format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", server.as_raw_fd());
        let data = std::ffi::CString::new(data).unwrap();
        // Of a kind that no host asks for its sizes: other tests run beside this one.
        rustix::mount::mount("dead", &at, "fuse.portal", rustix::mount::MountFlags::empty(), data.as_c_str())?;
        Ok(Self { at, _server: server })
    }

    /// A list of mounts in which it is a network file system.
    pub(crate) fn listed(&self, list: &Path) {
        let line = format!("1 2 0:1 / {} rw - nfs4 server:/data rw\n", self.at.display());
        std::fs::write(list, line).unwrap();
    }
}

impl Drop for DeadMount {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.at, rustix::mount::UnmountFlags::DETACH);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_whose_server_is_gone_is_named_and_holds_one_thread_at_most() {
    let mut node = TestNode::new();
    let list = node.directory.path().join("mountinfo");
    node.node.facts.mounts.clone_from(&list);
    let field = Field::on(node).await;
    let dead = match DeadMount::new(field.node.directory.path().join("dead")) {
        Ok(dead) => dead,
        Err(error) => return common::skip(&format!("no file system can be mounted here: {error}")),
    };
    dead.listed(&list);
    let attack = Attack::of("asking a dead mount", json!({"attack": "mounts"}));
    for _ in 0..5 {
        let failure = field.launch(&attack).await.unwrap_err();
        assert!(failure.message.contains(dead.at.to_str().unwrap()), "{failure}");
        assert!(failure.message.contains("umount"), "{failure}");
    }
    let blocking = field.node.node.queues.blocking.clone();
    assert_eq!(blocking.abandoned(), 1, "a mount that was silent is not asked again");
    drop(dead);
    common::eventually("the thread comes back", || blocking.abandoned() == 0).await;
    assert_eq!(field.outcome(&attack).await, "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_call_that_never_returns_ends_with_the_timeout_of_the_step() {
    let field = Field::new(Limits::default()).await;
    let dead = match DeadMount::new(field.node.directory.path().join("data/dead")) {
        Ok(dead) => dead,
        Err(error) => return common::skip(&format!("no file system can be mounted here: {error}")),
    };
    let attack = Attack::of("reading", json!({"attack": "answer", "count": 1, "target": "data/dead/file"}));
    let outcome = field.outcome(&attack.within(Duration::from_millis(300))).await;
    assert_eq!(outcome, "limit.wall-clock");
    let blocking = field.node.node.queues.blocking.clone();
    assert_eq!(blocking.abandoned(), 1, "what cannot be taken back is counted");
    drop(dead);
    common::eventually("the thread comes back", || blocking.abandoned() == 0).await;
}
