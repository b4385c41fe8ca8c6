//! Two threads behind one transfer: one hashes, one writes.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use fettle_model::digest::Digest;
use sha2::{Digest as _, Sha256};
use tokio::{sync::mpsc, task::JoinHandle};

use super::disk::Writer;

/// Bytes that travel together; fewer, and the threads would wake too often.
const BATCH: usize = 512 << 10;
/// Batches that may wait for each thread.
const WAITING: usize = 12;
const READ: usize = 1 << 20;

/// Pieces of the blob, in order.
#[derive(Clone, Default)]
pub(super) struct Batch {
    parts: Vec<Bytes>,
    length: usize,
}

impl Batch {
    pub(super) fn push(&mut self, part: Bytes) {
        self.length += part.len();
        self.parts.push(part);
    }

    pub(super) const fn is_full(&self) -> bool {
        self.length >= BATCH
    }
}

/// What is in the destination now.
pub(super) struct Received {
    pub(super) digest: Digest,
    pub(super) written: u64,
}

/// The two threads and the ways to them.
pub(super) struct Pipeline {
    to_hash: mpsc::Sender<Batch>,
    to_disk: mpsc::Sender<Batch>,
    hash: JoinHandle<io::Result<Digest>>,
    disk: JoinHandle<io::Result<u64>>,
    orders: Orders,
}

/// How the threads are to end when their input does.
#[derive(Clone, Default)]
struct Orders {
    abandoned: Arc<AtomicBool>,
    durable: Arc<AtomicBool>,
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        self.orders.abandoned.store(true, Ordering::Release);
    }
}

impl Pipeline {
    pub(super) fn start(file: &Arc<File>, resume_from: u64, size: u64) -> Self {
        let (to_hash, hash_queue) = mpsc::channel(WAITING);
        let (to_disk, disk_queue) = mpsc::channel(WAITING);
        let orders = Orders::default();
        let (hash_orders, disk_orders) = (orders.clone(), orders.clone());
        let (hash_file, disk_file) = (Arc::clone(file), Arc::clone(file));
        let hash = tokio::task::spawn_blocking(move || hash(&hash_file, resume_from, hash_queue, &hash_orders));
        let disk = tokio::task::spawn_blocking(move || write(disk_file, resume_from, size, disk_queue, &disk_orders));
        Self { to_hash, to_disk, hash, disk, orders }
    }

    /// Hands a batch to both; waits while either has too many. False when one has failed.
    pub(super) async fn send(&self, batch: Batch) -> bool {
        self.to_hash.send(batch.clone()).await.is_ok() && self.to_disk.send(batch).await.is_ok()
    }

    /// Waits until everything sent is hashed and written, and durable when it should be.
    pub(super) async fn finish(mut self, durable: bool) -> io::Result<Received> {
        self.orders.durable.store(durable, Ordering::Release);
        // No more input: the threads end when they have worked off what waits.
        self.to_hash = mpsc::channel(1).0;
        self.to_disk = mpsc::channel(1).0;
        let (hash, disk) = futures::future::join(&mut self.hash, &mut self.disk).await;
        let written = disk.map_err(io::Error::other)??;
        let digest = hash.map_err(io::Error::other)??;
        Ok(Received { digest, written })
    }

    /// Stops both threads and waits until they no longer touch the file.
    pub(super) async fn abandon(mut self) {
        self.orders.abandoned.store(true, Ordering::Release);
        self.to_hash = mpsc::channel(1).0;
        self.to_disk = mpsc::channel(1).0;
        let _ = futures::future::join(&mut self.hash, &mut self.disk).await;
    }
}

fn hash(file: &File, resume_from: u64, mut queue: mpsc::Receiver<Batch>, orders: &Orders) -> io::Result<Digest> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; if resume_from > 0 { READ } else { 0 }];
    let mut at = 0;
    while at < resume_from && !orders.abandoned.load(Ordering::Acquire) {
        let rest = usize::try_from(resume_from - at).unwrap_or(READ);
        let length = file.read_at(&mut buffer[..rest.min(READ)], at)?;
        if length == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the destination is shorter than what to resume from",
            ));
        }
        hasher.update(&buffer[..length]);
        at += length as u64;
    }
    drop(buffer);
    while let Some(batch) = queue.blocking_recv() {
        if orders.abandoned.load(Ordering::Acquire) {
            break;
        }
        batch.parts.iter().for_each(|part| hasher.update(part));
    }
    Ok(Digest::from_bytes(hasher.finalize().into()))
}

fn write(
    file: Arc<File>,
    resume_from: u64,
    size: u64,
    mut queue: mpsc::Receiver<Batch>,
    orders: &Orders,
) -> io::Result<u64> {
    let mut writer = Writer::new(file, resume_from, size)?;
    while let Some(batch) = queue.blocking_recv() {
        if orders.abandoned.load(Ordering::Acquire) {
            return Ok(0);
        }
        writer.write(&batch.parts)?;
    }
    writer.end(orders.durable.load(Ordering::Acquire))
}
