//! Statements about the controllers that hold whatever happens, checked on likely lives (proptest)
//! and on any (bolero).

mod life;
mod model;
mod text;

use std::time::Duration;

use gallop::gallop::StableGrowth;
use gallop::vegas::Doubling;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use life::Life;

proptest! {
    // Always the same lives: new ones are the fuzzers' business.
    #![proptest_config(ProptestConfig {
        cases: 1000,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn vegas_in_likely_lives(life in life::likely()) {
        model::check::<Doubling>(&life);
    }

    #[test]
    fn gallop_vegas_in_likely_lives(life in life::likely()) {
        model::check::<StableGrowth>(&life);
    }
}

#[test]
fn fuzz_vegas() {
    bolero::check!()
        .with_type::<Life>()
        .with_iterations(1000)
        .with_test_time(Duration::from_secs(10))
        .for_each(model::check::<Doubling>);
}

#[test]
fn fuzz_gallop_vegas() {
    bolero::check!()
        .with_type::<Life>()
        .with_iterations(1000)
        .with_test_time(Duration::from_secs(10))
        .for_each(model::check::<StableGrowth>);
}

#[test]
fn fuzz_option_text() {
    bolero::check!()
        .with_type::<Vec<text::Piece>>()
        .with_iterations(20_000)
        .with_test_time(Duration::from_secs(10))
        .for_each(|pieces| text::check(&text::join(pieces)));
}
