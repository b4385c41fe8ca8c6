//! What belongs to one attempt while its component runs. A fresh one for each call.

use wasmtime::{UpdateDeadline, component::ResourceTable};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use super::{
    inert,
    limits::{Limit, Limits},
    meter::Meter,
    spent::Spent,
    streams::Beginning,
    tape::Tape,
};
use crate::capabilities::Prepared;

/// The data of one store.
pub struct AttemptState {
    pub(crate) capabilities: Prepared,
    pub(crate) meter: Meter,
    pub(crate) tape: Option<Tape>,
    wasi: WasiCtx,
    stderr: Beginning,
    table: ResourceTable,
}

impl AttemptState {
    pub(super) fn new(capabilities: Prepared, limits: &Limits, spent: Spent, tape: Option<Tape>) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits.handles);
        let stderr = Beginning::default();
        Self {
            capabilities,
            wasi: inert::context(stderr.clone(), &spent, limits),
            meter: Meter::new(limits.clone(), spent),
            tape,
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
        self.stderr.text()
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
