//! `files`: below named roots, resolved by the kernel without symbolic links.

mod calls;
mod digest;
mod path;
mod unfinished;
mod write;

use std::{collections::BTreeMap, os::fd::OwnedFd, path::Path, sync::Arc};

use fettle_model::{
    failure::{Failure, FailureClass},
    grant::FilesGrant,
    policy::PolicyBundle,
};
use rustix::{
    fs::{FileType, Mode, OFlags},
    io::Errno,
};

pub use self::digest::DigestCache;
pub(crate) use self::{
    path::NodePath,
    unfinished::{Claim, PARTIAL, claim, temporary_name},
};
use super::{Node, denials::Denials, denied};
pub(crate) use crate::sandbox::bindings::fettle::files::files::Error;
use crate::{
    blocking::Blocking,
    sandbox::bindings::fettle::files::files::{Attributes, Kind, Metadata},
};

/// Most bytes that one call reads or writes.
const CONTENT_LIMIT: u64 = 1 << 20;

/// What one step may reach.
#[derive(Clone, Default)]
pub struct Configured {
    grant: FilesGrant,
    roots: Arc<BTreeMap<String, Root>>,
    digests: DigestCache,
    blocking: Blocking,
}

/// A named directory of this node.
pub(crate) struct Root {
    descriptor: OwnedFd,
}

/// The state of one attempt.
#[derive(Default)]
pub struct Files {
    configured: Configured,
    denials: Denials,
}

impl Configured {
    pub(super) fn new(grant: Option<&FilesGrant>, policy: &PolicyBundle, node: &Node) -> Result<Self, Failure> {
        let Some(grant) = grant else { return Ok(Self::default()) };
        let mut roots = BTreeMap::new();
        for entry in grant.read.iter().chain(&grant.write) {
            let name = entry.split('/').next().unwrap_or_default();
            let known = policy.roots.iter().find(|(root, _)| root.as_str() == name);
            let Some((_, directory)) = known else {
                let names: Vec<&str> = policy.roots.keys().map(fettle_model::name::Label::as_str).collect();
                return Err(denied(
                    "files.unknown-root",
                    format!(
                        "the grant names `{entry}`, and this node's policy has no root `{name}`; it has {}",
                        names.join(", ")
                    ),
                ));
            };
            if !roots.contains_key(name) {
                roots.insert(name.to_owned(), Root::open(&node.files_directory.join(directory))?);
            }
        }
        Ok(Self {
            grant: grant.clone(),
            roots: Arc::new(roots),
            digests: node.digests.clone(),
            blocking: node.queues.blocking.clone(),
        })
    }

    pub(super) fn prepare(&self, denials: Denials) -> Files {
        Files { configured: self.clone(), denials }
    }

    pub(crate) fn may_write(&self) -> bool {
        !self.grant.write.is_empty()
    }

    /// Removes what interrupted work left below everything that may be written, except what somebody works on
    /// right now.
    pub(crate) fn sweep(&self) {
        for entry in &self.grant.write {
            let Ok(path) = NodePath::parse(entry) else { continue };
            if let Ok(root) = self.root(&path) {
                // Where nothing is, nothing was left.
                let _ = unfinished::sweep(root, &path);
            }
        }
    }

    /// The digests that are known, to be added to when a transfer has verified a file.
    pub(crate) const fn digests(&self) -> &DigestCache {
        &self.digests
    }

    /// Threads for work that blocks.
    pub(crate) const fn threads(&self) -> &Blocking {
        &self.blocking
    }

    /// A path that may be read.
    pub(crate) fn readable(&self, path: &str, denials: &Denials) -> Result<NodePath, Error> {
        let parsed = parse(path)?;
        if self.grant.may_read(path) && self.roots.contains_key(parsed.root()) {
            return Ok(parsed);
        }
        denials.note("files.read", self.grant.read.union(&self.grant.write), path);
        Err(Error::AccessDenied)
    }

    /// A path that may be written.
    pub(crate) fn writable(&self, path: &str, denials: &Denials) -> Result<NodePath, Error> {
        let parsed = parse(path)?;
        if self.grant.may_write(path) && self.roots.contains_key(parsed.root()) {
            return Ok(parsed);
        }
        denials.note("files.write", &self.grant.write, path);
        Err(Error::AccessDenied)
    }

    /// The directory of the path's root.
    pub(crate) fn root(&self, path: &NodePath) -> Result<&Root, Error> {
        self.roots.get(path.root()).ok_or(Error::AccessDenied)
    }
}

impl Root {
    fn open(directory: &Path) -> Result<Self, Failure> {
        let unusable = |error: std::io::Error| {
            let message = format!(
                "root directory {} cannot be used: {error}; check `roots` of the policy bundle",
                directory.display()
            );
            Failure::new(FailureClass::Permanent, "files.root", message)
        };
        std::fs::create_dir_all(directory).map_err(unusable)?;
        let descriptor = rustix::fs::open(directory, OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::PATH, Mode::empty())
            .map_err(|error| unusable(error.into()))?;
        Ok(Self::of(descriptor))
    }

    /// The directory behind a descriptor.
    pub(crate) const fn of(descriptor: OwnedFd) -> Self {
        Self { descriptor }
    }

    pub(crate) const fn descriptor(&self) -> &OwnedFd {
        &self.descriptor
    }
}

/// What the kernel said, in the contract's words.
pub(crate) fn error_of(errno: Errno) -> Error {
    match errno {
        Errno::NOENT | Errno::NOTDIR => Error::NotFound,
        Errno::LOOP => Error::InvalidPath("leads through a symbolic link; links are not followed".to_owned()),
        Errno::XDEV => Error::InvalidPath("leaves its root".to_owned()),
        Errno::NOSPC | Errno::DQUOT => {
            Error::NoSpace("the file system is full; free some space on the node".to_owned())
        }
        other => Error::Failed(format!("the node could not do it: {}", std::io::Error::from(other))),
    }
}

fn parse(path: &str) -> Result<NodePath, Error> {
    let named = |rule| Error::InvalidPath(format!("`{}` {rule}", path.chars().take(200).collect::<String>()));
    NodePath::parse(path).map_err(named)
}

impl Files {
    /// Does file work on a thread that may block.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let done = self.configured.blocking.run("reading or writing files", work).await;
        done.map_err(|error| Error::Failed(error.to_string()))?
    }

    pub(super) async fn stat(&mut self, path: String) -> Result<Option<Metadata>, Error> {
        let (configured, denials) = (self.configured.clone(), self.denials.clone());
        self.blocking(move || {
            let path = configured.readable(&path, &denials)?;
            match path.open(configured.root(&path)?, OFlags::PATH) {
                Err(Error::NotFound) => Ok(None),
                Err(error) => Err(error),
                Ok(file) => Ok(Some(metadata(&file)?)),
            }
        })
        .await
    }

    pub(super) async fn read(&mut self, path: String, limit: u64) -> Result<Vec<u8>, Error> {
        let (configured, denials) = (self.configured.clone(), self.denials.clone());
        self.blocking(move || {
            let path = configured.readable(&path, &denials)?;
            let file = path.open(configured.root(&path)?, OFlags::RDONLY)?;
            let limit = limit.min(CONTENT_LIMIT);
            let metadata = metadata(&file)?;
            if !matches!(metadata.kind, Kind::Regular) {
                return Err(Error::InvalidPath("is not a regular file".to_owned()));
            }
            if metadata.size > limit {
                return Err(Error::TooLarge(limit));
            }
            write::read_all(file, limit)
        })
        .await
    }

    pub(super) async fn digest(&mut self, path: String) -> Result<Option<String>, Error> {
        let (configured, denials) = (self.configured.clone(), self.denials.clone());
        self.blocking(move || {
            let path = configured.readable(&path, &denials)?;
            match path.open(configured.root(&path)?, OFlags::RDONLY) {
                Err(Error::NotFound) => Ok(None),
                Err(error) => Err(error),
                Ok(file) => configured.digests.of(file).map(|digest| Some(digest.to_string())),
            }
        })
        .await
    }

    pub(super) async fn write(
        &mut self,
        path: String,
        content: Vec<u8>,
        attributes: Attributes,
    ) -> Result<bool, Error> {
        let (configured, denials) = (self.configured.clone(), self.denials.clone());
        self.blocking(move || {
            let path = configured.writable(&path, &denials)?;
            if content.len() as u64 > CONTENT_LIMIT {
                return Err(Error::TooLarge(CONTENT_LIMIT));
            }
            write::replace(configured.root(&path)?, &path, &content, &write::Attributes::of(&attributes)?)
        })
        .await
    }

    pub(super) async fn remove(&mut self, path: String) -> Result<bool, Error> {
        let (configured, denials) = (self.configured.clone(), self.denials.clone());
        self.blocking(move || {
            let path = configured.writable(&path, &denials)?;
            match path.open(configured.root(&path)?, OFlags::PATH) {
                Err(Error::NotFound) => return Ok(false),
                Err(error) => return Err(error),
                Ok(file) if matches!(metadata(&file)?.kind, Kind::Regular) => {}
                Ok(_) => return Err(Error::InvalidPath("is not a regular file".to_owned())),
            }
            let Some((parent, name)) = path.parent(configured.root(&path)?, false)? else { return Ok(false) };
            match rustix::fs::unlinkat(&parent, name, rustix::fs::AtFlags::empty()) {
                Ok(()) => Ok(true),
                Err(Errno::NOENT) => Ok(false),
                Err(errno) => Err(error_of(errno)),
            }
        })
        .await
    }
}

fn metadata(file: &OwnedFd) -> Result<Metadata, Error> {
    let stat = rustix::fs::fstat(file).map_err(error_of)?;
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Kind::Regular,
        FileType::Directory => Kind::Directory,
        _ => Kind::Other,
    };
    Ok(Metadata {
        kind,
        size: u64::try_from(stat.st_size).unwrap_or_default(),
        mode: stat.st_mode & 0o7777,
        user_id: stat.st_uid,
        group_id: stat.st_gid,
    })
}
