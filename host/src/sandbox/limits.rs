//! What one attempt may use. Every limit has a default, and each is enforced.

use std::time::Duration;

use wasmtime::ResourceLimiter;

/// Largest single linear memory the engine is laid out for, in bytes.
pub const MAXIMUM_MEMORY: usize = 1 << 30;

/// Limits of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all linear memories together.
    pub memory: usize,
    /// Linear memories.
    pub memories: u32,
    /// Tables.
    pub tables: u32,
    /// Elements of one table.
    pub table_elements: usize,
    /// Core instances.
    pub instances: u32,
    /// Time spent computing; waiting for the host does not count.
    pub cpu: Duration,
    /// Bytes of JSON that a call may answer.
    pub output: usize,
    /// Bytes that one host call may copy out of the component.
    pub host_call: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 256 << 20,
            memories: 4,
            tables: 8,
            table_elements: 20_000,
            instances: 16,
            cpu: Duration::from_secs(60),
            output: 1 << 20,
            host_call: 4 << 20,
        }
    }
}

/// Counts all memories of a store together; a store's own limiter counts each alone.
#[derive(Debug)]
pub(crate) struct Meter {
    limits: Limits,
    memory: usize,
    /// Set when a limit stopped the component, so that the trap can be explained.
    pub(crate) exceeded: Option<&'static str>,
}

impl Meter {
    pub(crate) const fn new(limits: Limits) -> Self {
        Self { limits, memory: 0, exceeded: None }
    }

    pub(crate) const fn limits(&self) -> &Limits {
        &self.limits
    }
}

impl ResourceLimiter for Meter {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let total = self.memory.saturating_sub(current).saturating_add(desired);
        if total > self.limits.memory {
            self.exceeded = Some("memory");
            // A failed growth is an answer a component may ignore for ever; ending the attempt is clear.
            return Err(wasmtime::Error::msg("the attempt's memory limit is reached"));
        }
        self.memory = total;
        Ok(true)
    }

    fn table_growing(&mut self, _current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        if desired > self.limits.table_elements {
            self.exceeded = Some("table elements");
            return Err(wasmtime::Error::msg("the attempt's table limit is reached"));
        }
        Ok(true)
    }

    fn instances(&self) -> usize {
        self.limits.instances as usize
    }

    fn tables(&self) -> usize {
        self.limits.tables as usize
    }

    fn memories(&self) -> usize {
        self.limits.memories as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories_are_counted_together() {
        let mut meter = Meter::new(Limits { memory: 100, ..Limits::default() });
        assert!(meter.memory_growing(0, 60, None).is_ok());
        assert!(meter.memory_growing(0, 40, None).is_ok());
        assert!(meter.memory_growing(60, 61, None).is_err());
        assert_eq!(meter.exceeded, Some("memory"));
    }
}
