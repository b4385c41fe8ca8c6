//! `cargo xtask components`: authors may build with `cargo component build`; what it makes must have
//! the same world as what plain cargo makes.
