//! The memory that connections hold.
//!
//! It is counted as it is taken from the allocator, so that it includes what quiche keeps: received
//! data with gaps, header sections that have not come to their end, and data that has not been
//! acknowledged. The thread that runs a connection counts what it takes and gives back.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Runs something, and says how much more memory is in use after it, in bytes.
pub(super) fn measured<T>(run: impl FnOnce() -> T) -> (T, i64) {
    let mut result = None;
    let info = allocation_counter::measure(|| result = Some(run()));
    match result {
        Some(result) => (result, info.bytes_current),
        None => unreachable!("the closure has run"),
    }
}

/// A connection may hold this part of the memory for all.
const PARTS: u64 = 8;

/// The memory that connections hold, which all threads of a server know.
#[derive(Debug)]
pub(super) struct Memory {
    /// The limit for all connections together.
    all_bytes: i64,
    /// The limit for one of them.
    each_bytes: i64,
    held_bytes: AtomicI64,
    /// By thread, no less than what its largest connection holds.
    largest_bytes: Vec<AtomicI64>,
}

impl Memory {
    /// The memory of a server with so many threads.
    pub(super) fn new(limit_bytes: u64, threads: usize) -> Arc<Self> {
        let limit = |bytes| i64::try_from(bytes).unwrap_or(i64::MAX);
        Arc::new(Memory {
            all_bytes: limit(limit_bytes),
            each_bytes: limit(limit_bytes / PARTS),
            held_bytes: AtomicI64::new(0),
            largest_bytes: (0..threads).map(|_| AtomicI64::new(0)).collect(),
        })
    }

    /// A connection of `thread` holds so much more, and now so much.
    pub(super) fn add(&self, thread: usize, more_bytes: i64, held_bytes: i64) {
        self.held_bytes.fetch_add(more_bytes, Ordering::Relaxed);
        self.largest_bytes[thread].fetch_max(held_bytes, Ordering::Relaxed);
    }

    /// A connection that held so much has ended.
    pub(super) fn give_back(&self, held_bytes: i64) {
        self.held_bytes.fetch_sub(held_bytes, Ordering::Relaxed);
    }

    /// The bytes that all connections hold.
    pub(super) fn held_bytes(&self) -> i64 {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// True if a connection holds more than its share.
    pub(super) fn is_too_much(&self, held_bytes: i64) -> bool {
        held_bytes > self.each_bytes
    }

    /// True if all connections together hold too much.
    pub(super) fn is_exceeded(&self) -> bool {
        self.held_bytes() > self.all_bytes
    }

    /// The thread whose largest connection is to be closed, when the largest of `thread` holds so
    /// much. Another thread may find, when it looks, that its largest holds less than this one's.
    pub(super) fn thread_to_shed(&self, thread: usize, largest_bytes: i64) -> usize {
        self.largest_bytes[thread].store(largest_bytes, Ordering::Relaxed);
        let others = self.largest_bytes.iter().enumerate();
        let (largest, _) = others.fold((thread, largest_bytes), |most, (other, bytes)| {
            let bytes = bytes.load(Ordering::Relaxed);
            if bytes > most.1 { (other, bytes) } else { most }
        });
        largest
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

    #[test]
    fn the_largest_connection_of_all_threads_is_shed() {
        let memory = Memory::new(1_000, 3);
        memory.add(0, 400, 400);
        memory.add(1, 500, 500);
        assert!(!memory.is_exceeded() && memory.is_too_much(126));
        memory.add(2, 300, 300);
        assert!(memory.is_exceeded());
        assert_eq!(memory.thread_to_shed(0, 400), 1);
        // It holds less than it did: thread 1 looks, and finds so.
        assert_eq!(memory.thread_to_shed(1, 200), 0);
        assert_eq!(memory.thread_to_shed(0, 400), 0);
        memory.give_back(400);
        assert!(!memory.is_exceeded());
        assert_eq!(memory.held_bytes(), 800);
    }
}
