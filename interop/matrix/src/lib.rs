//! Other people's QUIC implementations against ours: server × client × controller × case, over an
//! emulated path, with the test cases, folders and environment of the QUIC interop runner
//! (<https://github.com/quic-interop/quic-interop-runner>), without its containers.

#![cfg(target_os = "linux")]

pub mod blame;
pub mod capture;
pub mod case;
pub mod cell;
pub mod check;
mod container;
pub mod decrypted;
pub mod endpoint;
pub mod fixture;
pub mod lanes;
pub mod outcome;
pub mod page;
pub mod plan;
mod process;
pub mod programs;
pub mod real;
pub mod result;
pub mod traffic;
