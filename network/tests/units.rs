//! Quantities as tc(8) writes them.

use std::fmt::Display;
use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::Duration;

use gallop_network::units::{Buffer, Rate, Span};
use proptest::prelude::*;

fn error<T: FromStr<Err: Display>>(text: &str) -> String {
    text.parse::<T>()
        .map(drop)
        .map_err(|error| error.to_string())
        .expect_err(text)
}

#[test]
fn rates() {
    for (text, bps) in [
        ("50mbit", 50_000_000),
        ("1.5gbit", 1_500_000_000),
        ("200kbps", 1_600_000),
        ("1bit", 1),
        ("1bps", 8),
        ("2tbit", 2_000_000_000_000),
        ("1kibit", 1024),
        ("1mibps", 8 * 1024 * 1024),
        ("10MBit", 10_000_000),
        (" 10 mbit ", 10_000_000),
        ("1e3kbit", 1_000_000),
        ("68.9mbit", 68_900_000),
        ("0.6bit", 1),
    ] {
        assert_eq!(text.parse().map(Rate::bps), Ok(bps), "{text}");
    }
    for (bps, text) in [
        (50e6, "50mbit"),
        (68.9e6, "68.9mbit"),
        (1.5e9, "1.5gbit"),
        (1234.0, "1.234kbit"),
        (1_234_567.0, "1234.567kbit"),
        (999.0, "999bit"),
    ] {
        let rate = Rate::from_bps(bps).expect("a rate");
        assert_eq!(rate.to_string(), text);
    }
}

#[test]
fn spans() {
    for (text, ns) in [
        ("100ms", 100_000_000),
        ("60s", 60_000_000_000),
        ("10us", 10_000),
        ("7ns", 7),
        ("0.5ms", 500_000),
        ("0s", 0),
        ("2secs", 2_000_000_000),
        ("1.5min", 90_000_000_000),
        ("24h", 86_400_000_000_000),
    ] {
        assert_eq!(
            text.parse().map(Span::duration),
            Ok(Duration::from_nanos(ns)),
            "{text}"
        );
    }
    for (seconds, text) in [
        (0.1, "100ms"),
        (1.5, "1.5s"),
        (0.0, "0ns"),
        (0.000_012_3, "12.3us"),
        (60.0, "60s"),
    ] {
        let span = Span::from_secs_f64(seconds).expect("a span");
        assert_eq!(span.to_string(), text);
    }
}

#[test]
fn buffers() {
    let size = |n| NonZeroU64::new(n).expect("not zero");
    for (text, buffer) in [
        ("100p", Buffer::Packets(size(100))),
        ("64kb", Buffer::Bytes(size(65_536))),
        ("64k", Buffer::Bytes(size(65_536))),
        ("125000b", Buffer::Bytes(size(125_000))),
        ("1.5mb", Buffer::Bytes(size(1_572_864))),
        ("2g", Buffer::Bytes(size(2 << 30))),
    ] {
        assert_eq!(text.parse(), Ok(buffer), "{text}");
    }
    assert_eq!(Buffer::Bytes(size(65_536)).to_string(), "64kb");
    assert_eq!(Buffer::Bytes(size(125_000)).to_string(), "125000b");
}

#[test]
fn errors_name_text_unit_and_what_is_allowed() {
    assert_eq!(
        error::<Span>("100m"),
        "\"100m\" is not a time: unknown unit \"m\"; use ns, us, ms, s, min, h"
    );
    assert_eq!(
        error::<Span>("100"),
        "\"100\" is not a time: it has no unit; use ns, us, ms, s, min, h"
    );
    assert!(error::<Rate>("50mbits").contains("unknown unit \"mbits\"; use bit, kbit"));
    assert!(error::<Rate>("5ibit").contains("unknown unit"));
    assert!(error::<Buffer>("100").contains("no unit; use p (packets)"));
    for text in ["", "mbit", "nan mbit", "NaNmbit", "infmbit", "-", "e5mbit"] {
        let error = error::<Rate>(text);
        assert!(error.contains("does not start with a number"), "{error}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    for text in ["-5mbit", "-0.1bit"] {
        assert!(error::<Rate>(text).ends_with("it is negative"));
    }
    assert!(error::<Rate>("0mbit").contains("at least 1bit"));
    assert!(error::<Rate>("0.4bit").contains("rounds to zero"));
    assert!(error::<Rate>("1e10gbit").contains("too large"));
    assert!(error::<Rate>("1e999gbit").contains("too large"));
    assert!(error::<Span>("-1ms").ends_with("it is negative"));
    assert!(error::<Span>("1e12s").contains("too large"));
    assert!(error::<Buffer>("0p").contains("at least 1p"));
    assert!(error::<Buffer>("0kb").contains("at least 1b"));
    assert!(error::<Buffer>("1.5p").contains("packets come whole"));
    assert!(error::<Buffer>("1e30p").contains("too large"));
    assert!(Rate::from_bps(f64::NAN).is_err());
    assert!(Rate::from_bps(-1.0).is_err());
    assert!(Rate::from_bps(f64::INFINITY).is_err());
    assert!(Span::from_secs_f64(f64::NAN).is_err());
    assert!(Span::from_secs_f64(-1.0).is_err());
}

#[test]
fn serialisation_takes_whole_nanoseconds() {
    let time = |rate: &str, bytes| rate.parse::<Rate>().expect("a rate").time_to_send(bytes);
    assert_eq!(time("8mbit", 100), Duration::from_micros(100));
    assert_eq!(time("1gbit", 1378), Duration::from_nanos(11_024));
    // 220.48 ns and 110.24 ns.
    assert_eq!(time("50gbit", 1378), Duration::from_nanos(220));
    assert_eq!(time("100gbit", 1378), Duration::from_nanos(110));
    // More than fits into 64 bits on the way.
    assert_eq!(
        time("8bit", 10_000_000_000),
        Duration::from_secs(10_000_000_000)
    );
    assert_eq!(time("1bit", u64::MAX), Duration::from_nanos(u64::MAX));
}

#[test]
fn json_has_numbers_and_takes_texts_too() {
    assert_eq!(
        serde_json::to_string(&Rate::GIGABIT).expect("json"),
        "1000000000"
    );
    for (json, bps) in [
        ("68900000.0", 68_900_000),
        ("5", 5),
        ("\"5mbit\"", 5_000_000),
    ] {
        let rate: Rate = serde_json::from_str(json).expect(json);
        assert_eq!(rate.bps(), bps);
    }
    let span: Span = serde_json::from_str("0.025").expect("a span");
    assert_eq!(span.duration(), Duration::from_millis(25));
    let error = serde_json::from_str::<Rate>("-3")
        .expect_err("negative")
        .to_string();
    assert!(error.contains("negative"), "{error}");
    let buffer: Buffer = serde_json::from_str("{\"packets\":100}").expect("a buffer");
    assert_eq!(buffer.to_string(), "100p");
    assert_eq!(
        serde_json::to_string(&buffer).expect("json"),
        "{\"packets\":100}"
    );
    assert!(serde_json::from_str::<Buffer>("{\"bytes\":0}").is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rates_read_back_as_written(bps in 1_u64..1_000_000_000_000_000) {
        let rate = Rate::from_bps(bps as f64).expect("a rate");
        prop_assert_eq!(rate.bps(), bps);
        prop_assert_eq!(rate.to_string().parse(), Ok(rate));
        let json = serde_json::to_string(&rate).expect("json");
        prop_assert_eq!(serde_json::from_str::<Rate>(&json).expect("a rate"), rate);
    }

    #[test]
    fn spans_read_back_as_written(ns in 0_u64..1_000_000_000_000_000) {
        let span = Span::try_from(Duration::from_nanos(ns)).expect("a span");
        prop_assert_eq!(span.to_string().parse(), Ok(span));
        let json = serde_json::to_string(&span).expect("json");
        prop_assert_eq!(serde_json::from_str::<Span>(&json).expect("a span"), span);
    }

    #[test]
    fn buffers_read_back_as_written(size in 1_u64..1_000_000_000_000_000, packets: bool) {
        let size = NonZeroU64::new(size).expect("not zero");
        let buffer = if packets { Buffer::Packets(size) } else { Buffer::Bytes(size) };
        prop_assert_eq!(buffer.to_string().parse(), Ok(buffer));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC*") {
        let _ = text.parse::<Rate>();
        let _ = text.parse::<Span>();
        let _ = text.parse::<Buffer>();
    }
}
