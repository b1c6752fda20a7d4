//! Runs one simulation in a thread of its own, with its own clock and entropy, and checks once per
//! process that these are really in force.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::panic::resume_unwind;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use thiserror::Error;

use crate::clock::{self, Time};
use crate::entropy;

/// A reason for which a simulation cannot be deterministic in this program.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum SelfCheckError {
    /// A clock does not follow the thread's virtual time.
    #[error(
        "{function} does not follow the virtual clock: the simulator's definition of it is not linked into this program, \
         so quiche would run on real time; name the crate in the program (`use gallop_sim as _;`) and link it statically"
    )]
    Clock {
        /// The function that was called.
        function: &'static str,
    },
    /// BoringSSL never asked the simulator for entropy.
    #[error(
        "BoringSSL does not draw its entropy from the simulator, so packets would differ from run to run: \
         boring-sys has probably renamed its entropy functions; compare src/entropy.rs with the symbols of libcrypto.a"
    )]
    BoringSsl,
    /// The standard library never asked the simulator for entropy.
    #[error(
        "hash maps do not draw their keys from the simulator, so their order would differ from run to run: \
         the simulator's definition of getrandom is not linked into this program, or the standard library no longer calls it"
    )]
    HashMaps,
    /// The same seed gave other bytes the second time.
    #[error("{source_name} gave other values for the same seed: it has a second source of entropy")]
    NotRepeatable {
        /// The function that was called.
        source_name: &'static str,
    },
    /// Another seed gave the same bytes.
    #[error("{source_name} gave the same values for another seed: the seed does not reach it")]
    SeedIgnored {
        /// The function that was called.
        source_name: &'static str,
    },
    /// No thread could be started.
    #[error("the simulation's thread cannot be started: {0}")]
    Thread(std::io::ErrorKind),
}

/// Runs `work` in a fresh thread whose clock stands at the start of virtual time and whose entropy
/// is determined by `seed`, and returns what it returns.
///
/// The [`Simulation`](crate::Simulation) and all its connections must be made, run and dropped
/// within `work`, so that they are deterministic. A panic of `work` goes on in the caller.
///
/// # Errors
/// Fails when the program cannot be deterministic ([`self_check`]) or no thread can be started.
pub fn isolated<T: Send>(seed: u64, work: impl FnOnce() -> T + Send) -> Result<T, SelfCheckError> {
    self_check()?;
    fresh_thread(seed, work)
}

/// Checks, once per process, that virtual clock and seeded entropy are linked and effective.
///
/// # Errors
/// Names the one that is not, and the consequence.
pub fn self_check() -> Result<(), SelfCheckError> {
    static RESULT: OnceLock<Result<(), SelfCheckError>> = OnceLock::new();
    *RESULT.get_or_init(|| {
        fresh_thread(0, check_clocks)??;
        let sample = |seed| fresh_thread(seed, sample_entropy);
        let (first, again, other) = (sample(1)?, sample(1)?, sample(2)?);
        judge_entropy(&first, &again, &other)
    })
}

fn fresh_thread<T: Send>(seed: u64, work: impl FnOnce() -> T + Send) -> Result<T, SelfCheckError> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("simulation".to_owned())
            .spawn_scoped(scope, || {
                clock::set(Time::ZERO);
                entropy::seed(seed);
                gallop_stacks::seed_entropy(seed);
                work()
            })
            .map_err(|error| SelfCheckError::Thread(error.kind()))?;
        match thread.join() {
            Ok(result) => Ok(result),
            Err(panic) => resume_unwind(panic),
        }
    })
}

fn check_clocks() -> Result<(), SelfCheckError> {
    const STEP: Duration = Duration::new(7, 123_456_789);
    let read = || (Instant::now(), SystemTime::now(), c_clocks());
    clock::set(Time::ZERO);
    let (monotonic, wall, c_wall) = read();
    clock::set(Time::ZERO + STEP);
    let (monotonic_later, wall_later, c_wall_later) = read();
    let whole_seconds = |wall: Duration| Duration::from_secs(wall.as_secs());
    let checks = [
        (
            "clock_gettime(CLOCK_MONOTONIC)",
            monotonic_later.checked_duration_since(monotonic) == Some(STEP),
        ),
        (
            "clock_gettime(CLOCK_REALTIME)",
            wall == SystemTime::UNIX_EPOCH + clock::WALL_CLOCK_BASE && wall_later == wall + STEP,
        ),
        (
            "gettimeofday",
            c_wall.precise == clock::WALL_CLOCK_BASE
                && c_wall_later.precise == clock::WALL_CLOCK_BASE + Duration::new(7, 123_456_000),
        ),
        (
            "time",
            c_wall.coarse == whole_seconds(clock::WALL_CLOCK_BASE)
                && c_wall_later.coarse == whole_seconds(clock::WALL_CLOCK_BASE + STEP),
        ),
    ];
    match checks.iter().find(|(_, good)| !good) {
        Some((function, _)) => Err(SelfCheckError::Clock { function }),
        None => Ok(()),
    }
}

/// The wall clock as the C library's functions tell it, which BoringSSL calls for session tickets
/// and certificates.
struct CClocks {
    /// gettimeofday(2), to the microsecond.
    precise: Duration,
    /// time(2), to the second.
    coarse: Duration,
}

#[expect(unsafe_code, reason = "the check calls the C functions themselves")]
fn c_clocks() -> CClocks {
    let mut precise = libc::timeval {
        tv_sec: 0,
        tv_usec: 0,
    };
    // SAFETY: `precise` is a valid timeval to write to; a null time zone is allowed.
    unsafe { libc::gettimeofday(&raw mut precise, std::ptr::null_mut()) };
    // SAFETY: a null pointer is allowed and means that nothing is written.
    let coarse = unsafe { libc::time(std::ptr::null_mut()) };
    let unsigned = |value: i64| u64::try_from(value).unwrap_or(0);
    CClocks {
        precise: Duration::from_secs(unsigned(precise.tv_sec))
            + Duration::from_micros(unsigned(precise.tv_usec)),
        coarse: Duration::from_secs(unsigned(coarse)),
    }
}

/// The draws of a fresh thread from each consumer of entropy.
#[derive(Debug)]
struct EntropySample {
    boringssl: Option<[u8; 32]>,
    hash: u64,
    draws: entropy::Draws,
}

fn sample_entropy() -> EntropySample {
    let mut bytes = [0; 32];
    let boringssl = boring::rand::rand_bytes(&mut bytes)
        .is_ok()
        .then_some(bytes);
    let hash = RandomState::new().hash_one(0_u64);
    EntropySample {
        boringssl,
        hash,
        draws: entropy::draws(),
    }
}

fn judge_entropy(
    first: &EntropySample,
    again: &EntropySample,
    other: &EntropySample,
) -> Result<(), SelfCheckError> {
    const BORINGSSL: &str = "BoringSSL's RAND_bytes";
    const HASH_MAPS: &str = "the standard library's RandomState";
    if first.boringssl.is_none() || first.draws.boringssl == 0 {
        return Err(SelfCheckError::BoringSsl);
    }
    if first.draws.libc == 0 {
        return Err(SelfCheckError::HashMaps);
    }
    for (source_name, repeats, differs) in [
        (
            BORINGSSL,
            first.boringssl == again.boringssl,
            first.boringssl != other.boringssl,
        ),
        (
            HASH_MAPS,
            first.hash == again.hash,
            first.hash != other.hash,
        ),
    ] {
        if !repeats {
            return Err(SelfCheckError::NotRepeatable { source_name });
        }
        if !differs {
            return Err(SelfCheckError::SeedIgnored { source_name });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good(seed: u8) -> EntropySample {
        EntropySample {
            boringssl: Some([seed; 32]),
            hash: seed.into(),
            draws: entropy::Draws {
                boringssl: 1,
                libc: 1,
            },
        }
    }

    #[test]
    fn this_program_passes() {
        assert_eq!(self_check(), Ok(()));
    }

    #[test]
    fn entropy_that_does_not_come_from_here_is_caught() {
        let judge = |first: EntropySample| judge_entropy(&first, &good(1), &good(2));
        assert_eq!(judge(good(1)), Ok(()));
        let mut renamed = good(1);
        renamed.draws.boringssl = 0;
        assert_eq!(judge(renamed), Err(SelfCheckError::BoringSsl));
        let mut unlinked = good(1);
        unlinked.draws.libc = 0;
        assert_eq!(judge(unlinked), Err(SelfCheckError::HashMaps));
        let mut second_source = good(1);
        second_source.boringssl = Some([9; 32]);
        assert!(matches!(
            judge(second_source),
            Err(SelfCheckError::NotRepeatable { .. })
        ));
        assert!(matches!(
            judge_entropy(&good(1), &good(1), &good(1)),
            Err(SelfCheckError::SeedIgnored { .. })
        ));
    }

    #[test]
    fn other_threads_keep_the_real_clock_and_entropy() {
        let stands_still = isolated(1, || {
            clock::set(Time::from(Duration::from_secs(5)));
            let before = Instant::now();
            (clock::now(), (0..1000).all(|_| Instant::now() == before))
        });
        assert_eq!(
            stands_still,
            Ok((Some(Time::from(Duration::from_secs(5))), true))
        );
        assert_eq!(clock::now(), None);
        let before = Instant::now();
        assert!((0..10_000_000).any(|_| Instant::now() != before));
        assert!(SystemTime::now() != SystemTime::UNIX_EPOCH + clock::WALL_CLOCK_BASE);
        assert_eq!(entropy::draws(), entropy::Draws::default());
        let mut bytes = [[0; 16]; 2];
        for sample in &mut bytes {
            boring::rand::rand_bytes(sample).expect("BoringSSL has entropy");
        }
        assert_ne!(bytes[0], bytes[1]);
    }

    #[test]
    fn a_panic_goes_on_in_the_caller() {
        let result = std::panic::catch_unwind(|| isolated(1, || panic!("inside")));
        assert!(result.is_err());
    }
}
