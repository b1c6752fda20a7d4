//! The plug point in real connections: the events that a controller is told of, their times, and
//! the effect of its answers on quiche. These tests have to pass with the first patch alone.

#[path = "../support/mod.rs"]
mod support;

mod answers;
mod events;
mod loopback;
mod selection;

use support::{pair, qlog, recorder};
