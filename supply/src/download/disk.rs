//! The destination file.

use std::{fs::File, io, os::unix::fs::FileExt, sync::Arc};

use bytes::Bytes;
use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate};

use crate::store::is_full;

/// After how many bytes the disk is told to start. Left alone it starts when the final
/// synchronisation asks, and network and disk would take turns.
const WRITE_BACK: u64 = 8 << 20;

/// Writes from one place on, in order.
pub(super) struct Writer {
    file: Arc<File>,
    at: u64,
    started: u64,
}

impl Writer {
    /// Reserves the space first, so that a full disk shows before the transfer.
    pub(super) fn new(file: Arc<File>, at: u64, size: u64) -> io::Result<Self> {
        if size > at {
            let reserved = fallocate(&file, FallocateFlags::KEEP_SIZE, at, size - at).map_err(io::Error::from);
            // Not every file system can, so only a full one counts.
            if let Err(error) = reserved
                && is_full(&error)
            {
                return Err(error);
            }
        }
        Ok(Self { file, at, started: at })
    }

    pub(super) fn write(&mut self, parts: &[Bytes]) -> io::Result<()> {
        for part in parts {
            self.file.write_all_at(part, self.at)?;
            self.at += part.len() as u64;
        }
        if self.at - self.started >= WRITE_BACK {
            // Starts writing these pages; they are dirty, so they also stay in memory for whoever reads
            // the file next. No more than advice, so its failure does not matter.
            let _ =
                fadvise(&self.file, self.started, std::num::NonZeroU64::new(self.at - self.started), Advice::DontNeed);
            self.started = self.at;
        }
        Ok(())
    }

    /// Cuts off what else the file holds, and returns the length.
    pub(super) fn end(self, durable: bool) -> io::Result<u64> {
        self.file.set_len(self.at)?;
        if durable {
            self.file.sync_all()?;
        }
        Ok(self.at)
    }
}

/// Makes the file empty.
pub(super) async fn empty(file: &Arc<File>) -> io::Result<()> {
    let file = Arc::clone(file);
    tokio::task::spawn_blocking(move || file.set_len(0)).await.map_err(io::Error::other)?
}
