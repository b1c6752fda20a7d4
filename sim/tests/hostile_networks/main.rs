//! Networks that lose, delay, repeat and rewrite packets and change, some for a while and some for
//! good. Every transfer arrives whole, goes on soon after its path has healed, and is no slower for
//! it in the end.
//!
//! `HOSTILE_SEEDS=100` runs every scenario with 100 seeds under each controller.

mod path;
mod scenario;

use std::time::Duration;

use gallop_sim::{Controller, Flow, Move};

use path::{Path, SHARE, TYPICAL};
use scenario::{BYTES, Scenario, alone, check, observe, seeds, simulation};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Most paths are impaired from 1 s to 3 s.
const FROM: Duration = ms(1000);
const TO: Duration = ms(3000);

fn passing(hurt: &str) -> Scenario {
    Scenario::passing(TYPICAL, hurt, FROM, TO)
}

/// Stream bytes of transfers that are hurt to their end.
const FEW_BYTES: u64 = 200_000;

#[test]
fn losses_that_pass() {
    let losses = ["0.001", "0.01", "0.05", "0.1", "0.2", "0.3", "0.4", "0.5"];
    check(losses.map(|loss| passing(&format!("loss = {loss}"))));
    check(["0.1", "0.3"].map(|loss| passing(&format!("loss = {loss}\nreverse.loss = {loss}"))));
}

#[test]
fn losses_that_stay() {
    check([0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5].map(|loss| {
        let limit = TYPICAL.completion_with_loss(loss, FEW_BYTES);
        Scenario::lasting(TYPICAL, format!("loss = {loss}"), FEW_BYTES, limit)
    }));
}

#[test]
fn bursts_of_losses() {
    // In the mean 4, 20 and 100 packets, 4 %, 29 % and 33 % of all.
    let bursts = [(0.01, 0.25), (0.02, 0.05), (0.005, 0.01)];
    check(bursts.map(|(p, r)| {
        passing(&format!(
            "loss = {{ kind = \"gilbert-elliott\", p = {p}, r = {r} }}"
        ))
    }));
}

#[test]
fn reordering_up_to_a_window() {
    // A window is an RTT of 40 ms.
    let all = [
        (0.01, 5),
        (0.01, 40),
        (0.1, 5),
        (0.1, 40),
        (0.5, 5),
        (0.5, 40),
    ];
    check(all.map(|(probability, delay)| {
        passing(&format!(
            "reorder = {{ probability = {probability}, delay = \"{delay}ms\" }}"
        ))
    }));
}

#[test]
fn duplication() {
    check(
        ["0.1", "0.5", "1"]
            .map(|share| passing(&format!("duplicate = {share}\nreverse.duplicate = {share}"))),
    );
}

#[test]
fn corruption() {
    check(
        ["0.01", "0.1", "0.3"]
            .map(|share| passing(&format!("corrupt = {share}\nreverse.corrupt = {share}"))),
    );
}

#[test]
fn blackouts() {
    let lengths = [1, 10, 100, 1000, 10_000, 60_000, 120_000];
    check(lengths.map(|length| {
        let outage = format!(
            "outages = [{{ from = \"1s\", to = \"{}ms\" }}]\n",
            1000 + length
        );
        let both = format!("{outage}reverse.{outage}");
        Scenario::healing(TYPICAL, both, FROM, FROM + ms(length))
    }));
}

#[test]
fn jitter_of_several_round_trips() {
    let all = [(40, true), (120, true), (40, false), (120, false)];
    check(all.map(|(max, in_order)| {
        passing(&format!(
            "jitter = {{ max = \"{max}ms\", in-order = {in_order} }}"
        ))
    }));
}

#[test]
fn acknowledgments_compressed_and_lost() {
    check(
        [
            "reverse.bundle = \"20ms\"",
            "reverse.bundle = \"100ms\"",
            "reverse.bundle = \"500ms\"",
            "reverse.loss = 0.1",
            "reverse.loss = 0.5",
            "reverse.loss = 0.9",
        ]
        .map(passing),
    );
}

#[test]
fn rates_that_change_a_hundredfold() {
    let slow = Path {
        rate_bps: TYPICAL.rate_bps / 100,
        ..TYPICAL
    };
    let dip = "changes = [{ at = \"1s\", rate = \"100kbit\" }, { at = \"3s\", rate = \"10mbit\" }]";
    let up = "changes = [{ at = \"1s\", rate = \"10mbit\" }]";
    let down = "changes = [{ at = \"1s\", rate = \"100kbit\" }]";
    let bytes = 2_000_000;
    check([
        // While the rate is low, RTTs are those of the slow path, and timeouts with them.
        Scenario {
            limit: TYPICAL.completion_after(TO, TO - FROM, BYTES) + slow.progress(TO - FROM),
            ..Scenario::healing(TYPICAL, dip, FROM, TO)
        },
        Scenario {
            limit: TYPICAL.completion_after(FROM, FROM, BYTES) + slow.progress(FROM),
            ..Scenario::lasting(slow, up, BYTES, Duration::ZERO)
        },
        Scenario {
            limit: FROM + slow.progress(FROM) + slow.carriage(bytes, SHARE),
            ..Scenario::lasting(TYPICAL, down, bytes, Duration::ZERO)
        },
    ]);
}

#[test]
fn round_trips_that_change_tenfold() {
    let long = Path {
        rtt: 10 * TYPICAL.rtt,
        ..TYPICAL
    };
    // 1.6 ms of the round trip are on the access links, 16 ms of the long one.
    let detour =
        "changes = [{ at = \"1s\", delay = \"199.2ms\" }, { at = \"3s\", delay = \"19.2ms\" }]";
    let shorter = "changes = [{ at = \"1s\", delay = \"12ms\" }]";
    check([
        Scenario {
            limit: TYPICAL.completion_after(TO, TO - FROM, BYTES) + long.progress(TO - FROM),
            ..Scenario::healing(TYPICAL, detour, FROM, TO)
        },
        Scenario {
            limit: TYPICAL.completion_after(FROM, FROM, BYTES) + long.progress(FROM),
            ..Scenario::lasting(long, shorter, BYTES, Duration::ZERO)
        },
    ]);
}

/// Vegas takes the longer way for a queue (the rerouting problem of BaseRTT) and keeps no more in
/// flight than it would keep queued, for as long as the connection stays there. A client that
/// migrates, as most do whose way has changed, gets all of the new path.
#[test]
fn a_longer_way_for_good_is_taken_for_a_queue_until_the_client_migrates() {
    let detour = "changes = [{ at = \"1s\", delay = \"199.2ms\" }]";
    let text = Scenario::lasting(TYPICAL, detour, 0, ms(0)).text();
    for controller in ["vegas", "gallop-vegas"] {
        for seed in 1..=seeds() {
            let [detour, migrated] = alone(seed, || {
                [60_000, 2_000].map(|migrates_at| {
                    let mut simulation = simulation(&text, seed).expect("a path");
                    let flow = Flow {
                        moves: vec![(ms(migrates_at), Move::Migration)],
                        observer: Some(Box::new(observe)),
                        ..Flow::new(Controller::named(controller))
                    };
                    simulation.add_flow(flow).expect("a route");
                    let mut received = [30, 50].map(|end| {
                        simulation.run_until(ms(end * 1000)).expect("progress");
                        simulation.report(0).expect("the flow").received_bytes
                    });
                    received.reverse();
                    received[0] - received[1]
                })
            });
            // Backlog W·(D − d)/D with D = 10·d is above β for a window of (β + ½)·10/9 datagrams,
            // so there are 2 to 7 of them per RTT of 0.4 s, in 20 s.
            let window = detour as f64 / 1300.0 / 50.0;
            println!(
                "{controller:12} {window:.1} datagrams per RTT, {migrated} bytes after migration"
            );
            assert!((2.0..=7.5).contains(&window), "{controller}: {window}");
            assert!(migrated > 10 * detour, "{controller}: {migrated}");
        }
    }
}

/// quiche takes the MTU that it has found, or was told, for granted: it has no detection of black
/// holes (RFC 8899 §4.3), and sends lost data again in datagrams of the same size.
#[test]
fn an_mtu_that_shrinks_for_good_stalls_a_connection() {
    for (controller, discovers_mtu) in [("vegas", true), ("gallop-vegas", false)] {
        let scenario = Scenario {
            discovers_mtu,
            ..Scenario::passing(TYPICAL, "mtu = 1300", FROM, ms(100_000))
        };
        alone(1, || {
            let mut simulation = simulation(&scenario.text(), 1).expect("a path");
            simulation
                .add_flow(scenario.flow(controller))
                .expect("a route");
            let mut received = [2, 60].map(|end| {
                simulation
                    .run_until(ms(end * 1000))
                    .expect("no failure yet");
                simulation.report(0).expect("the flow").received_bytes
            });
            received.reverse();
            assert_eq!(received[0], received[1], "{controller}");
        });
    }
}

#[test]
fn small_buffers() {
    check([1, 2, 3].map(|buffer_packets| {
        let path = Path {
            buffer_packets,
            ..TYPICAL
        };
        // Datagrams leave in pairs, so that with room for one the buffer overflows when the window
        // is more than half of what the path holds; and a loss leaves three quarters of that.
        Scenario::lasting(path, "", BYTES, path.completion(BYTES, 0.375))
    }));
}

/// A transfer over a path without impairments.
fn unhurt(path: Path, bytes: u64) -> Scenario {
    Scenario::lasting(path, "", bytes, path.completion(bytes, SHARE))
}

#[test]
fn rates_from_32_kbit_to_10_gbit() {
    let rates = [
        (32_000, FEW_BYTES),
        (1_000_000, FEW_BYTES),
        (100_000_000, 4 * BYTES),
        (1_000_000_000, 4 * BYTES),
        (10_000_000_000, 4 * BYTES),
    ];
    check(rates.map(|(rate_bps, bytes)| {
        let path = Path {
            rate_bps,
            buffer_packets: 200,
            ..TYPICAL
        };
        unhurt(path, bytes)
    }));
}

#[test]
fn round_trips_from_100_us_to_2_s() {
    let all = [
        (100, TYPICAL.rate_bps),
        (100, 10_000_000_000),
        (1_000, TYPICAL.rate_bps),
        (2_000_000, 32_000),
        (2_000_000, TYPICAL.rate_bps),
    ];
    check(all.map(|(rtt_us, rate_bps)| {
        let path = Path {
            rtt: Duration::from_micros(rtt_us),
            rate_bps,
            ..TYPICAL
        };
        unhurt(path, FEW_BYTES)
    }));
}

#[test]
fn a_receiver_that_holds_every_acknowledgment_as_long_as_it_may() {
    check([25, 100, 1000].map(|delay| {
        let path = Path {
            max_ack_delay: ms(delay),
            ..TYPICAL
        };
        Scenario {
            ack_every: 1 << 20,
            ..unhurt(path, FEW_BYTES)
        }
    }));
}

#[test]
fn path_mtus_that_change() {
    let probing = |scenario| Scenario {
        discovers_mtu: true,
        ..scenario
    };
    check([
        // For two seconds only small datagrams pass.
        passing("mtu = 1300"),
        probing(passing("mtu = 1300")),
        // One while larger ones are looked for, and one to the end.
        probing(Scenario::passing(TYPICAL, "mtu = 1300", ms(0), FROM)),
        probing(Scenario::lasting(
            TYPICAL,
            "mtu = 1300",
            BYTES,
            TYPICAL.completion(BYTES, SHARE),
        )),
    ]);
}

#[test]
fn clients_that_move() {
    let moving = |moves: &[(u64, Move)]| Scenario {
        name: format!("{moves:?}"),
        moves: moves.iter().map(|&(at, kind)| (ms(at), kind)).collect(),
        ..Scenario::healing(TYPICAL, "", FROM, FROM + ms(1))
    };
    let one = moving(&[(1000, Move::Migration)]);
    let long = Path {
        rtt: 10 * TYPICAL.rtt,
        ..TYPICAL
    };
    check([
        one.clone(),
        moving(&[(1000, Move::Rebinding)]),
        Scenario {
            limit: TYPICAL.completion_after(TO, TO - FROM, BYTES),
            ..moving(&[
                (1000, Move::Migration),
                (1500, Move::Rebinding),
                (2000, Move::Migration),
                (2500, Move::Rebinding),
            ])
        },
        Scenario {
            name: "a migration to a path of ten times the RTT".to_owned(),
            hurt: "changes = [{ at = \"1s\", delay = \"199.2ms\" }]".to_owned(),
            limit: long.completion_after(FROM, ms(0), BYTES),
            ..one
        },
    ]);
}
