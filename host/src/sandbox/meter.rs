//! Counts what one store takes: memories and tables together, not each alone as wasmtime would.

use wasmtime::ResourceLimiter;

use super::{
    limits::{Limit, Limits},
    spent::Spent,
};

/// Counts the memories and tables of a store, and what its attempt has spent so far.
#[derive(Debug)]
pub(crate) struct Meter {
    limits: Limits,
    memory: usize,
    table_elements: usize,
    pub(crate) spent: Spent,
    /// Set when a limit stopped the component, so that the trap can be explained.
    pub(crate) exceeded: Option<Limit>,
}

impl Meter {
    pub(crate) const fn new(limits: Limits, spent: Spent) -> Self {
        Self { limits, memory: 0, table_elements: 0, spent, exceeded: None }
    }

    pub(crate) const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Counts a host call with arguments of so many bytes.
    pub(crate) fn call(&mut self, bytes: u64) -> wasmtime::Result<()> {
        if self.spent.call() > self.limits.host_calls {
            return Err(self.exceed(Limit::HostCalls));
        }
        self.carry(bytes)
    }

    /// Counts what a host call carries in one direction.
    pub(crate) fn carry(&mut self, bytes: u64) -> wasmtime::Result<()> {
        if bytes > self.limits.host_call as u64 {
            return Err(self.exceed(Limit::HostCall));
        }
        if self.spent.carry(bytes) > self.limits.host_bytes {
            return Err(self.exceed(Limit::HostBytes));
        }
        Ok(())
    }

    /// Stops the component: a refused growth is an answer it could ignore for ever.
    pub(crate) fn exceed(&mut self, limit: Limit) -> wasmtime::Error {
        self.exceeded = Some(limit);
        wasmtime::Error::msg(limit.code())
    }
}

impl ResourceLimiter for Meter {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let total = self.memory.saturating_sub(current).saturating_add(desired);
        if total > self.limits.memory {
            return Err(self.exceed(Limit::Memory));
        }
        self.memory = total;
        Ok(true)
    }

    fn table_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let total = self.table_elements.saturating_sub(current).saturating_add(desired);
        if total > self.limits.table_elements {
            return Err(self.exceed(Limit::TableElements));
        }
        self.table_elements = total;
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

    fn meter(limits: Limits) -> Meter {
        Meter::new(limits, Spent::default())
    }

    #[test]
    fn memories_are_counted_together() {
        let mut meter = meter(Limits { memory: 100, ..Limits::default() });
        assert!(meter.memory_growing(0, 60, None).is_ok());
        assert!(meter.memory_growing(0, 40, None).is_ok());
        assert!(meter.memory_growing(60, 61, None).is_err());
        assert_eq!(meter.exceeded, Some(Limit::Memory));
    }

    #[test]
    fn host_calls_are_counted_one_by_one_and_together() {
        let mut meter = meter(Limits { host_call: 60, host_bytes: 100, host_calls: 3, ..Limits::default() });
        assert!(meter.call(60).is_ok() && meter.carry(40).is_ok());
        assert!(meter.carry(1).is_err());
        assert_eq!(meter.exceeded, Some(Limit::HostBytes));
        assert!(meter.carry(61).is_err());
        assert_eq!(meter.exceeded, Some(Limit::HostCall));
        assert!(meter.call(0).is_err() && meter.call(0).is_err() && meter.call(0).is_err());
        assert_eq!(meter.exceeded, Some(Limit::HostCalls));
    }

    #[test]
    fn tables_are_counted_together() {
        let mut meter = meter(Limits { table_elements: 100, ..Limits::default() });
        assert!(meter.table_growing(0, 60, None).is_ok());
        assert!(meter.table_growing(0, 40, None).is_ok());
        assert!(meter.table_growing(60, 61, None).is_err());
        assert_eq!(meter.exceeded, Some(Limit::TableElements));
    }
}
