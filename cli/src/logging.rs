//! The program's own log. Silent, unless somebody asks with `FETTLE_LOG`; `fettle dev` logs to a file.

use std::{fs::File, io, sync::Mutex};

use tracing_subscriber::EnvFilter;

/// Names what is logged, as in `FETTLE_LOG=debug`.
const VARIABLE: &str = "FETTLE_LOG";

/// Logs to standard error.
pub(crate) fn to_stderr() {
    let filter = EnvFilter::try_from_env(VARIABLE).unwrap_or_else(|_| EnvFilter::new("off"));
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).try_init();
}

/// Logs to a file.
pub(crate) fn to_file(file: File) {
    let filter = EnvFilter::try_from_env(VARIABLE).unwrap_or_else(|_| EnvFilter::new("info"));
    let _ = tracing_subscriber::fmt().with_ansi(false).with_env_filter(filter).with_writer(Mutex::new(file)).try_init();
}
