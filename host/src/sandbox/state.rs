//! What belongs to one attempt while its component runs. A fresh one for each call.

use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView, p2::pipe::MemoryOutputPipe};

use super::{
    inert,
    limits::{Limits, Meter},
};
use crate::capabilities::Prepared;

/// The data of one store.
pub struct AttemptState {
    pub(crate) capabilities: Prepared,
    pub(crate) meter: Meter,
    pub(super) ticks_left: u64,
    wasi: WasiCtx,
    stderr: MemoryOutputPipe,
    table: ResourceTable,
}

/// What is kept of a component's standard error: enough for the words of a panic.
const STDERR_LIMIT: usize = 4 << 10;

impl AttemptState {
    pub(super) fn new(capabilities: Prepared, limits: Limits) -> Self {
        let ticks = limits.cpu.as_millis() / super::engine::TICK.as_millis();
        let mut table = ResourceTable::new();
        table.set_max_capacity(1_000);
        let stderr = MemoryOutputPipe::new(STDERR_LIMIT);
        Self {
            capabilities,
            meter: Meter::new(limits),
            ticks_left: u64::try_from(ticks).unwrap_or(u64::MAX),
            wasi: inert::context(stderr.clone()),
            stderr,
            table,
        }
    }

    /// What the component wrote to its standard error, in one line.
    pub(super) fn standard_error(&self) -> String {
        String::from_utf8_lossy(&self.stderr.contents()).trim().replace('\n', " ")
    }
}

impl WasiView for AttemptState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl wasmtime_wasi_io::IoView for AttemptState {
    fn table(&mut self) -> &mut ResourceTable {
        &mut self.table
    }
}
