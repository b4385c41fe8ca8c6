//! Every limit of the sandbox, attacked: each alone with the limit in place and taken out, then all
//! together beside honest steps. The attacking component is tests/hostile.

mod attacks;
mod beside;
mod clocks;
mod cuts;
mod dead_mount;
mod forms;
mod leak;
mod limits;
mod queues;
mod reference;
mod survival;

use crate::common;
