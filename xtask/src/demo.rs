//! `cargo xtask demo`
