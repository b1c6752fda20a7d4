//! Reno behind the plug point does the same as quiche's built-in Reno, packet for packet. So the
//! plug point tells a controller all that a built-in one knows, in time.

mod reno;
mod script;

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread;

use gallop_sim::Controller;

use reno::{Mutation, RenoFactory};
use script::{Row, Script, Seen};

/// The scripts of the comparison.
const SCRIPTS: Range<u64> = 1..1001;

fn built_in() -> Controller {
    Controller::named("reno")
}

fn external(mutation: Option<Mutation>) -> Controller {
    Controller::Factory(Arc::new(RenoFactory(mutation)))
}

/// Does the work for each item, on all cores, and returns the results in the order of the items.
fn for_each<I: Copy + Sync, T: Send>(items: &[I], work: impl Fn(I) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let take = || {
        let indices = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        let taken = indices.map_while(|index| Some((index, *items.get(index)?)));
        taken
            .map(|(index, item)| (index, work(item)))
            .collect::<Vec<_>>()
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let mut results: Vec<(usize, T)> = thread::scope(|scope| {
        let handles: Vec<_> = (0..workers).map(|_| scope.spawn(take)).collect();
        let results = handles.into_iter().map(|handle| handle.join().unwrap());
        results.flatten().collect()
    });
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// The first difference between two runs of a script.
fn difference(expected: &[Row], found: &[Row]) -> Option<String> {
    let at = (0..expected.len().max(found.len())).find(|i| expected.get(*i) != found.get(*i))?;
    let (expected, found) = (expected.get(at), found.get(at));
    Some(format!(
        "row {at}: built-in {expected:?}, external {found:?}"
    ))
}

#[test]
fn a_thousand_scripts_go_as_with_the_built_in_reno() {
    let seeds: Vec<u64> = SCRIPTS.collect();
    let all = for_each(&seeds, |seed| {
        let script = Script::random(seed);
        let expected = script.run(built_in());
        let found = script.run(external(None));
        if let Some(difference) = difference(&expected, &found) {
            panic!("{script:?}: {difference}");
        }
        Seen::of(&expected)
    });

    // The comparison proves something only if much happens in the scripts.
    let scripts_with = |count: fn(&Seen) -> usize| all.iter().filter(|s| count(s) > 0).count();
    let losses = scripts_with(|seen| seen.losses);
    let spurious_losses = scripts_with(|seen| seen.spurious_losses);
    let timeouts = scripts_with(|seen| seen.timeouts);
    let exits_by_hystart = scripts_with(|seen| seen.exits_by_hystart);
    println!(
        "scripts with losses: {losses}, with spurious ones: {spurious_losses}, with timeouts: \
         {timeouts}, in which HyStart++ ended slow start: {exits_by_hystart}"
    );
    let least = losses
        .min(spurious_losses)
        .min(timeouts)
        .min(exits_by_hystart);
    assert!(least >= 100, "{least}");
}

#[test]
fn every_mutation_of_a_line_is_noticed() {
    let noticed = for_each(&Mutation::ALL, |mutation| {
        SCRIPTS.into_iter().find(|seed| {
            let script = Script::random(*seed);
            let expected = script.run(built_in());
            difference(&expected, &script.run(external(Some(mutation)))).is_some()
        })
    });
    let noticed: Vec<_> = Mutation::ALL.into_iter().zip(noticed).collect();
    println!("first noticed in script: {noticed:?}");
    let unnoticed: Vec<_> = noticed.iter().filter(|(_, seed)| seed.is_none()).collect();
    assert!(unnoticed.is_empty(), "{unnoticed:?}");
}
