//! Experiments: files that say what runs over which network, and what papers say
//! about it.

pub mod analysis;
pub mod network;
pub mod traffic;
