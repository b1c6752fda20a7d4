#![doc = include_str!("../README.md")]

pub mod conveyor;
pub mod generated;
pub mod histogram;
pub mod impairment;
pub mod invalid;
pub mod link;
pub mod measure;
pub mod meter;
pub mod packet;
pub mod queue;
pub mod random;
pub mod rate_course;
pub mod stalls;
pub mod time;
pub mod units;

pub use invalid::Invalid;
pub use packet::Side;
