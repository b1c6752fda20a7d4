//! Results as people read them: metrics under several seeds.

mod estimate;
mod interval;

pub use estimate::Estimate;
