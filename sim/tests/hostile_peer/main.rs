//! Clients that lie in their acknowledgments, and the limits of their gain. The server and its
//! packets are real; the client has its keys and answers as it pleases.

mod encounter;
mod forger;

use std::time::Duration;

use encounter::{Answer, Outcome, RTT, Seen, Setting};
use forger::{LARGEST_DELAY, ack};

const CONTROLLERS: [&str; 3] = ["vegas", "gallop-vegas", "canter"];

/// Those that never raise BaseRTT.
const KEEPERS_OF_BASE_RTT: [&str; 2] = ["vegas", "gallop-vegas"];

/// PROTOCOL_VIOLATION and FRAME_ENCODING_ERROR (RFC 9000 §20.1).
const PROTOCOL_VIOLATION: u64 = 0x0a;
const FRAME_ENCODING_ERROR: u64 = 0x07;

/// The initial window, in datagrams.
const INITIAL_WINDOW: usize = 10;

/// The time at which a lie begins that is to find a grown window.
const LATER: Duration = Duration::from_secs(3);

/// Acknowledges the packets that have arrived and no others, each in a packet of its own, and
/// claims `delay`.
fn claiming(delay: u64) -> impl FnMut(&Seen) -> Vec<Answer> + Send {
    move |seen| {
        let answer = |&(number, _): &(u64, Duration)| Answer::now(ack(number, number, delay));
        seen.arrived.iter().map(answer).collect()
    }
}

fn honest(controller: &'static str) -> Outcome {
    Setting::new(controller).meet(claiming(0))
}

/// Prints the effects on a server, for the documentation's figures.
fn shown(what: &str, setting: &Setting, outcome: Outcome) -> Outcome {
    println!(
        "{what}, {}: {:.3} of the rate, windows up to {} and {} in the end, {} sent, {} dropped, \
         queue up to {}, waits of {:?}, closed {:?}",
        setting.controller,
        outcome.utilisation(setting.duration),
        outcome.largest_window,
        outcome.last_window,
        outcome.sent,
        outcome.dropped,
        outcome.longest_queue,
        outcome.mean_wait,
        outcome.closed
    );
    outcome
}

fn assert_closed(outcome: &Outcome, expected: u64) {
    let (_, code) = outcome.closed.expect("it is closed");
    assert_eq!(code, expected);
}

#[test]
fn an_honest_client_is_served_without_a_loss() {
    for controller in CONTROLLERS {
        let setting = Setting::new(controller);
        let outcome = shown("honest", &setting, honest(controller));
        assert_eq!((outcome.closed, outcome.dropped), (None, 0));
        assert!(outcome.utilisation(setting.duration) > 0.9, "{outcome:?}");
    }
}

#[test]
fn acknowledging_what_was_never_sent_closes_the_connection() {
    for controller in CONTROLLERS {
        let outcome = Setting::new(controller).meet(|seen| {
            let one = |_: &_| Answer::now(ack(0, seen.largest_sent + 1, 0));
            seen.arrived.first().map(one).into_iter().collect()
        });
        assert_closed(&outcome, PROTOCOL_VIOLATION);
        assert!(
            outcome.sent <= INITIAL_WINDOW as u64,
            "at the first: {}",
            outcome.sent
        );
    }
}

/// quiche leaves out a packet number every 10 + W/2 to 10 + 2·W packets, and does so again once a
/// later packet was acknowledged (RFC 9000 §21.4). Until the false acknowledgment arrives, one or
/// two windows more are sent, since the window may have doubled.
fn found_within(window: usize) -> usize {
    10 + 2 * window + 2 * window
}

#[test]
fn acknowledging_before_arrival_is_found_out() {
    for controller in CONTROLLERS {
        for begins in [Duration::ZERO, LATER] {
            let (mut most, mut most_allowed) = (0, 0);
            for seed in 1..=50 {
                let setting = Setting {
                    seed,
                    ..Setting::new(controller)
                };
                // The strongest such client knows at once which packets have been sent.
                let mut honest = claiming(0);
                let outcome = setting.meet(|seen| match seen.now < begins {
                    true => honest(seen),
                    false => vec![Answer::now(ack(0, seen.largest_sent, 0))],
                });
                assert_closed(&outcome, PROTOCOL_VIOLATION);
                let sent = outcome.sent_after(begins);
                let allowed = found_within(outcome.largest_window.max(INITIAL_WINDOW));
                assert!(
                    sent <= allowed,
                    "{controller}, seed {seed}: {sent} of {allowed}"
                );
                most = most.max(sent);
                most_allowed = most_allowed.max(allowed);
            }
            println!(
                "early from {begins:?} on, {controller}: found after {most} datagrams at most, {most_allowed} allowed"
            );
        }
    }
}

/// A client that acknowledges lost packets, to have the decrease undone, cannot tell a lost packet
/// from one that was never sent.
#[test]
fn acknowledging_what_did_not_arrive_is_found_out() {
    for controller in CONTROLLERS {
        for seed in 1..=50 {
            let setting = Setting {
                seed,
                ..Setting::new(controller)
            };
            let mut largest = 0;
            let outcome = setting.meet(|seen| {
                let answer = |&(number, _): &(u64, Duration)| {
                    largest = largest.max(number);
                    Answer::now(ack(0, largest, 0))
                };
                seen.arrived.iter().map(answer).collect()
            });
            assert_closed(&outcome, PROTOCOL_VIOLATION);
            let allowed = found_within(outcome.largest_window) + outcome.largest_window;
            assert!(outcome.sent <= allowed as u64, "seed {seed}: {outcome:?}");
        }
    }
}

#[test]
fn a_delay_beyond_all_numbers_closes_the_connection() {
    for controller in CONTROLLERS {
        let outcome = Setting::new(controller).meet(claiming(LARGEST_DELAY));
        assert_closed(&outcome, FRAME_ENCODING_ERROR);
    }
}

/// Claimed delays are believed up to the announced max_ack_delay (RFC 9002 §5.3).
#[test]
fn a_false_delay_hides_a_queue_as_long_as_was_announced() {
    for controller in CONTROLLERS {
        let setting = Setting::new(controller);
        let announced = Duration::from_millis(setting.max_ack_delay_ms);
        let outcome = shown("false delay", &setting, setting.meet(claiming(1 << 30)));
        let explained = honest(controller).mean_wait + announced;
        assert!(outcome.mean_wait <= explained, "{outcome:?}");
        assert_eq!(outcome.dropped, 0);
    }
}

/// Checks that a client that makes a controller blind to delay gets no more than any client gets
/// from Reno, since losses still count.
fn assert_no_worse_than_reno(outcome: &Outcome) {
    let reno = honest("reno");
    assert_eq!(outcome.closed, None);
    assert!(outcome.dropped <= reno.dropped, "{outcome:?}");
    assert!(outcome.largest_window <= reno.largest_window, "{outcome:?}");
}

#[test]
fn a_client_that_hides_all_delay_gets_what_losses_allow() {
    shown("honest", &Setting::new("reno"), honest("reno"));
    for controller in CONTROLLERS {
        let setting = Setting {
            // The most that may be announced (RFC 9000 §18.2).
            max_ack_delay_ms: (1 << 14) - 1,
            ..Setting::new(controller)
        };
        let outcome = shown("any delay", &setting, setting.meet(claiming(1 << 30)));
        assert!(outcome.dropped > 0, "it is blind to the queue");
        assert_no_worse_than_reno(&outcome);
    }
}

#[test]
fn a_client_that_answers_after_the_same_time_always_gets_what_losses_allow() {
    // It is as if the RTT were twice as long, and the queue takes half of it.
    let constant = 2 * RTT;
    for controller in CONTROLLERS {
        let setting = Setting::new(controller);
        let outcome = setting.meet(|seen| {
            let answer = |&(number, sent): &(u64, Duration)| Answer {
                wait: (sent + constant).saturating_sub(seen.now + RTT / 2),
                frames: ack(number, number, 0),
            };
            seen.arrived.iter().map(answer).collect()
        });
        let outcome = shown("constant RTT", &setting, outcome);
        assert!(outcome.mean_wait > honest(controller).mean_wait);
        assert_no_worse_than_reno(&outcome);
    }
}

/// Lets a server meet a client that acknowledges one packet before it arrives.
fn lied_to_once(setting: &Setting) -> Outcome {
    let (mut lied, mut tells_truth) = (false, claiming(0));
    let outcome = setting.meet(|seen| {
        let mut answers = tells_truth(seen);
        if seen.now > LATER && !lied {
            lied = true;
            let newest = seen.largest_sent;
            answers.push(Answer::now(ack(newest, newest, 0)));
        }
        answers
    });
    shown("one too early", setting, outcome)
}

/// One sample that is too low stays BaseRTT, so that the true RTT looks like a queue.
#[test]
fn an_early_acknowledgment_slows_down_whoever_sends_it() {
    for controller in KEEPERS_OF_BASE_RTT {
        let setting = Setting::new(controller);
        let outcome = lied_to_once(&setting);
        let honest = honest(controller);
        assert!(outcome.sent < honest.sent && outcome.last_window < honest.last_window);
        assert!(outcome.longest_queue <= honest.longest_queue, "{outcome:?}");
        assert!(outcome.last_window >= 2);
    }
}

/// Canter forgives it: BaseRTT is raised when checks do not see it again. The lie wins nothing.
#[test]
fn an_early_acknowledgment_gains_nothing_from_a_controller_that_forgives() {
    let setting = Setting::new("canter");
    let outcome = lied_to_once(&setting);
    let honest = honest("canter");
    assert_eq!(outcome.dropped, 0);
    assert!(outcome.sent <= honest.sent, "{outcome:?}");
    assert!(outcome.longest_queue <= honest.longest_queue, "{outcome:?}");
}

/// Canter takes the rate from the distances of ACKs. A client that holds ACKs and lets them go close
/// together claims many times the rate of the path. The window stays below that of Reno's slow
/// start, and losses below the part from which on each of them is congestion.
#[test]
fn acknowledgments_close_together_gain_no_more_than_losses_allow() {
    let most_window = honest("reno").largest_window;
    for hold_ms in [2, 10, 40, 80, 200] {
        let hold_ns = hold_ms * 1_000_000;
        let setting = Setting::new("canter");
        let outcome = setting.meet(|seen| {
            let since_ns = seen.now.as_nanos() as u64 % hold_ns;
            let held = |&(number, _): &(u64, Duration)| Answer {
                wait: Duration::from_nanos(hold_ns - since_ns),
                frames: ack(number, number, 0),
            };
            seen.arrived.iter().map(held).collect()
        });
        let outcome = shown(&format!("held for {hold_ms} ms"), &setting, outcome);
        assert_eq!(outcome.closed, None);
        assert!(outcome.largest_window <= most_window, "{outcome:?}");
        assert!(outcome.dropped <= outcome.sent / 50, "{outcome:?}");
        assert!(outcome.sent <= honest("canter").sent, "{outcome:?}");
    }
}

/// After the window, two datagrams leave per probe timeout. It is at least 0.1 s here, and doubles.
#[test]
fn without_acknowledgments_a_window_is_sent_and_some_probes() {
    let silence = Duration::from_secs(100);
    let timeouts = (silence.as_secs_f64() / 0.1).log2().ceil() as usize;
    for controller in CONTROLLERS {
        for begins in [Duration::ZERO, LATER] {
            let setting = Setting {
                duration: begins + silence,
                ..Setting::new(controller)
            };
            let mut tells_truth = claiming(0);
            let outcome = setting.meet(|seen| match seen.now < begins {
                true => tells_truth(seen),
                false => Vec::new(),
            });
            // Acknowledgments that are under way still arrive.
            let sent = outcome.sent_after(begins + RTT / 2) + INITIAL_WINDOW;
            let outcome = shown("silent", &setting, outcome);
            assert!(
                sent <= INITIAL_WINDOW + outcome.last_window + 2 * timeouts,
                "{sent}"
            );
        }
    }
}

#[test]
fn repeating_and_splitting_acknowledgments_gains_nothing() {
    for controller in CONTROLLERS {
        let repeated = Setting::new(controller).meet(|seen| {
            let all = seen.arrived.iter();
            all.flat_map(|&(number, _)| (0..10).map(move |_| Answer::now(ack(number, number, 0))))
                .collect()
        });
        let honest = honest(controller);
        assert_eq!(repeated.sent_at, honest.sent_at);
        assert_eq!(repeated.largest_window, honest.largest_window);
    }
}
