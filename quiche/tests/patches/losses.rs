//! A transfer with losses, which tests count and find in logs.

use crate::pair::{config, write, Pair};
use crate::qlog::Qlog;
use crate::recorder::Recorder;
use crate::support::{lose, WIDE};

/// The controllers of both implementations of loss recovery.
pub const CONTROLLERS: [&str; 4] = ["reno", "cubic", "bbr2_gcongestion", "external"];

/// The places of the lost packets among those that the server sends.
pub const LOST: [usize; 3] = [0, 3, 4];

/// A connection whose server has lost packets, after everything has arrived.
pub struct Losses {
    pub pair: Pair,
    pub qlog: Qlog,
    pub lost_bytes: u64,
}

impl Losses {
    /// Makes the transfer with this controller.
    pub fn with(controller: &str) -> Losses {
        let mut server = config();
        match controller {
            "external" => server.set_cc_controller_factory(Recorder::new(WIDE).factory()),
            name => server.set_cc_algorithm_name(name).unwrap(),
        }
        server.set_initial_congestion_window_packets(40);
        let mut pair = Pair::connected(&mut config(), &mut server);
        let qlog = Qlog::of(&mut pair.server);
        write(&mut pair.server, 24_000);
        let lost_bytes = lose(&mut pair, &LOST);
        assert!(lost_bytes > 3000, "{controller}");
        pair.settle();
        Losses {
            pair,
            qlog,
            lost_bytes,
        }
    }
}
