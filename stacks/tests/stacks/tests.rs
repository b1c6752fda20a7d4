#[test]
fn every_controller_downloads_and_repeats_itself() {
    for entry in CATALOG {
        let run = || {
            let factory = stack::factory(entry.name).unwrap();
            download(factory, Path::usual(), Data::Bulk(5_000_000), 3)
        };
        let (outcome, again) = (run(), run());
        assert_eq!(outcome.digest, again.digest, "{}", entry.name);
        // 4.0 s at the full rate of the path, and 4.1 s with headers.
        let seconds = outcome.took.as_secs_f64();
        assert!((4.1..4.6).contains(&seconds), "{}: {seconds} s", entry.name);
    }
}

#[test]
fn another_seed_gives_other_bytes() {
    let run = |seed| {
        let factory = stack::factory("vegas").unwrap();
        download(factory, Path::usual(), Data::Bulk(10_000), seed).digest
    };
    assert_ne!(run(1), run(2));
}

#[test]
fn a_wrong_name_gives_the_catalogues_error() {
    let error = stack::factory("vegass").err().unwrap().to_string();
    assert!(error.starts_with("unknown congestion controller `vegass`: did you mean `vegas`?"));
    let error = stack::own_factory("vegas").err().unwrap().to_string();
    assert!(error.contains("cubic, new-reno"), "{error}");
}

/// A download under the recorder, and what that was told.
fn recorded(path: Path, data: Data) -> (Outcome, Vec<Told>) {
    recorder::told();
    let outcome = download(Arc::new(OwnFactory(recorder::build)), path, data, 1);
    (outcome, recorder::told())
}

/// The part of each sample that is above the RTT that its packet really had.
fn excess(outcome: &Outcome, told: &[Told]) -> Vec<Duration> {
    let back = outcome.to_client.path.propagation / 2;
    let samples = told.iter().filter_map(|told| match told {
        Told::Acked(ack, packets) if ack.measures_rtt => Some((ack.now, *packets.last().unwrap())),
        _ => None,
    });
    let excess = samples.map(|(now, packet)| {
        let sent = outcome.to_client.sent.iter();
        let together = sent.filter(|sent| sent.at == packet.time_sent);
        let returns = together.filter_map(|sent| Some(sent.arrives? + back));
        let closest = returns.filter(|&returns| returns <= now).max();
        now - closest.expect("no ACK comes before its packet has arrived")
    });
    excess.collect()
}

#[test]
fn samples_of_a_bulk_transfer_are_the_paths_rtts() {
    let (outcome, told) = recorded(Path::usual(), Data::Bulk(1_000_000));
    let excess = excess(&outcome, &told);
    let exact = excess.iter().filter(|excess| excess.is_zero()).count();
    assert!(excess.len() > 400, "{} samples", excess.len());
    assert!(
        exact * 100 >= excess.len() * 98,
        "{exact} of {}",
        excess.len()
    );
    assert!(
        excess
            .iter()
            .all(|excess| *excess <= Duration::from_millis(25))
    );
}

/// A client waits up to 25 ms for a second packet to acknowledge, and the stack does not tell how
/// long it did: the sample contains it.
#[test]
fn samples_of_single_packets_contain_the_delay_of_their_acknowledgment() {
    let data = Data::Trickle(40, Duration::from_millis(100));
    let (outcome, told) = recorded(Path::usual(), data);
    let excess = excess(&outcome, &told);
    let delayed = excess
        .iter()
        .filter(|excess| **excess > Duration::from_millis(20))
        .count();
    assert!(delayed > 30, "{delayed} of {}", excess.len());
    assert!(
        excess
            .iter()
            .all(|excess| *excess <= Duration::from_millis(25))
    );
}

#[test]
fn the_smoothed_rtt_is_never_the_one_that_the_stack_assumes() {
    let (_, told) = recorded(Path::usual(), Data::Bulk(100_000));
    for told in told {
        if let Told::Acked(ack, _) = told {
            assert!(
                ack.rtt.smoothed < Duration::from_millis(100),
                "{:?}",
                ack.rtt.smoothed
            );
        }
    }
}

#[test]
fn all_of_the_window_is_used_and_no_more() {
    let (outcome, told) = recorded(Path::usual(), Data::Bulk(4_000_000));
    let window_bytes = recorder::WINDOW_PACKETS * usize::from(DATAGRAM_BYTES);
    let sent = || {
        told.iter().filter_map(|told| match told {
            Told::Sent(packet) => Some(packet),
            _ => None,
        })
    };
    let most = sent()
        .map(|packet| packet.bytes_in_flight + packet.size_bytes)
        .max()
        .unwrap();
    assert!(most <= window_bytes, "{most} bytes");
    // An ACK of two packets lets two leave; the second fills the window.
    let full = sent()
        .filter(|packet| packet.fills(window_bytes, DATAGRAM_BYTES.into()))
        .count();
    assert!(
        full * 100 > sent().count() * 45,
        "{full} of {}",
        sent().count()
    );

    // One window leaves per RTT: 40 ms, and the time to transmit the two datagrams of an ACK.
    let payload = 4_000_000.0 / outcome.to_client.sent.len() as f64;
    let windows = 4_000_000.0 / payload / recorder::WINDOW_PACKETS as f64;
    let expected = windows * 0.0419 + 0.08;
    let seconds = outcome.took.as_secs_f64();
    assert!(
        (seconds / expected - 1.0).abs() < 0.02,
        "{seconds} s, not {expected} s"
    );
}

#[test]
fn lost_bytes_are_those_that_the_path_dropped() {
    let path = Path {
        drops: vec![100, 101, 150, 400],
        ..Path::usual()
    };
    let (outcome, told) = recorded(path, Data::Bulk(1_000_000));
    let lost: Vec<PacketInfo> = told
        .iter()
        .filter_map(|told| match told {
            Told::Lost(loss, packets) => {
                assert_eq!(loss.persistent_congestion, Some(false));
                Some(packets.clone())
            }
            _ => None,
        })
        .flatten()
        .collect();
    let dropped = outcome
        .to_client
        .sent
        .iter()
        .filter(|sent| sent.arrives.is_none());
    let dropped: Vec<_> = dropped.collect();
    assert_eq!((lost.len(), dropped.len()), (4, 4));
    assert_eq!(
        lost.iter().map(|packet| packet.size_bytes).sum::<usize>(),
        dropped.iter().map(|sent| sent.bytes).sum::<usize>()
    );
    // The last of those that are found lost together is told by its own time.
    let times: Vec<_> = lost.iter().map(|packet| packet.time_sent).collect();
    for number in [1, 2, 3] {
        assert_eq!(times[number], dropped[number].at);
    }
}

#[test]
fn the_application_is_the_limit_when_it_is() {
    let limited = |data| {
        let (_, told) = recorded(Path::usual(), data);
        let mut acks = 0;
        let limited = told.iter().filter(|told| {
            acks += u32::from(matches!(told, Told::Acked(..)));
            matches!(told, Told::CwndLimited)
        });
        (limited.count() as u32, acks)
    };
    let (limited_by_window, acks) = limited(Data::Bulk(1_000_000));
    assert!(
        limited_by_window * 10 > acks * 9,
        "{limited_by_window} of {acks}"
    );
    let (limited_by_window, acks) = limited(Data::Trickle(100, Duration::from_millis(20)));
    assert!(
        limited_by_window <= 3,
        "{limited_by_window} of {acks}: of the handshake alone"
    );
}

#[test]
fn numbers_and_times_only_grow() {
    let path = Path {
        drops: vec![60, 200],
        ..Path::usual()
    };
    let (_, told) = recorded(path, Data::Bulk(500_000));
    let mut last = None;
    for told in &told {
        match told {
            Told::Sent(packet) => {
                assert!(last < Some(packet.packet_number));
                last = Some(packet.packet_number);
            }
            Told::Acked(ack, packets) => {
                assert!(packets.is_sorted_by(|a, b| a.packet_number < b.packet_number));
                let bytes: usize = packets.iter().map(|packet| packet.size_bytes).sum();
                assert!(ack.bytes_in_flight >= bytes);
                assert!(
                    packets
                        .iter()
                        .all(|packet| Some(packet.packet_number) <= last)
                );
            }
            _ => {}
        }
    }
}

/// A datagram that comes 30 ms late is declared lost and acknowledged after all. noq tells so.
#[test]
fn losses_that_prove_spurious_are_told_if_the_stack_knows() {
    let path = Path {
        late: Some((200, Duration::from_millis(30))),
        ..Path::usual()
    };
    let (outcome, told) = recorded(path, Data::Bulk(1_000_000));
    assert_eq!(outcome.to_client.dropped(), 0);
    let lost = |told: &&Told| matches!(told, Told::Lost(_, packets) if packets.len() == 1);
    assert_eq!(told.iter().filter(lost).count(), 1);
    let spurious = told.iter().filter(|told| matches!(told, Told::Spurious));
    assert_eq!(spurious.count(), usize::from(stack::TELLS_SPURIOUS_LOSSES));
}

#[test]
fn marks_are_told_and_no_losses() {
    let path = Path {
        marks: vec![100, 300],
        ..Path::usual()
    };
    let (outcome, told) = recorded(path, Data::Bulk(1_000_000));
    let marks: Vec<u64> = told
        .iter()
        .filter_map(|told| match told {
            Told::Marked(marks) => Some(marks.largest_acked),
            _ => None,
        })
        .collect();
    assert_eq!(marks.len(), 2, "{marks:?}");
    assert!(marks[0] < marks[1]);
    assert_eq!(outcome.to_client.dropped(), 0);
    assert!(!told.iter().any(|told| matches!(told, Told::Lost(..))));
}
