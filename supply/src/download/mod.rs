//! Bulk transfer: one blob of any size from a registry to a file, hashed on the way.
//!
//! The network is read on the runtime; hashing and writing each have a thread, and a few mebibytes
//! wait between them at most, so the transfer runs at the pace of the slowest of the three, in little
//! memory, and a slow disk slows the sender down.

mod disk;
mod pipeline;

use std::{fs::File, io, sync::Arc};

use fettle_model::{digest::Digest, reference::Repository};
use reqwest::{Response, StatusCode, header};

use crate::{
    error::{Cause, Defect, Outage},
    registry::{Fault, RegistryClient},
    store::is_full,
};
use pipeline::Pipeline;

/// What to fetch and where to put it.
#[derive(Debug)]
pub struct BlobDownload<'a> {
    /// Where it is.
    pub repository: &'a Repository,
    /// What it is.
    pub digest: Digest,
    /// How many bytes, as a manifest says.
    pub size: u64,
    /// Open for reading and writing. Cut to the right length and synchronised when all is well.
    pub destination: File,
    /// How many bytes of an earlier attempt are in the destination. They are hashed again; when they
    /// turn out wrong, everything is fetched anew.
    pub resume_from: u64,
}

/// A finished download.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Downloaded {
    /// Bytes that came over the network.
    pub fetched: u64,
    /// Bytes of an earlier attempt that were kept.
    pub resumed: u64,
}

/// Why a blob could not be fetched to a file.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DownloadError {
    /// The registry does not have it.
    #[error("{blob} is not in the registry; push it there, or correct the manifest")]
    NotFound {
        /// Repository and digest.
        blob: String,
    },
    /// The registry did not deliver. Worth another try.
    #[error("{blob} cannot be fetched: {reason}")]
    Unavailable {
        /// Repository and digest.
        blob: String,
        /// How it failed.
        reason: Outage,
        /// Bytes in the destination that a later attempt can resume from.
        kept: u64,
        /// The error below, where there is one.
        #[source]
        source: Option<Cause>,
    },
    /// What came is not what was asked for.
    #[error("{blob} is not what it should be: {reason}")]
    Corrupt {
        /// Repository and digest.
        blob: String,
        /// Which rule it broke.
        reason: Defect,
    },
    /// The destination's disk is full.
    #[error("there is no space for {blob} ({size} bytes); free some, or choose another destination")]
    NoSpace {
        /// Repository and digest.
        blob: String,
        /// How large it is.
        size: u64,
    },
    /// The destination failed otherwise.
    #[error("cannot write {blob} to its destination")]
    Destination {
        /// Repository and digest.
        blob: String,
        /// The error below.
        #[source]
        source: Arc<io::Error>,
    },
}

impl RegistryClient {
    /// Fetches a blob into a file. `progress` is told how many bytes are there, the kept ones
    /// included. The content is durable and its digest right when this returns. Dropping the future
    /// ends the transfer; what has been written stays for a later attempt to resume.
    ///
    /// # Errors
    /// See [`DownloadError`]; after `Corrupt` the destination is empty.
    pub async fn download_blob(
        &self,
        download: BlobDownload<'_>,
        mut progress: impl FnMut(u64) + Send,
    ) -> Result<Downloaded, DownloadError> {
        let blob = format!("{}@{}", download.repository, download.digest);
        let destination = Arc::new(download.destination);
        let (repository, digest, size) = (download.repository, download.digest, download.size);
        let present = destination.metadata().map_err(|error| of_disk(blob.clone(), size, error))?.len();
        let mut resume_from = download.resume_from.min(present);
        if resume_from > size {
            resume_from = 0;
        }
        loop {
            let pipeline = Pipeline::start(&destination, resume_from, size);
            let outcome = self.transfer(repository, &digest, size, resume_from, &pipeline, &mut progress).await;
            let stop = match outcome {
                // The registry sends everything or nothing, so what is there already is of no use.
                Ok(Transfer::FromStart) => {
                    pipeline.abandon().await;
                    resume_from = 0;
                    continue;
                }
                Ok(Transfer::Ended) => None,
                Err(fault) => Some(fault),
            };
            let received = match (pipeline.finish(stop.is_none()).await, stop) {
                // A disk that fails makes the network seem to.
                (Err(error), _) => return Err(of_disk(blob, size, error)),
                (Ok(_), Some(Fault::Defect(reason))) => {
                    disk::empty(&destination).await.map_err(|error| of_disk(blob.clone(), size, error))?;
                    return Err(DownloadError::Corrupt { blob, reason });
                }
                (Ok(received), Some(Fault::Outage(reason, source))) => {
                    return Err(of_outage(blob, reason, source, received.written));
                }
                (Ok(received), None) => received,
            };
            if received.digest == digest && received.written == size {
                return Ok(Downloaded { fetched: size - resume_from, resumed: resume_from });
            }
            disk::empty(&destination).await.map_err(|error| of_disk(blob.clone(), size, error))?;
            if resume_from == 0 {
                let (what, expected, actual) = ("blob".to_owned(), digest, received.digest);
                return Err(DownloadError::Corrupt { blob, reason: Defect::ChangedBytes { what, expected, actual } });
            }
            tracing::warn!(blob, resume_from, "what an earlier attempt left is wrong; fetching everything anew");
            resume_from = 0;
        }
    }

    async fn transfer(
        &self,
        repository: &Repository,
        digest: &Digest,
        size: u64,
        resume_from: u64,
        pipeline: &Pipeline,
        progress: &mut (impl FnMut(u64) + Send),
    ) -> Result<Transfer, Fault> {
        progress(resume_from);
        if resume_from == size && size > 0 {
            return Ok(Transfer::Ended);
        }
        let mut request = self.blob_request(repository, digest)?;
        if resume_from > 0 {
            request = request.header(header::RANGE, format!("bytes={resume_from}-"));
        }
        let response = match self.send(request, &format!("the blob `{digest}`")).await {
            Err(Fault::Outage(Outage::Status { status, .. }, _)) if resume_from > 0 && status == 416 => {
                return Ok(Transfer::FromStart);
            }
            other => other?,
        };
        if resume_from > 0 && !continues(&response, resume_from) {
            return Ok(Transfer::FromStart);
        }
        self.stream(response, size, resume_from, pipeline, progress).await?;
        Ok(Transfer::Ended)
    }

    async fn stream(
        &self,
        mut response: Response,
        size: u64,
        resume_from: u64,
        pipeline: &Pipeline,
        progress: &mut (impl FnMut(u64) + Send),
    ) -> Result<(), Fault> {
        let too_large = || {
            let (what, rule) = ("blob".to_owned(), "the size that its manifest gives");
            Fault::from(Defect::TooLarge { what, limit: size, rule })
        };
        let declared = response.content_length();
        if declared.is_some_and(|length| length > size - resume_from) {
            return Err(too_large());
        }
        let idle = self.options().idle_timeout;
        let mut present = resume_from;
        let mut batch = pipeline::Batch::default();
        loop {
            let chunk = tokio::time::timeout(idle, response.chunk()).await;
            let received = present - resume_from;
            let chunk = match chunk.map_err(|_| Fault::new(Outage::Silent(idle))) {
                Ok(Ok(Some(chunk))) => chunk,
                Ok(Ok(None)) if present < size && declared.is_none() => {
                    pipeline.send(batch).await;
                    return Err(Fault::new(Outage::BrokeOff { received }));
                }
                Ok(Ok(None)) => {
                    pipeline.send(batch).await;
                    progress(present);
                    return Ok(());
                }
                Ok(Err(error)) => {
                    pipeline.send(batch).await;
                    return Err(Fault::reading(error, received));
                }
                Err(fault) => {
                    pipeline.send(batch).await;
                    return Err(fault);
                }
            };
            present += chunk.len() as u64;
            if present > size {
                return Err(too_large());
            }
            batch.push(chunk);
            if batch.is_full() {
                if !pipeline.send(std::mem::take(&mut batch)).await {
                    // The disk failed; the pipeline knows how.
                    return Err(Fault::new(Outage::BrokeOff { received }));
                }
                progress(present);
            }
        }
    }
}

enum Transfer {
    /// All that the registry had to send was sent on.
    Ended,
    /// It does not send parts.
    FromStart,
}

/// Whether a response is the rest that was asked for.
fn continues(response: &Response, resume_from: u64) -> bool {
    let range = response.headers().get(header::CONTENT_RANGE).and_then(|value| value.to_str().ok());
    let start = range.and_then(|text| text.strip_prefix("bytes ")).and_then(|text| text.split('-').next());
    response.status() == StatusCode::PARTIAL_CONTENT && start.and_then(|text| text.parse().ok()) == Some(resume_from)
}

fn of_disk(blob: String, size: u64, error: io::Error) -> DownloadError {
    if is_full(&error) {
        return DownloadError::NoSpace { blob, size };
    }
    DownloadError::Destination { blob, source: Arc::new(error) }
}

fn of_outage(blob: String, reason: Outage, source: Option<Cause>, kept: u64) -> DownloadError {
    if matches!(reason, Outage::Missing(_)) {
        return DownloadError::NotFound { blob };
    }
    DownloadError::Unavailable { blob, reason, kept, source }
}
