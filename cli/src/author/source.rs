//! Which sources a step is built of.

use std::{fs, path::Path};

use fettle_model::digest::Digest;
use reqwest::Url;
use serde::Serialize;

use super::program::{answer, program};
use crate::error::CommandError;

/// Sources, named without anything of this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Source {
    /// `git+https://host/owner/repository`, when its remote can be named to others.
    pub repository: Option<String>,
    /// The commit; absent when files differ from it, or there is none.
    pub commit: Option<String>,
    /// Whether files differ from the commit.
    pub changed: bool,
    /// The digest of `Cargo.lock`.
    pub lock: Digest,
    /// Seconds since 1970 of the commit, 0 without one: what a build may take for the time.
    pub epoch: u64,
}

impl Source {
    /// Asks git in a workspace's directory. Where there is no git or no commit, less is said.
    ///
    /// # Errors
    /// When `Cargo.lock` cannot be read.
    pub async fn of(workspace: &Path) -> Result<Self, CommandError> {
        let path = workspace.join("Cargo.lock");
        let lock = fs::read(&path).map_err(|source| CommandError::Read { path, source })?;
        let git = |arguments: &[&str]| {
            let mut command = program("git", workspace);
            command.args(arguments);
            answer(command, "git")
        };
        let commit = git(&["rev-parse", "--verify", "HEAD"]).await.filter(|commit| is_commit(commit));
        // Of a commit that nobody can compare with, nothing is claimed.
        let status = git(&["status", "--porcelain", "--untracked-files=all", "--", "."]).await;
        let changed = commit.is_some() && status.is_none_or(|status| !status.is_empty());
        let time = git(&["log", "-1", "--format=%ct"]).await.and_then(|time| time.parse().ok());
        let remote = git(&["config", "--get", "remote.origin.url"]).await;
        let given = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|time| time.parse().ok());
        Ok(Self {
            repository: remote.filter(|_| commit.is_some()).and_then(|remote| public(&remote)),
            epoch: given.or(time).unwrap_or(0),
            commit: commit.filter(|_| !changed),
            changed,
            lock: Digest::of(&lock),
        })
    }
}

fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A remote as others may see it: without user, password and query; none when it is a path of this
/// machine.
fn public(remote: &str) -> Option<String> {
    if let Ok(mut url) = Url::parse(remote)
        && ["https", "http", "ssh", "git"].contains(&url.scheme())
        && url.has_host()
    {
        url.set_username("").ok()?;
        url.set_password(None).ok()?;
        url.set_query(None);
        url.set_fragment(None);
        return Some(format!("git+{}", url.as_str().trim_end_matches('/')));
    }
    // `user@host:owner/repository`, as ssh writes it.
    let (host, path) = remote.split_once(':')?;
    let host = host.rsplit('@').next().filter(|host| !host.is_empty() && !host.contains(['/', '\\']))?;
    (!remote.contains("://") && !path.starts_with('/')).then(|| format!("git+ssh://{host}/{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_is_named_without_who_fetched_it_and_from_where() {
        for (remote, expected) in [
            ("https://example.com/a/b.git", Some("git+https://example.com/a/b.git")),
            ("https://ada:secret@example.com/a/b?token=secret#x", Some("git+https://example.com/a/b")),
            ("ssh://git@example.com:22/a/b", Some("git+ssh://example.com:22/a/b")),
            ("git@example.com:a/b.git", Some("git+ssh://example.com/a/b.git")),
            ("/home/ada/b", None),
            ("../b", None),
            ("file:///home/ada/b", None),
            ("host:/home/ada/b", None),
        ] {
            assert_eq!(public(remote).as_deref(), expected, "{remote}");
        }
    }

    #[tokio::test]
    async fn sources_without_a_commit_say_only_their_lock_file() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("Cargo.lock"), "version = 4\n").unwrap();
        let source = Source::of(directory.path()).await.unwrap();
        assert_eq!((source.commit, source.repository, source.changed), (None, None, false));
        assert_eq!(source.lock, Digest::of(b"version = 4\n"));
        fs::remove_file(directory.path().join("Cargo.lock")).unwrap();
        assert!(Source::of(directory.path()).await.is_err());
    }
}
