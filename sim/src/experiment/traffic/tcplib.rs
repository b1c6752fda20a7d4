//! The conversations of tcplib, from which Brakmo et al. 1994 §2.1 takes its background traffic.
//!
//! All figures are tcplib's own: P. Danzig and S. Jamin, "tcplib: A Library of TCP/IP Traffic
//! Characteristics", USC technical report 91-495, 1991, and the tables that come with it (Copyright
//! (c) 1991 University of Southern California), in which each distribution is given by up to 800
//! points. NOTE: here each has about twenty of them, with straight lines between.
//!
//! NOTE: tcplib gives the number and the sizes of items, but not their order. Here a command is
//! answered before the next is given, and data flow from the server to the client, whichever way
//! mail and news went in 1991.

use std::iter;
use std::time::Duration;

use gallop_network::random::Random;
use rand::RngExt;

use super::{Service, TcplibSpec};
use crate::traffic::Bulk;
use crate::traffic::conversation::{Conversation, Exchange, Pace, Protocol, REQUEST_BYTES};
use crate::traffic::draw::{exponential, fork};

/// Values, each with the probability of a value that is not larger. Between two points the values
/// are uniform.
type Distribution = [(f64, f64)];

/// Shares of all TCP conversations, as means over tcplib's hours. They do not add up to 1, since
/// tcplib's traces also have other kinds.
const SHARES: [(Service, f64); 4] = [
    (Service::Telnet, 0.0612),
    (Service::Ftp, 0.0216),
    (Service::Nntp, 0.0056),
    (Service::Smtp, 0.3798),
];

/// Duration of a TELNET conversation, in milliseconds.
const TELNET_DURATION_MS: &Distribution = &[
    (1.0, 0.026),
    (1_000.0, 0.041),
    (3_000.0, 0.068),
    (8_000.0, 0.109),
    (15_000.0, 0.144),
    (24_000.0, 0.193),
    (40_000.0, 0.252),
    (60_000.0, 0.324),
    (90_000.0, 0.404),
    (150_000.0, 0.480),
    (240_000.0, 0.556),
    (360_000.0, 0.640),
    (600_000.0, 0.715),
    (960_000.0, 0.799),
    (1_440_000.0, 0.854),
    (2_040_000.0, 0.904),
    (3_000_000.0, 0.949),
    (3_600_000.0, 0.967),
    (5_700_000.0, 0.983),
    (7_200_000.0, 1.0),
];

/// The time from one TELNET packet to the next, in milliseconds.
const TELNET_INTERARRIVAL_MS: &Distribution = &[
    (0.6, 0.0),
    (2.5, 0.028),
    (10.0, 0.046),
    (30.0, 0.062),
    (60.0, 0.091),
    (80.0, 0.125),
    (100.0, 0.179),
    (150.0, 0.285),
    (200.0, 0.428),
    (250.0, 0.533),
    (300.0, 0.599),
    (400.0, 0.687),
    (600.0, 0.773),
    (1_000.0, 0.856),
    (2_000.0, 0.917),
    (5_000.0, 0.966),
    (10_000.0, 0.981),
    (24_000.0, 0.992),
    (60_000.0, 0.998),
    (240_000.0, 0.999),
    (1_140_000.0, 1.0),
];

/// Bytes of a TELNET packet.
const TELNET_BYTES: &Distribution = &[
    (1.0, 0.628),
    (2.0, 0.749),
    (3.0, 0.790),
    (5.0, 0.815),
    (10.0, 0.846),
    (20.0, 0.872),
    (40.0, 0.901),
    (60.0, 0.922),
    (80.0, 0.935),
    (105.0, 0.948),
    (220.0, 0.961),
    (336.0, 0.970),
    (511.0, 0.980),
    (535.0, 0.997),
    (1_024.0, 1.0),
];

/// Files in an FTP conversation.
const FTP_ITEMS: &Distribution = &[
    (1.0, 0.164),
    (2.0, 0.332),
    (3.0, 0.476),
    (4.0, 0.574),
    (5.0, 0.620),
    (6.0, 0.683),
    (8.0, 0.744),
    (10.0, 0.810),
    (14.0, 0.866),
    (18.0, 0.912),
    (22.0, 0.947),
    (29.0, 0.970),
    (39.0, 0.982),
    (53.0, 0.990),
    (71.0, 0.997),
    (139.0, 0.998),
    (347.0, 1.0),
];

/// Bytes of a file in FTP.
const FTP_BYTES: &Distribution = &[
    (0.0, 0.001),
    (30.0, 0.090),
    (100.0, 0.193),
    (200.0, 0.280),
    (370.0, 0.377),
    (500.0, 0.432),
    (510.0, 0.513),
    (1_010.0, 0.551),
    (1_030.0, 0.594),
    (1_540.0, 0.639),
    (2_600.0, 0.705),
    (4_090.0, 0.743),
    (7_500.0, 0.775),
    (12_000.0, 0.805),
    (20_000.0, 0.846),
    (30_000.0, 0.877),
    (48_500.0, 0.913),
    (75_000.0, 0.932),
    (100_000.0, 0.954),
    (200_000.0, 0.970),
    (400_000.0, 0.982),
    (500_000.0, 0.989),
    (850_000.0, 0.994),
    (1_200_000.0, 0.997),
    (2_200_000.0, 0.998),
    (3_700_000.0, 0.999),
    (22_050_000.0, 1.0),
];

/// Bytes of a command in FTP.
const FTP_COMMAND_BYTES: &Distribution = &[
    (3.0, 0.003),
    (6.0, 0.057),
    (8.0, 0.134),
    (12.0, 0.182),
    (16.0, 0.243),
    (20.0, 0.285),
    (22.0, 0.335),
    (24.0, 0.481),
    (26.0, 0.584),
    (28.0, 0.634),
    (30.0, 0.805),
    (45.0, 0.839),
    (60.0, 0.927),
    (73.0, 0.966),
    (87.0, 0.996),
    (443.0, 1.0),
];

/// Articles in an NNTP conversation.
const NNTP_ITEMS: &Distribution = &[
    (1.0, 0.193),
    (2.0, 0.284),
    (4.0, 0.375),
    (9.0, 0.455),
    (23.0, 0.511),
    (42.0, 0.580),
    (96.0, 0.636),
    (116.0, 0.682),
    (175.0, 0.727),
    (313.0, 0.773),
    (489.0, 0.818),
    (710.0, 0.864),
    (1_316.0, 0.909),
    (2_155.0, 0.943),
    (3_593.0, 0.966),
    (4_806.0, 1.0),
];

/// Bytes of an article in NNTP.
const NNTP_BYTES: &Distribution = &[
    (288.0, 0.0),
    (513.0, 0.020),
    (600.0, 0.050),
    (736.0, 0.100),
    (840.0, 0.150),
    (946.0, 0.200),
    (1_023.0, 0.242),
    (1_026.0, 0.284),
    (1_060.0, 0.300),
    (1_264.0, 0.402),
    (1_506.0, 0.500),
    (1_802.0, 0.600),
    (2_047.0, 0.655),
    (2_220.0, 0.700),
    (2_559.0, 0.749),
    (3_069.0, 0.798),
    (3_952.0, 0.851),
    (4_095.0, 0.856),
    (4_173.0, 0.969),
    (5_115.0, 0.980),
    (7_135.0, 0.990),
    (11_757.0, 0.998),
    (22_021.0, 0.999),
    (61_299.0, 1.0),
];

/// Bytes of a mail in SMTP.
const SMTP_BYTES: &Distribution = &[
    (0.0, 0.0),
    (200.0, 0.040),
    (300.0, 0.094),
    (330.0, 0.181),
    (350.0, 0.302),
    (370.0, 0.404),
    (400.0, 0.468),
    (500.0, 0.523),
    (650.0, 0.584),
    (800.0, 0.645),
    (1_000.0, 0.718),
    (1_250.0, 0.770),
    (1_600.0, 0.819),
    (2_000.0, 0.852),
    (2_460.0, 0.879),
    (3_010.0, 0.919),
    (4_050.0, 0.948),
    (5_000.0, 0.968),
    (13_500.0, 0.988),
    (33_500.0, 0.996),
    (80_000.0, 0.999),
    (450_000.0, 1.0),
];

/// Draws from a distribution by the inverse of its cumulative function.
fn draw(distribution: &Distribution, random: &mut Random) -> f64 {
    let probability: f64 = random.random();
    let above = distribution.partition_point(|&(_, cumulative)| cumulative < probability);
    let Some(&(value, cumulative)) = distribution.get(above) else {
        return distribution.last().map_or(0.0, |&(value, _)| value);
    };
    let Some(&(before, until)) = above.checked_sub(1).and_then(|at| distribution.get(at)) else {
        return value;
    };
    before + (value - before) * (probability - until) / (cumulative - until)
}

/// A whole number, at least one.
fn count(distribution: &Distribution, random: &mut Random) -> u64 {
    (draw(distribution, random).round() as u64).max(1)
}

/// Distributions from which a kind of conversation draws its sizes.
struct Sizes {
    random: Random,
    /// Stream bytes here for a byte in tcplib.
    scale: f64,
}

impl Sizes {
    fn bytes(&mut self, distribution: &Distribution) -> u64 {
        let bytes = draw(distribution, &mut self.random) * self.scale;
        (bytes.round() as u64).max(1)
    }

    /// The size of a short text, which does not grow with packets.
    fn text_bytes(&mut self, distribution: &Distribution) -> u64 {
        count(distribution, &mut self.random)
    }
}

fn exchange(wait: Duration, request_bytes: u64, answer_bytes: u64) -> Exchange {
    Exchange {
        wait,
        request_bytes,
        answer: Box::new(Bulk::Bytes(answer_bytes)),
    }
}

/// A keystroke of one byte now and then, each with an answer of at least one (Brakmo et al. 1994
/// §4.3).
fn telnet(mut sizes: Sizes) -> Conversation {
    let milliseconds = |distribution, random: &mut Random| {
        Duration::from_secs_f64(draw(distribution, random) / 1e3)
    };
    let mut left = milliseconds(TELNET_DURATION_MS, &mut sizes.random);
    let keystrokes = iter::from_fn(move || {
        let wait = milliseconds(TELNET_INTERARRIVAL_MS, &mut sizes.random);
        left = left.checked_sub(wait)?;
        Some(exchange(wait, 1, sizes.text_bytes(TELNET_BYTES)))
    });
    Conversation::new(keystrokes, Pace::Open, Protocol::Streams)
}

/// A command and its reply before every file (Brakmo et al. 1994 §4.3).
fn ftp(mut sizes: Sizes) -> Conversation {
    let items = count(FTP_ITEMS, &mut sizes.random);
    let exchanges = (0..items).flat_map(move |_| {
        let command = sizes.text_bytes(FTP_COMMAND_BYTES);
        let reply = sizes.text_bytes(FTP_COMMAND_BYTES);
        let file = sizes.bytes(FTP_BYTES);
        [
            exchange(Duration::ZERO, command, reply),
            exchange(Duration::ZERO, REQUEST_BYTES, file),
        ]
    });
    Conversation::new(exchanges, Pace::Closed(1), Protocol::Streams)
}

/// One article after the other.
fn nntp(mut sizes: Sizes) -> Conversation {
    let items = count(NNTP_ITEMS, &mut sizes.random);
    let articles =
        (0..items).map(move |_| exchange(Duration::ZERO, REQUEST_BYTES, sizes.bytes(NNTP_BYTES)));
    Conversation::new(articles, Pace::Closed(1), Protocol::Streams)
}

/// A mail.
fn smtp(mut sizes: Sizes) -> Conversation {
    let mail = exchange(Duration::ZERO, REQUEST_BYTES, sizes.bytes(SMTP_BYTES));
    Conversation::new(iter::once(mail), Pace::Closed(1), Protocol::Streams)
}

/// The next conversation, and the time by which it begins after the one before. `packet_bytes` is
/// the part of a stream that a datagram of full size carries.
pub(super) fn next(
    spec: &TcplibSpec,
    packet_bytes: u64,
    random: &mut Random,
) -> (Duration, Conversation) {
    let after_s = exponential(random, spec.interarrival.duration().as_secs_f64());
    let after = Duration::try_from_secs_f64(after_s).unwrap_or(Duration::MAX);
    let sizes = Sizes {
        random: fork(random),
        scale: spec.packet.map_or(1.0, |paper| {
            packet_bytes as f64 / paper.bytes(packet_bytes) as f64
        }),
    };
    let conversation = match service(spec, random) {
        Service::Telnet => telnet(sizes),
        Service::Ftp => ftp(sizes),
        Service::Nntp => nntp(sizes),
        Service::Smtp => smtp(sizes),
    };
    (after, conversation)
}

/// Draws a kind of conversation, of those that are chosen.
fn service(spec: &TcplibSpec, random: &mut Random) -> Service {
    let wanted =
        |(service, _): &(Service, f64)| spec.only.is_empty() || spec.only.contains(service);
    let shares: Vec<(Service, f64)> = SHARES.into_iter().filter(wanted).collect();
    let all: f64 = shares.iter().map(|(_, share)| share).sum();
    let mut left = random.random::<f64>() * all;
    for (service, share) in shares {
        left -= share;
        if left < 0.0 {
            return service;
        }
    }
    Service::Smtp
}

#[cfg(test)]
mod tests {
    use gallop_network::random;

    use super::*;

    const ALL: [&Distribution; 9] = [
        TELNET_DURATION_MS,
        TELNET_INTERARRIVAL_MS,
        TELNET_BYTES,
        FTP_ITEMS,
        FTP_BYTES,
        FTP_COMMAND_BYTES,
        NNTP_ITEMS,
        NNTP_BYTES,
        SMTP_BYTES,
    ];

    #[test]
    fn distributions_rise_to_one() {
        for distribution in ALL {
            for pair in distribution.windows(2) {
                assert!(pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1, "{pair:?}");
            }
            assert_eq!(distribution.last().map(|point| point.1), Some(1.0));
        }
    }

    #[test]
    fn draws_follow_the_distribution() {
        let mut random = random::stream(1, 1);
        for distribution in ALL {
            let draws: Vec<f64> = (0..20_000)
                .map(|_| draw(distribution, &mut random))
                .collect();
            for &(value, cumulative) in distribution {
                let below = draws.iter().filter(|&&draw| draw <= value).count();
                let share = below as f64 / draws.len() as f64;
                assert!((share - cumulative).abs() < 0.015, "{value}: {share}");
            }
        }
    }

    #[test]
    fn conversations_are_in_tcplibs_proportions() {
        let spec = |only| TcplibSpec {
            only,
            ..TcplibSpec::default()
        };
        let mut random = random::stream(1, 1);
        let all = spec(Vec::new());
        let draws: Vec<Service> = (0..20_000).map(|_| service(&all, &mut random)).collect();
        for (wanted, expected) in [
            (Service::Telnet, 0.131),
            (Service::Ftp, 0.046),
            (Service::Nntp, 0.012),
            (Service::Smtp, 0.811),
        ] {
            let count = draws.iter().filter(|&&service| service == wanted).count();
            let share = count as f64 / draws.len() as f64;
            assert!((share - expected).abs() < 0.01, "{wanted:?}: {share}");
        }
        let two = spec(vec![Service::Ftp, Service::Nntp]);
        for _ in 0..1000 {
            let service = service(&two, &mut random);
            assert!(two.only.contains(&service));
        }
    }
}
