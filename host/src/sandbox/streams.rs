//! Standard output and standard error of a component: they lead nowhere, and what is written counts as
//! passed in host calls. The beginning of standard error is kept, for the words of a panic.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::AsyncWrite;
use wasmtime_wasi::{
    async_trait,
    cli::{IsTerminal, StdoutStream},
    p2::{OutputStream, Pollable, StreamError, StreamResult},
};

use super::{
    limits::{Limit, Limits},
    spent::Spent,
};

/// What is kept: enough for the words of a panic.
const KEPT: usize = 4 << 10;

/// Most bytes of one write. What the components of the toolchain write at once.
const WRITE: usize = 4 << 10;

/// The beginning of what was written. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Beginning(Arc<Mutex<Vec<u8>>>);

impl Beginning {
    fn add(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = KEPT.saturating_sub(kept.len());
        kept.extend(bytes.iter().take(room));
    }

    /// In one line.
    pub(super) fn text(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).trim().replace('\n', " ")
    }
}

/// A stream that leads nowhere.
#[derive(Clone)]
pub(super) struct Nowhere {
    beginning: Option<Beginning>,
    spent: Spent,
    limit: u64,
}

impl Nowhere {
    pub(super) const fn new(beginning: Option<Beginning>, spent: Spent, limits: &Limits) -> Self {
        Self { beginning, spent, limit: limits.host_bytes }
    }
}

impl IsTerminal for Nowhere {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Nowhere {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[async_trait]
impl Pollable for Nowhere {
    async fn ready(&mut self) {}
}

impl OutputStream for Nowhere {
    fn write(&mut self, bytes: bytes::Bytes) -> StreamResult<()> {
        if self.spent.carry(bytes.len() as u64) > self.limit {
            return Err(StreamError::Trap(wasmtime::Error::msg(Limit::HostBytes.code())));
        }
        if let Some(beginning) = &self.beginning {
            beginning.add(&bytes);
        }
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_beginning_of_standard_error_is_kept() {
        let beginning = Beginning::default();
        (0..3).for_each(|_| beginning.add(&[b'x'; KEPT / 2 + 1]));
        assert_eq!(beginning.text(), "x".repeat(KEPT));
    }
}
