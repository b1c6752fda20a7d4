// A client that downloads, and its server.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use gallop::catalog::CATALOG;
use gallop::controller::PacketInfo;
use gallop::stack::Factory as OwnFactory;
use gallop_network::packet::Ecn;
use gallop_stacks::{Settings, seed_entropy};
use stack::{Factory, Peer};

use crate::bottleneck::{Bottleneck, Path};
use crate::recorder::{self, Told};

const DATAGRAM_BYTES: u16 = 1200;

static ZEROS: [u8; 65_536] = [0; 65_536];

/// The bytes that the server sends.
#[derive(Clone, Copy, Debug)]
enum Data {
    /// So many bytes, as fast as they go.
    Bulk(u64),
    /// So many pieces of 1000 bytes, one in so much time.
    Trickle(u64, Duration),
}

/// A finished download.
struct Outcome {
    took: Duration,
    to_client: Bottleneck,
    /// Of every datagram's time and bytes.
    digest: u64,
}

fn download(factory: Factory, path: Path, data: Data, seed: u64) -> Outcome {
    seed_entropy(seed);
    let start = Instant::now();
    let settings = |factory| Settings {
        factory,
        datagram_bytes: DATAGRAM_BYTES,
        acks: None,
        seed,
    };
    let own = stack::own_factory("cubic").unwrap();
    let mut client = Peer::client(&settings(own), start).unwrap();
    let mut server = Peer::server(&settings(factory)).unwrap();
    let back = path.propagation / 2;
    let mut to_client = Bottleneck::new(path);
    let mut arriving: [VecDeque<(Instant, Vec<u8>, Ecn)>; 2] = Default::default();
    let mut digest = DefaultHasher::new();
    let (mut request, mut answer) = (None, None);
    let (mut written, mut read, mut now) = (0, 0, start);
    let total = match data {
        Data::Bulk(bytes) => bytes,
        Data::Trickle(pieces, _) => pieces * 1000,
    };
    loop {
        assert_eq!((client.lost(), server.lost()), (None, None));
        assert!(now - start < Duration::from_secs(600), "it does not end");
        if request.is_none() && client.is_established() {
            request = client.open();
            client
                .write(request.unwrap(), Bytes::from_static(b"?"), true)
                .unwrap();
        }
        while let Some(stream) = server.next_readable() {
            if server.discard(stream).unwrap().1 {
                answer = Some((stream, now));
            }
        }
        let mut more_at = None;
        while let Some((stream, since)) = answer.filter(|_| written < total) {
            let ready = match data {
                Data::Bulk(bytes) => bytes - written,
                Data::Trickle(_, every) => {
                    let due = since + every * (written / 1000) as u32;
                    more_at = Some(due).filter(|&due| due > now);
                    if more_at.is_some() { 0 } else { 1000 }
                }
            };
            let piece = Bytes::from_static(&ZEROS[..ready.min(ZEROS.len() as u64) as usize]);
            let last = written + piece.len() as u64 == total;
            let taken = if piece.is_empty() {
                0
            } else {
                server.write(stream, piece, last).unwrap()
            };
            if taken == 0 {
                break;
            }
            written += taken as u64;
        }
        client.transmit(now, |datagram| {
            digest.write_u128((now - start).as_nanos());
            digest.write(datagram);
            arriving[0].push_back((now + back, datagram.to_vec(), Ecn::Capable));
        });
        server.transmit(now, |datagram| {
            digest.write_u128((now - start).as_nanos());
            digest.write(datagram);
            if let Some(arrives) = to_client.take(datagram.len(), now) {
                let place = arriving[1].partition_point(|(at, ..)| *at <= arrives);
                let number = to_client.sent.len() as u64 - 1;
                let ecn = match to_client.path.marks.contains(&number) {
                    true => Ecn::Marked,
                    false => Ecn::Capable,
                };
                arriving[1].insert(place, (arrives, datagram.to_vec(), ecn));
            }
        });
        while let Some(stream) = client.next_readable() {
            let (bytes, ended) = client.discard(stream).unwrap();
            read += bytes;
            if ended {
                assert_eq!(read, total);
                return Outcome {
                    took: now - start,
                    to_client,
                    digest: digest.finish(),
                };
            }
        }
        let heads = arriving
            .iter()
            .filter_map(|queue| queue.front().map(|(at, ..)| *at));
        let timers = [client.timeout(), server.timeout(), more_at]
            .into_iter()
            .flatten();
        now = heads
            .chain(timers)
            .min()
            .expect("something happens")
            .max(now);
        for (peer, queue) in [(&mut server, 0), (&mut client, 1)] {
            // It may send after each of them.
            if arriving[queue].front().is_some_and(|(at, ..)| *at <= now)
                && let Some((_, datagram, ecn)) = arriving[queue].pop_front()
            {
                peer.receive(&datagram, ecn, now);
            }
            if peer.timeout().is_some_and(|at| at <= now) {
                peer.on_timeout(now);
            }
        }
    }
}
