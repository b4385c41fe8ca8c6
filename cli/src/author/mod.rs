//! What an author's machine does for a step: asks the toolchain, builds, and says what was built of what.
//!
//! `program` is the only place that starts programs; [`cargo`] and [`toolchain`] ask the author's own,
//! [`build`] builds the same bytes from the same sources, [`copy`] moves sources elsewhere to try it,
//! [`template`] is the crate of a new step, with `answers` for its table of cases, [`source`] says which
//! sources they are, [`sbom`] and [`provenance`] write it down.

mod answers;
pub mod attested;
pub mod build;
pub mod cargo;
pub mod copy;
pub mod crate_name;
mod environment;
mod program;
pub mod provenance;
pub mod record;
pub mod sbom;
pub mod source;
pub mod template;
pub mod toolchain;
