//! `fettle`: what authors and administrators type.
//!
//! [`command`] has one module per command group; [`author`] builds steps and records how;
//! [`plane`] speaks to a plane, [`watch`] draws an
//! operation, [`dev`] runs plane, host and registry in one process.

mod arguments;
pub mod author;
pub mod command;
pub mod context;
pub mod dev;
pub mod error;
pub mod exit;
mod logging;
pub mod login;
pub mod output;
pub mod plane;
mod report;
pub mod supply;
pub mod watch;

pub use self::arguments::main;
