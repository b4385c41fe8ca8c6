//! What belongs to one attempt while its component runs. A fresh one for each call.

use wasmtime::{UpdateDeadline, component::ResourceTable};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView, p2::pipe::MemoryOutputPipe};

use super::{
    inert,
    limits::{Limit, Limits},
    meter::Meter,
    spent::Spent,
    tape::Tape,
};
use crate::capabilities::Prepared;

/// The data of one store.
pub struct AttemptState {
    pub(crate) capabilities: Prepared,
    pub(crate) meter: Meter,
    pub(crate) tape: Option<Tape>,
    wasi: WasiCtx,
    stderr: MemoryOutputPipe,
    table: ResourceTable,
}

/// What is kept of a component's standard error: enough for the words of a panic.
const STDERR_LIMIT: usize = 4 << 10;

impl AttemptState {
    pub(super) fn new(capabilities: Prepared, limits: &Limits, spent: Spent, tape: Option<Tape>) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits.handles);
        let stderr = MemoryOutputPipe::new(STDERR_LIMIT);
        Self {
            capabilities,
            meter: Meter::new(limits.clone(), spent),
            tape,
            wasi: inert::context(stderr.clone(), limits),
            stderr,
            table,
        }
    }

    /// The engine's tick: whether the component may go on computing.
    pub(super) fn tick(&mut self) -> wasmtime::Result<UpdateDeadline> {
        if self.meter.spent.computing() > self.meter.limits().cpu {
            return Err(self.meter.exceed(Limit::Cpu));
        }
        self.meter.spent.interrupt();
        Ok(UpdateDeadline::Yield(1))
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
