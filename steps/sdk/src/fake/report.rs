//! `report` on the fake node.

use super::node::with;
use crate::report::Level;

pub(crate) fn log(level: Level, message: &str) {
    with(|state| state.logs.push((level, message.to_owned())));
}

pub(crate) fn progress(percent: u8, message: Option<&str>) {
    with(|state| state.progress.push((percent, message.map(str::to_owned))));
}
