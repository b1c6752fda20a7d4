//! The metrics: one table of everything that the laboratory measures, with name, unit and meaning.
//!
//! Experiments name metrics by it, and `docs/metrics.md` and the reports' `metrics.json` are made
//! from it, so that a metric has one name, one unit and one meaning everywhere.

use std::fmt::Write as _;

use serde::Serialize;

use super::document::unknown_name;

/// The kind of thing that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A flow, or a member of a flow that stands for several.
    Flow,
    /// A direction of a link.
    Link,
    /// All flows together.
    Run,
    /// A paper's formulas.
    Analysis,
}

/// The direction in which a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// The lower the better.
    Low,
    /// The higher the better.
    High,
}

/// The way people see a metric's values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Shown {
    /// The unit in which they are shown; empty for counts and ratios.
    pub unit: &'static str,
    /// The factor from the metric's own unit to this one.
    pub scale: f64,
    /// Digits after the decimal point.
    pub digits: usize,
}

/// A metric of one kind of subject.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Metric {
    /// Its name in files.
    pub name: &'static str,
    /// The things that have it.
    pub subject: Kind,
    /// True if it is a value over time, false if one of a whole run.
    pub over_time: bool,
    /// Unit of its values in files; empty for counts and ratios.
    pub unit: &'static str,
    /// Its name in tables, without the unit.
    pub label: &'static str,
    /// The way people see it.
    pub shown: Shown,
    /// The good direction, if one is.
    pub better: Option<Better>,
    /// Its definition.
    pub meaning: &'static str,
}

impl Metric {
    const fn new(
        subject: Kind,
        name: &'static str,
        unit: &'static str,
        label: &'static str,
        meaning: &'static str,
    ) -> Metric {
        Metric {
            name,
            subject,
            over_time: false,
            unit,
            label,
            shown: Shown {
                unit,
                scale: 1.0,
                digits: 0,
            },
            better: None,
            meaning,
        }
    }

    const fn over_time(mut self) -> Metric {
        self.over_time = true;
        self
    }

    const fn digits(mut self, digits: usize) -> Metric {
        self.shown.digits = digits;
        self
    }

    const fn shown(mut self, unit: &'static str, scale: f64, digits: usize) -> Metric {
        self.shown = Shown {
            unit,
            scale,
            digits,
        };
        self
    }

    const fn low(mut self) -> Metric {
        self.better = Some(Better::Low);
        self
    }

    const fn high(mut self) -> Metric {
        self.better = Some(Better::High);
        self
    }
}

const fn flow(
    name: &'static str,
    unit: &'static str,
    label: &'static str,
    meaning: &'static str,
) -> Metric {
    Metric::new(Kind::Flow, name, unit, label, meaning)
}

const fn link(
    name: &'static str,
    unit: &'static str,
    label: &'static str,
    meaning: &'static str,
) -> Metric {
    Metric::new(Kind::Link, name, unit, label, meaning)
}

const fn run(
    name: &'static str,
    unit: &'static str,
    label: &'static str,
    meaning: &'static str,
) -> Metric {
    Metric::new(Kind::Run, name, unit, label, meaning)
}

const fn analysis(
    name: &'static str,
    unit: &'static str,
    label: &'static str,
    meaning: &'static str,
) -> Metric {
    Metric::new(Kind::Analysis, name, unit, label, meaning)
}

/// All metrics, in the order of tables.
pub const METRICS: &[Metric] = &[
    flow(
        "throughput_bps",
        "bit/s",
        "Throughput",
        "Stream bytes that the client's application has read, per second from the start of the \
         flow (its first packet) to its end, as far as it was measured.",
    )
    .shown("Mbit/s", 1e-6, 2)
    .high(),
    flow(
        "throughput_pps",
        "packets/s",
        "Throughput",
        "Stream data that the client's application has read, in full datagrams per second from the \
         start of the flow to its end; 1 packet/s is 1 KB/s of a paper with packets of 1 KB.",
    )
    .digits(1)
    .high(),
    flow(
        "received_bytes",
        "bytes",
        "Received",
        "Stream bytes that the client's application has read.",
    )
    .shown("kB", 1e-3, 1)
    .high(),
    flow(
        "received_packets",
        "packets",
        "Received",
        "Stream data that the client's application has read, in full datagrams.",
    )
    .high(),
    flow(
        "sent_packets",
        "packets",
        "Packets sent",
        "QUIC packets that the server sent.",
    ),
    flow(
        "lost_packets",
        "packets",
        "Packets lost",
        "QUIC packets that the server declared lost.",
    )
    .low(),
    flow(
        "loss_ratio",
        "",
        "Loss",
        "Packets that the server declared lost, over packets that it sent.",
    )
    .shown("%", 100.0, 3)
    .low(),
    flow(
        "retransmitted_bytes",
        "bytes",
        "Retransmitted",
        "Stream bytes that the server sent again. quinn and noq do not tell.",
    )
    .shown("kB", 1e-3, 1)
    .low(),
    flow(
        "retransmitted_packets",
        "packets",
        "Retransmitted",
        "Stream data that the server sent again, in full datagrams; one is 1 KB of a paper with \
         packets of 1 KB. quinn and noq do not tell.",
    )
    .digits(1)
    .low(),
    flow(
        "retransmit_ratio",
        "",
        "Retransmitted",
        "Stream data that the server sent again, in full datagrams, over packets that it sent. quinn and \
         noq do not tell.",
    )
    .shown("%", 100.0, 3)
    .low(),
    flow(
        "timeouts",
        "",
        "Timeouts",
        "Probe timeouts of the server (RFC 9002 §6.2): QUIC's in place of coarse-grained timeouts. quinn \
         and noq do not tell.",
    )
    .low(),
    flow(
        "finished",
        "",
        "Finished",
        "1 if the client has read to the end, else 0.",
    )
    .high(),
    flow(
        "completion_s",
        "s",
        "Completion",
        "Time from the start of the flow to its end, wherever measuring began.",
    )
    .digits(2)
    .low(),
    flow(
        "connections",
        "",
        "Connections",
        "Connections that started, of a flow of many.",
    ),
    flow(
        "connections_finished",
        "",
        "Connections finished",
        "Connections that came to their end, of a flow of many.",
    ),
    flow(
        "completion_mean_s",
        "s",
        "Completion, mean",
        "Mean time from start to end of the connections that finished.",
    )
    .digits(3)
    .low(),
    flow(
        "completion_p95_s",
        "s",
        "Completion, 95th percentile",
        "95th percentile of the time from start to end of the connections that finished.",
    )
    .digits(3)
    .low(),
    flow(
        "completion_p99_s",
        "s",
        "Completion, 99th percentile",
        "99th percentile of the time from start to end of the connections that finished.",
    )
    .digits(3)
    .low(),
    flow(
        "pages",
        "",
        "Pages",
        "Pages that were read to the end of their last object.",
    )
    .high(),
    flow(
        "page_time_mean_s",
        "s",
        "Page time, mean",
        "Mean time from the start of a page's connection until its last object was read.",
    )
    .digits(3)
    .low(),
    flow(
        "page_time_p95_s",
        "s",
        "Page time, 95th percentile",
        "95th percentile of the time from the start of a page's connection until its last object was read.",
    )
    .digits(3)
    .low(),
    flow(
        "page_time_p99_s",
        "s",
        "Page time, 99th percentile",
        "99th percentile of the time from the start of a page's connection until its last object was read.",
    )
    .digits(3)
    .low(),
    flow(
        "cwnd_mean_packets",
        "packets",
        "Window, mean",
        "Mean over time of the congestion window, in datagrams.",
    )
    .digits(1),
    flow(
        "rtt_mean_s",
        "s",
        "RTT, mean",
        "Mean over time of the server's smoothed RTT.",
    )
    .shown("ms", 1e3, 1)
    .low(),
    flow(
        "rtt_p95_s",
        "s",
        "RTT, 95th percentile",
        "95th percentile over time of the server's smoothed RTT, to a thousandth of itself.",
    )
    .shown("ms", 1e3, 1)
    .low(),
    flow(
        "rtt_min_s",
        "s",
        "RTT, least",
        "The least RTT that the server has seen, wherever measuring began.",
    )
    .shown("ms", 1e3, 1),
    flow(
        "slow_start_exit_s",
        "s",
        "Slow start left after",
        "Time from the start of the flow to the first change of the congestion state from slow \
         start (or stable growth, or startup) to another; of quiche's own controllers, when they \
         say so.",
    )
    .digits(2),
    flow(
        "slow_start_s",
        "s",
        "Time in slow start",
        "Total time in slow start (or stable growth, or startup), from the start of the flow; only \
         of controllers that tell their state, which quiche's own do not.",
    )
    .digits(2),
    flow(
        "window_at_exit_packets",
        "packets",
        "Window when slow start was left",
        "The congestion window in datagrams just before slow start was left; a cut on leaving comes \
         after.",
    )
    .digits(1),
    flow(
        "window_settled_packets",
        "packets",
        "Window after slow start",
        "The congestion window in datagrams ten BaseRTTs after slow start was left.",
    )
    .digits(1),
    flow(
        "lost_in_slow_start_packets",
        "packets",
        "Lost in slow start",
        "Packets declared lost until slow start was left, those found lost with it included.",
    )
    .low(),
    flow(
        "available_window_reached_s",
        "s",
        "Available window reached after",
        "Time from the start of the flow until the window, in whole datagrams, was first at least \
         µ·BaseRTT + α − 1, or µ·BaseRTT for controllers without α. µ is the flow's share of the \
         narrowest link on its way in full datagrams per second, BaseRTT the server's last value.",
    )
    .digits(2)
    .low(),
    flow(
        "available_window_low_packets",
        "packets",
        "Available window, from",
        "µ·BaseRTT + α: the window that keeps α packets in the queue; µ is the flow's share of the \
         narrowest link on its way in full datagrams per second.",
    )
    .digits(1),
    flow(
        "available_window_high_packets",
        "packets",
        "Available window, to",
        "µ·BaseRTT + β: the window that keeps β packets in the queue; µ is the flow's share of the \
         narrowest link on its way in full datagrams per second.",
    )
    .digits(1),
    flow(
        "converged_s",
        "s",
        "Converged after",
        "Time from the start of the flow from which on the window, in whole datagrams, was from \
         µ·BaseRTT + α − 1 to µ·BaseRTT + β + 1 for ten BaseRTTs, for the first time; only of \
         controllers with α and β.",
    )
    .digits(2)
    .low(),
    flow(
        "time_to_95_percent_s",
        "s",
        "95 % of capacity after",
        "Time from the start of the flow to the end of the first second in which 95 % of its share \
         of the narrowest link on its way came to the client: bytes of QUIC packets, of full \
         datagrams at that rate. The second slides in steps of 0.1 s. Only of flows of one \
         connection.",
    )
    .digits(1)
    .low(),
    flow(
        "ramp_up_s",
        "s",
        "Ramp-up",
        "Time from the first stream data that the client's application read to the start of the \
         first window of time in which 95 % of the flow's share of the narrowest link on its way \
         came to the client: bytes of QUIC packets, of full datagrams at that rate. The window is \
         four base RTTs of the path, at least 50 ms, and at least the time of 20 full datagrams at \
         the rate of the share. The base RTT is that of a full datagram without queues: \
         propagation there and back, and the time to send it on each link there. Wherever \
         measuring began; only of flows of one connection.",
    )
    .digits(3)
    .low(),
    flow(
        "ramp_up_rounds",
        "",
        "Ramp-up, in rounds",
        "Ramp-up (`ramp_up_s`) over the base RTT of the path.",
    )
    .digits(1)
    .low(),
    flow(
        "recovered_s",
        "s",
        "Recovered after",
        "Time from `change-at`, when the network changes, to the start of the first window of time \
         after it in which 95 % of the flow's share of the narrowest link came to the client. \
         Window and share are as those of `ramp_up_s`, with the rates and delays right after the \
         change.",
    )
    .digits(3)
    .low(),
    flow(
        "share",
        "",
        "Share of the throughput",
        "Throughput of the flow, over that of all flows that are no background; of two flows and \
         more.",
    )
    .shown("%", 100.0, 1),
    flow(
        "power_ratio",
        "",
        "Power",
        "Throughput over the flow's share of the narrowest link, both in stream data, times the \
         base RTT of the path (`ramp_up_s`) over the mean RTT: the power of Kleinrock 1979, of \
         which 1 is the most if all flows have their shares. Only of flows of one connection over \
         links whose rates and delays do not change.",
    )
    .digits(3)
    .high(),
    flow(
        "buffer_fill_s",
        "s",
        "Buffer filled after",
        "Time from the start of a media stream until playing began.",
    )
    .digits(2)
    .low(),
    flow(
        "late_packets_ratio",
        "",
        "Late packets",
        "Media packets that came after their time of play, over all that were due.",
    )
    .shown("%", 100.0, 1)
    .low(),
    flow(
        "viable",
        "",
        "Viable",
        "1 if at most a tenth of a media stream's packets is late, else 0.",
    )
    .high(),
    flow("stalls", "", "Stalls", "Interruptions of playing.").low(),
    flow(
        "frames",
        "",
        "Frames",
        "Frames of a live stream that were made since measuring began and read to their end.",
    )
    .high(),
    flow(
        "frame_delay_mean_s",
        "s",
        "Frame delay, mean",
        "Mean time from the making of a live frame until its last byte was read, of those that were \
         read to their end.",
    )
    .shown("ms", 1e3, 1)
    .low(),
    flow(
        "frame_delay_p95_s",
        "s",
        "Frame delay, 95th percentile",
        "95th percentile of the time from the making of a live frame until its last byte was read.",
    )
    .shown("ms", 1e3, 1)
    .low(),
    flow(
        "frame_delay_p99_s",
        "s",
        "Frame delay, 99th percentile",
        "99th percentile of the time from the making of a live frame until its last byte was read.",
    )
    .shown("ms", 1e3, 1)
    .low(),
    flow(
        "late_frames_ratio",
        "",
        "Late frames",
        "Live frames that were skipped, or not read to their end within the deadline, over all that \
         were made and whose deadline has passed or that were read to their end.",
    )
    .shown("%", 100.0, 2)
    .low(),
    flow(
        "frame_stalls",
        "",
        "Stalls of live media",
        "Intervals of more than 200 ms in which no live frame was read to its end, while frames were \
         made; only of more than five frames a second.",
    )
    .low(),
    flow(
        "responses",
        "",
        "Responses",
        "Answers read to their end, of a flow that asks more than once.",
    )
    .high(),
    flow(
        "response_time_mean_s",
        "s",
        "Response time, mean",
        "Mean time from a request to the end of its answer.",
    )
    .digits(3)
    .low(),
    flow(
        "response_time_p95_s",
        "s",
        "Response time, 95th percentile",
        "95th percentile of the time from a request to the end of its answer.",
    )
    .digits(3)
    .low(),
    flow(
        "response_time_p99_s",
        "s",
        "Response time, 99th percentile",
        "99th percentile of the time from a request to the end of its answer.",
    )
    .digits(3)
    .low(),
    link(
        "utilisation",
        "",
        "Utilisation",
        "Bits on the wire that the link forwarded, over what its rate allows.",
    )
    .shown("%", 100.0, 1)
    .high(),
    link(
        "queue_mean_packets",
        "packets",
        "Queue, mean",
        "Mean over time of the packets that wait or are being sent.",
    )
    .digits(1)
    .low(),
    link(
        "queue_sd_packets",
        "packets",
        "Queue, standard deviation",
        "Standard deviation over time of the packets that wait or are being sent: the jitter of \
         Boyden et al. 2007.",
    )
    .digits(1)
    .low(),
    link(
        "queue_p95_packets",
        "packets",
        "Queue, 95th percentile",
        "The least length that the queue, the packet being sent included, did not exceed for 95 % \
         of the time.",
    )
    .low(),
    link(
        "queue_max_packets",
        "packets",
        "Queue, most",
        "The most packets that waited or were being sent.",
    )
    .low(),
    link(
        "queue_mean_delay_s",
        "s",
        "Queueing delay, mean",
        "Mean time from a packet's arrival at the queue until it was sent, by Little's law.",
    )
    .shown("ms", 1e3, 2)
    .low(),
    link(
        "queue_p95_delay_s",
        "s",
        "Queueing delay, 95th percentile",
        "95th percentile of the time from a packet's arrival at the queue until it was sent, to a \
         thousandth of itself, of the packets that were sent.",
    )
    .shown("ms", 1e3, 2)
    .low(),
    link(
        "queue_p99_delay_s",
        "s",
        "Queueing delay, 99th percentile",
        "99th percentile of the time from a packet's arrival at the queue until it was sent, to a \
         thousandth of itself, of the packets that were sent.",
    )
    .shown("ms", 1e3, 2)
    .low(),
    link(
        "drops",
        "packets",
        "Drops",
        "Packets that the queue dropped.",
    )
    .low(),
    link(
        "drop_ratio",
        "",
        "Drops",
        "Packets that the queue dropped, over those that came.",
    )
    .shown("%", 100.0, 3)
    .low(),
    link(
        "marks",
        "packets",
        "ECN marks",
        "Packets that the queue marked (RFC 3168).",
    ),
    link(
        "impaired",
        "packets",
        "Lost on the link",
        "Packets that an impairment lost at the entrance.",
    ),
    link(
        "duplicated",
        "packets",
        "Duplicated",
        "Packets that an impairment duplicated at the entrance.",
    ),
    link(
        "forwarded_packets",
        "packets",
        "Forwarded",
        "Packets sent to the end.",
    ),
    link(
        "forwarded_bytes",
        "bytes",
        "Forwarded",
        "Bytes on the wire of the packets sent to the end.",
    )
    .shown("MB", 1e-6, 2),
    run(
        "slow_start_exit_s",
        "s",
        "Slow start left after",
        "Time from the start of a flow until it left slow start: the latest of the flows', none if \
         one never left it.",
    )
    .digits(2),
    run(
        "slow_start_s",
        "s",
        "Time in slow start",
        "Total time in slow start: the longest of the flows'.",
    )
    .digits(2),
    run(
        "available_window_reached_s",
        "s",
        "Available window reached after",
        "Time from the start of a flow until its window was first the available one, µ·BaseRTT + \
         α − 1 (µ·BaseRTT without α): the latest of the flows', none if one never reached it.",
    )
    .digits(2)
    .low(),
    run(
        "time_to_95_percent_s",
        "s",
        "95 % of capacity after",
        "Time from the start of a flow to the end of the first second in which 95 % of its share of \
         the narrowest link came to the client: the latest of the flows', none if one never got \
         there.",
    )
    .digits(1)
    .low(),
    run(
        "ramp_up_s",
        "s",
        "Ramp-up",
        "Ramp-up of a flow: the longest of the flows', none if one never got there.",
    )
    .digits(3)
    .low(),
    run(
        "ramp_up_rounds",
        "",
        "Ramp-up, in rounds",
        "Ramp-up of a flow over the base RTT of its path: the longest of the flows', none if one \
         never got there.",
    )
    .digits(1)
    .low(),
    run(
        "recovered_s",
        "s",
        "Recovered after",
        "Time from `change-at` until a flow had its share of the capacity: the longest of the \
         flows', none if one never had it.",
    )
    .digits(3)
    .low(),
    run(
        "share",
        "",
        "Least share of the throughput",
        "Throughput of a flow, over that of all flows: the least of the flows'. Of two flows and \
         more.",
    )
    .shown("%", 100.0, 1)
    .high(),
    run(
        "power_ratio",
        "",
        "Power",
        "Power of a flow (Kleinrock 1979): the least of the flows'.",
    )
    .digits(3)
    .high(),
    run(
        "throughput_sum_bps",
        "bit/s",
        "Throughput, all flows",
        "Stream bytes that the clients' applications have read, per second from the start of each \
         flow to its end: the sum of the flows'.",
    )
    .shown("Mbit/s", 1e-6, 2)
    .high(),
    run(
        "jain",
        "",
        "Jain's index",
        "(Σx)² / n·Σx² over the flows' throughputs: 1 when all are equal, 1/n when one has all. Of \
         two flows and more.",
    )
    .digits(3)
    .high(),
    run(
        "sent_packets",
        "packets",
        "Packets sent",
        "QUIC packets that the flows' servers sent.",
    ),
    run(
        "lost_packets",
        "packets",
        "Packets lost",
        "QUIC packets that the flows' servers declared lost.",
    )
    .low(),
    run(
        "loss_ratio",
        "",
        "Loss",
        "Packets declared lost over packets sent, of all flows.",
    )
    .shown("%", 100.0, 3)
    .low(),
    run(
        "retransmitted_bytes",
        "bytes",
        "Retransmitted",
        "Stream bytes that the flows' servers sent again. quinn and noq do not tell.",
    )
    .shown("kB", 1e-3, 1)
    .low(),
    run("rtt_mean_s", "s", "RTT, mean", "Mean over time of the servers' smoothed RTT: the mean of the flows'.")
        .shown("ms", 1e3, 1)
        .low(),
    run(
        "rtt_p95_s",
        "s",
        "RTT, 95th percentile",
        "95th percentile over time of the servers' smoothed RTT: the greatest of the flows'.",
    )
    .shown("ms", 1e3, 1)
    .low(),
    run("simulated_s", "s", "Simulated", "Virtual time of the run.").digits(1),
    run("events", "", "Events", "Events of the simulation."),
    analysis(
        "vegas_exit_window_packets",
        "packets",
        "Vegas: window when slow start is left",
        "The window at which Vegas leaves slow start, by equation 5 of Ho et al. 2006.",
    ),
    analysis(
        "vegas_exit_rtts",
        "RTTs",
        "Vegas: slow start left after",
        "The round at which Vegas leaves slow start, by equation 5 of Ho et al. 2006.",
    ),
    analysis(
        "vegas_available_window_rtts",
        "RTTs",
        "Vegas: available window reached after",
        "The round at which Vegas has the available window, by equation 6 of Ho et al. 2006.",
    ),
    analysis(
        "vegas_available_window_s",
        "s",
        "Vegas: available window reached after",
        "Time until the available window is reached, by equation 6 of Ho et al. 2006.",
    )
    .digits(2),
    analysis(
        "gallop_brakes_rtts",
        "RTTs",
        "Gallop-Vegas: ∆ above γ first after",
        "The first round of stable growth with ∆ above γ, by the inequality between equations 9 and \
         11 of Ho et al. 2006, with the mean RTT of a round (13).",
    ),
    analysis(
        "gallop_brakes_window_packets",
        "packets",
        "Gallop-Vegas: window then",
        "The window in the first round of stable growth with ∆ above γ, by equation 7 of Ho et al. 2006.",
    ),
    analysis(
        "gallop_brakes_rounded_rtts",
        "RTTs",
        "Gallop-Vegas: ∆, in whole packets, above γ first after",
        "The first round of stable growth with ∆ above γ, with ∆ rounded to whole packets as in the \
         simulations of Ho et al. 2006.",
    ),
    analysis(
        "gallop_brakes_rounded_window_packets",
        "packets",
        "Gallop-Vegas: window then",
        "The window in the first round with ∆, in whole packets, above γ, by equation 7 of Ho et \
         al. 2006.",
    ),
    analysis(
        "gallop_available_window_rtts",
        "RTTs",
        "Gallop-Vegas: available window reached after",
        "The round at which Gallop-Vegas has the available window, by equation 19 of Ho et al. 2006, \
         with the k of the paper's examples; only of their paths.",
    ),
    analysis(
        "gallop_available_window_corrected_rtts",
        "RTTs",
        "Gallop-Vegas: available window reached after, corrected",
        "The round at which Gallop-Vegas has the available window, by equation 19 of Ho et al. 2006 \
         with a stage ratio of 1/4 in equation 18.",
    ),
    analysis(
        "gallop_exit_rtts",
        "RTTs",
        "Gallop-Vegas: slow start left after",
        "The round in which the pseudo code of Ho et al. 2006 §III.C leaves slow start, evaluated \
         round by round.",
    ),
    analysis(
        "gallop_exit_s",
        "s",
        "Gallop-Vegas: slow start left after",
        "The time at which the pseudo code of Ho et al. 2006 §III.C leaves slow start.",
    )
    .digits(2),
    analysis(
        "gallop_exit_window_packets",
        "packets",
        "Gallop-Vegas: window when slow start is left",
        "The window with which the pseudo code of Ho et al. 2006 §III.C leaves slow start.",
    )
    .digits(1),
    flow(
        "cwnd_packets",
        "packets",
        "Congestion window",
        "The congestion window in datagrams, of a flow of one connection.",
    )
    .digits(1)
    .over_time(),
    flow(
        "srtt_s",
        "s",
        "Smoothed RTT",
        "The server's smoothed RTT, of a flow of one connection.",
    )
    .shown("ms", 1e3, 1)
    .over_time(),
    flow(
        "throughput_bps",
        "bit/s",
        "Throughput",
        "Stream bytes read since the value before, of a flow of one connection, per second.",
    )
    .shown("Mbit/s", 1e-6, 2)
    .over_time(),
    link(
        "queue_packets",
        "packets",
        "Queue",
        "Packets that wait or are being sent.",
    )
    .over_time(),
    link(
        "drops",
        "packets",
        "Drops",
        "Packets that the queue dropped since the value before.",
    )
    .over_time(),
];

/// The metric of a subject ("flow/NAME", "link/NAME", "run" or "analysis") with this name, of whole
/// runs or over time.
#[must_use]
pub fn find(subject: &str, name: &str, over_time: bool) -> Option<&'static Metric> {
    all(subject, over_time).find(|metric| metric.name == name)
}

/// The metrics of a subject.
fn all(subject: &str, over_time: bool) -> impl Iterator<Item = &'static Metric> {
    let kind = match subject.split('/').next() {
        Some("flow") => Some(Kind::Flow),
        Some("link") => Some(Kind::Link),
        Some("run") => Some(Kind::Run),
        Some("analysis") => Some(Kind::Analysis),
        _ => None,
    };
    METRICS
        .iter()
        .filter(move |metric| Some(metric.subject) == kind && metric.over_time == over_time)
}

/// Checks that one of the subjects has the metric.
pub(super) fn check(metric: &str, subjects: &[&str], over_time: bool) -> Result<(), String> {
    let all = subjects
        .iter()
        .flat_map(|subject| all(subject, over_time).map(|metric| metric.name));
    let mut known: Vec<&str> = all.collect();
    if known.contains(&metric) {
        return Ok(());
    }
    known.sort_unstable();
    known.dedup();
    let what = format!("metric of {}", subjects.join(", "));
    Err(unknown_name(&what, metric, &known))
}

impl Shown {
    /// A value of the metric in this unit, without the unit.
    #[must_use]
    pub fn text(&self, value: f64) -> String {
        let text = format!("{:.*}", self.digits, value * self.scale);
        match text.strip_prefix('-') {
            Some(digits) if digits.bytes().all(|byte| b"0.".contains(&byte)) => digits.to_owned(),
            Some(digits) => format!("−{digits}"),
            None => text,
        }
    }
}

/// The table as a list of JSON, for reports.
///
/// # Errors
///
/// None that is known of.
pub fn json() -> serde_json::Result<String> {
    Ok(serde_json::to_string_pretty(METRICS)? + "\n")
}

/// The head of [`markdown`].
const HEAD: &str = "\
# Metrics

Everything that the laboratory measures, under the one name that results, series, claims, `--json`
and reports have for it. This file and `qlog-analysis/src/qlog_analysis/metrics/metrics.json` are made
from the table in `sim/src/experiment/metric.rs`:

    UPDATE_METRICS=1 cargo test --release -p gallop-sim --test metrics

Counters and means are of the time from `measure-from` to the end, unless a metric says otherwise. A
packet, where stream bytes are counted, is what a full datagram carries of a stream. A metric that
makes no sense for a subject or did not happen is absent. Flows of the background count nowhere but
under their own name.
";

/// The table as a page of documentation.
#[must_use]
pub fn markdown() -> String {
    let parts = [
        ("A flow: `flow/NAME`", Kind::Flow, false),
        ("A link: `link/NAME`", Kind::Link, false),
        ("All flows together: `run`", Kind::Run, false),
        (
            "The formulas of Ho et al. 2006: `analysis`",
            Kind::Analysis,
            false,
        ),
        ("A flow, over time", Kind::Flow, true),
        ("A link, over time", Kind::Link, true),
    ];
    let mut text = HEAD.to_owned();
    for (title, kind, over_time) in parts {
        let _ = write!(
            text,
            "\n## {title}\n\n| metric | unit | meaning |\n|---|---|---|\n"
        );
        let metrics = METRICS
            .iter()
            .filter(|metric| metric.subject == kind && metric.over_time == over_time);
        for metric in metrics {
            let _ = writeln!(
                text,
                "| `{}` | {} | {} |",
                metric.name, metric.unit, metric.meaning
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_metric_stands_there_once_with_a_unit_that_fits_its_name() {
        let mut seen = BTreeSet::new();
        for metric in METRICS {
            let key = (metric.subject, metric.name, metric.over_time);
            assert!(seen.insert(key), "{key:?} stands there twice");
            assert!(metric.meaning.ends_with('.'), "{}", metric.name);
            let (_, end) = metric.name.rsplit_once('_').unwrap_or_default();
            let unit = match end {
                "s" => "s",
                "bps" => "bit/s",
                "pps" => "packets/s",
                "packets" => "packets",
                "bytes" => "bytes",
                "rtts" => "RTTs",
                "ratio" => "",
                _ => continue,
            };
            assert_eq!(metric.unit, unit, "{}", metric.name);
        }
    }

    #[test]
    fn values_are_shown_in_the_unit_for_people() {
        let shown = |subject, name, value| {
            let metric = find(subject, name, false).expect(name);
            metric.shown.text(value)
        };
        assert_eq!(shown("link/bottleneck", "utilisation", 0.9567), "95.7");
        assert_eq!(shown("run", "throughput_sum_bps", 47_123_456.0), "47.12");
        assert_eq!(shown("flow/a", "lost_packets", 6115.0), "6115");
        assert_eq!(shown("flow/a", "rtt_mean_s", -0.1), "−100.0");
        assert_eq!(shown("flow/a", "rtt_mean_s", -0.000_001), "0.0");
    }

    #[test]
    fn a_metric_belongs_to_a_kind_of_subject() {
        assert!(find("run", "jain", false).is_some());
        assert!(find("flow/a", "jain", false).is_none());
        assert!(find("flow/a", "cwnd_packets", false).is_none());
        assert!(find("flow/a", "cwnd_packets", true).is_some());
        let error = check("utilization", &["link/a"], false).unwrap_err();
        assert!(error.contains("`utilisation`"), "{error}");
    }
}
