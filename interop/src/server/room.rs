//! The room for connections, which all threads of a server share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A limited number of places.
#[derive(Debug)]
pub(super) struct Room {
    places: usize,
    taken: AtomicUsize,
}

impl Room {
    pub(super) fn new(places: usize) -> Arc<Self> {
        Arc::new(Room {
            places,
            taken: AtomicUsize::new(0),
        })
    }

    pub(super) fn is_full(&self) -> bool {
        self.taken.load(Ordering::Relaxed) >= self.places
    }

    pub(super) fn is_half_full(&self) -> bool {
        2 * self.taken.load(Ordering::Relaxed) >= self.places
    }

    /// A place, if one is left.
    pub(super) fn take(self: &Arc<Self>) -> Option<Place> {
        let more = |taken| (taken < self.places).then_some(taken + 1);
        self.taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .ok()?;
        Some(Place(Arc::clone(self)))
    }
}

/// A place, which is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Place(Arc<Room>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn threads_take_no_more_places_than_there_are() {
        let room = Room::new(100);
        let taken: Vec<_> = thread::scope(|scope| {
            let take_all = || std::iter::from_fn(|| room.take()).collect::<Vec<_>>();
            let threads = [(); 4].map(|()| scope.spawn(take_all));
            threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap())
                .collect()
        });
        assert_eq!(taken.len(), 100);
        assert!(room.is_full() && room.is_half_full());
        drop(taken);
        assert!(!room.is_half_full() && room.take().is_some());
    }
}
