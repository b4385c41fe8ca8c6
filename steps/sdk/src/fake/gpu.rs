//! `gpu` on the fake node.

use super::node::with;
use crate::gpu::{Error, Snapshot};

pub(crate) fn read() -> Result<Snapshot, Error> {
    with(|state| {
        state.calls.push("gpu.read".to_owned());
        state.gpu.clone()
    })
}
