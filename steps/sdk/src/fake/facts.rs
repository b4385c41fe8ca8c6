//! `facts` on the fake node.

use super::node::with;
use crate::facts::{Error, Filesystem, KernelMessage, MemoryUsage, Process, SystemInformation};

macro_rules! fact {
    ($name:ident -> $type:ty) => {
        pub(crate) fn $name() -> Result<$type, Error> {
            with(|state| {
                state.calls.push(concat!("facts.", stringify!($name)).to_owned());
                state.$name.clone()
            })
        }
    };
}

fact!(system -> SystemInformation);
fact!(memory -> MemoryUsage);
fact!(filesystems -> Vec<Filesystem>);
fact!(processes -> Vec<Process>);
fact!(kernel_log -> Vec<KernelMessage>);
