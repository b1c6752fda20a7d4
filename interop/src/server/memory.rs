//! The memory that connections hold.
//!
//! It is counted as it is taken from the allocator, so that it includes what quiche keeps: received
//! data with gaps, header sections that have not come to their end, and data that has not been
//! acknowledged. One thread runs all connections, and counts what each of them takes and gives back.

/// Runs something, and says how much more memory is in use after it, in bytes.
pub(super) fn measured<T>(run: impl FnOnce() -> T) -> (T, i64) {
    let mut result = None;
    let info = allocation_counter::measure(|| result = Some(run()));
    match result {
        Some(result) => (result, info.bytes_current),
        None => unreachable!("the closure has run"),
    }
}

/// The limits of memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// For all connections together.
    pub(super) all_bytes: i64,
    /// For one of them.
    pub(super) each_bytes: i64,
}

/// A connection may hold this part of the memory for all.
const PARTS: u64 = 8;

impl Limits {
    pub(super) fn new(all_bytes: u64) -> Self {
        let limit = |bytes| i64::try_from(bytes).unwrap_or(i64::MAX);
        Limits {
            all_bytes: limit(all_bytes),
            each_bytes: limit(all_bytes / PARTS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_counted_until_it_is_given_back() {
        let (kept, taken) = measured(|| {
            drop(vec![1_u8; 5_000]);
            vec![1_u8; 1_000]
        });
        assert_eq!(taken, 1_000);
        assert_eq!(measured(|| drop(kept)), ((), -1_000));
    }
}
