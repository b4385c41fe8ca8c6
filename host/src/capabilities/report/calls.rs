//! The functions of `report`, as components call them.

use crate::sandbox::{
    AttemptState,
    bindings::fettle::report::report::{Host, Level},
    gate::call,
};

impl Host for AttemptState {
    async fn log(&mut self, level: Level, message: String) -> wasmtime::Result<()> {
        call!(self, report.log(level, message))
    }

    async fn progress(&mut self, percent: u8, message: Option<String>) -> wasmtime::Result<()> {
        call!(self, report.progress(percent, message))
    }
}
