//! One blob: is it there already, fetch what is missing, check, rename.

use std::{
    fs::File,
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use fettle_egress::Refused;
use fettle_model::task::LogLevel;
use fettle_model::{digest::Digest, reference::Repository};
use fettle_supply::{BlobDownload, DownloadError, Outage, RegistryClient, SupplyError};
use rustix::fs::{AtFlags, Mode, OFlags, fsync, openat, renameat, unlinkat};

use super::{Error, Transferred, of_files};
use crate::capabilities::{
    denials::Denials,
    files::{self, Claim, NodePath, PARTIAL, claim, error_of, temporary_name},
    report,
};

/// How long somebody else who works on the same unfinished file is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often it is looked whether he is done.
const INTERVAL: Duration = Duration::from_millis(20);

/// What to fetch, checked.
pub(super) struct Target {
    pub(super) digest: Digest,
    pub(super) size: u64,
    pub(super) path: NodePath,
}

/// Adds up the bytes of all blobs of one call and reports how far they are.
pub(super) struct Meter {
    report: report::Handle,
    denials: Denials,
    total: u64,
    done: AtomicU64,
    last: Mutex<Instant>,
}

impl Meter {
    const INTERVAL: Duration = Duration::from_millis(200);

    pub(super) fn new(report: report::Handle, denials: Denials, total: u64) -> Self {
        Self { report, denials, total, done: AtomicU64::new(0), last: Mutex::new(Instant::now()) }
    }

    fn add(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.elapsed() < Self::INTERVAL && done < self.total {
            return;
        }
        *last = Instant::now();
        drop(last);
        let percent = u8::try_from(done.saturating_mul(100) / self.total.max(1)).unwrap_or(100);
        self.report.progress(percent, Some(format!("{} of {} MB", done / 1_000_000, self.total / 1_000_000)));
    }
}

/// Fetches one blob to its destination.
pub(super) async fn pull(
    registry: &RegistryClient,
    files: &files::Configured,
    repository: &Repository,
    target: &Target,
    meter: &Arc<Meter>,
) -> Result<Transferred, Error> {
    let root = files.root(&target.path).map_err(of_files)?;
    if is_present(files, target).await? {
        meter.add(target.size);
        return Ok(Transferred { bytes: 0, present: true, resumed: 0 });
    }
    let (parent, name) = target
        .path
        .parent(root, true)
        .map_err(of_files)?
        .ok_or_else(|| Error::Failed("the destination's directory is missing".to_owned()))?;
    let partial = Partial::take(&parent, name).await?;
    let resume_from = partial.file.metadata().map_or(0, |metadata| metadata.len());
    let download = BlobDownload {
        repository,
        digest: target.digest,
        size: target.size,
        destination: partial.file.try_clone().map_err(|error| Error::Failed(format!("out of descriptors: {error}")))?,
        resume_from,
    };
    let mut seen = 0;
    let progress = |there: u64| {
        fettle_crash::point("transfer::progress");
        meter.add(there.saturating_sub(seen));
        seen = there.max(seen);
    };
    let downloaded = match registry.download_blob(download, progress).await {
        Ok(downloaded) => downloaded,
        Err(error) => {
            if !matches!(error, DownloadError::Unavailable { .. }) {
                partial.remove();
            }
            return Err(of_download(&error, &meter.report, &meter.denials));
        }
    };
    let file = partial.finish(name)?;
    files.digests().remember(&file, target.digest);
    Ok(Transferred { bytes: downloaded.fetched, present: false, resumed: downloaded.resumed })
}

/// Whether the destination already holds the right content.
async fn is_present(files: &files::Configured, target: &Target) -> Result<bool, Error> {
    let (files, path, size, digest) = (files.clone(), target.path.clone(), target.size, target.digest);
    let threads = files.threads().clone();
    let look = move || {
        let root = files.root(&path).ok()?;
        let file = File::from(path.open(root, OFlags::RDONLY).ok()?);
        let metadata = file.metadata().ok()?;
        // Hashing is only worth it when the size is right.
        (metadata.is_file() && metadata.len() == size && files.digests().of(file.into()).ok()? == digest).then_some(())
    };
    let looked = threads.run("looking for a file that is to be fetched", look).await;
    looked.map(|found| found.is_some()).map_err(|error| Error::Failed(error.to_string()))
}

/// The file while it is not complete. It has one name per destination, so that a later attempt finds
/// what an earlier one left.
struct Partial {
    parent: OwnedFd,
    name: String,
    file: File,
}

impl Partial {
    /// Opens it, once nobody else works on it. An attempt that was stopped just now may still be writing its
    /// last piece.
    async fn take(parent: &OwnedFd, destination: &str) -> Result<Self, Error> {
        let begin = Instant::now();
        loop {
            if let Some(partial) = Self::open(parent, destination)? {
                return Ok(partial);
            }
            if begin.elapsed() > PATIENCE {
                return Err(Error::Unavailable(
                    "another step is fetching to the same destination; try again when it is done".to_owned(),
                ));
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    fn open(parent: &OwnedFd, destination: &str) -> Result<Option<Self>, Error> {
        let name = temporary_name(destination, PARTIAL);
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let failed = |errno| of_files(error_of(errno));
        let file = openat(parent, name.as_str(), flags, Mode::from_raw_mode(0o600)).map_err(failed)?;
        match claim(parent, &name, &file).map_err(failed)? {
            Claim::Held => {
                let parent =
                    parent.try_clone().map_err(|error| Error::Failed(format!("out of descriptors: {error}")))?;
                Ok(Some(Self { parent, name, file: File::from(file) }))
            }
            Claim::Gone | Claim::Busy => Ok(None),
        }
    }

    /// Gives the file its name. Its content is durable already.
    fn finish(self, destination: &str) -> Result<File, Error> {
        fettle_crash::point("transfer::before_rename");
        let renamed = rustix::fs::fchmod(&self.file, Mode::from_raw_mode(0o644))
            .and_then(|()| renameat(&self.parent, self.name.as_str(), &self.parent, destination))
            .and_then(|()| fsync(&self.parent));
        fettle_crash::point("transfer::after_rename");
        match renamed {
            Ok(()) => Ok(self.file),
            Err(errno) => {
                self.remove();
                Err(of_files(error_of(errno)))
            }
        }
    }

    /// Removes what no later attempt can use.
    fn remove(self) {
        let _ = unlinkat(&self.parent, self.name.as_str(), AtFlags::empty());
    }
}

fn of_download(error: &DownloadError, report: &report::Handle, denials: &Denials) -> Error {
    let text = chain(error);
    match error {
        DownloadError::Unavailable { reason: Outage::Refused(refused), .. } => refusal(refused, report, denials),
        DownloadError::NotFound { .. } => Error::NotFound(text),
        DownloadError::Unavailable { .. } => Error::Unavailable(text),
        DownloadError::Corrupt { .. } => Error::Corrupt(text),
        DownloadError::NoSpace { .. } => Error::NoSpace(text),
        DownloadError::Destination { .. } => Error::Failed(text),
    }
}

/// The step learns that it was denied; where a name leads is for the people who read its log.
fn refusal(refused: &Refused, report: &report::Handle, denials: &Denials) -> Error {
    denials.note_address(refused);
    report.log(LogLevel::Error, refused.to_string());
    Error::AccessDenied
}

pub(super) fn of_supply(error: &SupplyError, report: &report::Handle, denials: &Denials) -> Error {
    let text = chain(error);
    match error {
        SupplyError::Unavailable { reason: Outage::Refused(refused), .. } => refusal(refused, report, denials),
        SupplyError::Unavailable { reason: Outage::Missing(_), .. } => Error::NotFound(text),
        SupplyError::Unavailable { .. } => Error::Unavailable(text),
        SupplyError::Malformed { .. } => Error::Corrupt(text),
        SupplyError::Unsigned { .. }
        | SupplyError::Untrusted { .. }
        | SupplyError::Trust { .. }
        | SupplyError::Store { .. }
        | SupplyError::LocalFile { .. }
        | SupplyError::Signing { .. } => Error::Failed(text),
    }
}

fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
