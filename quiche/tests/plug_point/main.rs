//! The plug point in real connections: what a controller is told, when, and what quiche does with
//! its answers. The first patch alone has to pass these tests.

#[path = "../support/mod.rs"]
mod support;

mod answers;
mod events;
mod loopback;
mod selection;

use support::{pair, qlog, recorder};
