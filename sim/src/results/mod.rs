//! Results as people read them: metrics under several seeds, and documents with tables of them.

mod document;
mod estimate;
mod interval;

pub use document::Document;
pub use estimate::Estimate;
