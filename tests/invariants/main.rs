//! Statements about the controllers that hold whatever happens, checked on likely lives (proptest)
//! and on any (bolero).

mod any;
mod life;
mod model;
mod text;

use gallop::gallop::StableGrowth;
use gallop::vegas::Doubling;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

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

    #[test]
    fn every_controller_in_likely_lives(life in life::likely()) {
        any::check(&life);
    }
}

#[test]
fn fuzz_vegas() {
    gallop_fuzz::check("vegas", 1000, model::check::<Doubling>);
}

#[test]
fn fuzz_gallop_vegas() {
    gallop_fuzz::check("gallop_vegas", 1000, model::check::<StableGrowth>);
}

#[test]
fn fuzz_every_controller() {
    gallop_fuzz::check("every_controller", 1000, any::check);
}

#[test]
fn fuzz_option_text() {
    gallop_fuzz::check("option_text", 20_000, |pieces: &Vec<text::Piece>| {
        text::check(&text::join(pieces));
    });
}
