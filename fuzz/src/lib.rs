//! Fuzz targets, and the inputs that are kept of them in this folder.
//!
//! A target is a test named `fuzz_` and the target's name. `cargo test` replays the kept inputs and
//! then tries some random ones; `cargo xtask fuzz` runs the same test with libFuzzer.

pub mod corpus;
#[cfg(feature = "targets")]
mod target;

#[cfg(feature = "targets")]
pub use target::check;
