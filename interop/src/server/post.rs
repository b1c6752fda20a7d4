//! The threads of a server: the connection ID of a packet names the one that has its connection, and
//! packets that come to another one are handed over.
//!
//! The system chooses the socket, and thereby the thread, of a packet by its addresses and ports, which
//! change when a client moves. Nobody but the server can read the thread from a connection ID: connection
//! IDs of the same connection have nothing in common (RFC 9000 §5.1).

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Instant;

use mio::Waker;
use quiche::{ConnectionId, RecvInfo};

use crate::transport;

/// The most threads: one byte of a connection ID tells them apart.
pub(super) const MAX_THREADS: usize = 256;

/// Datagrams that wait for a thread; more are lost, as in a full socket.
const CAPACITY: usize = 1_024;

/// A datagram for a connection of another thread.
pub(super) struct Letter {
    pub(super) datagram: Vec<u8>,
    pub(super) info: RecvInfo,
    /// The time at which it came.
    pub(super) at: Instant,
}

/// The keys by which connection IDs name their thread.
#[derive(Clone)]
struct Owners {
    key: RandomState,
    threads: usize,
}

impl Owners {
    fn mask(&self, rest: &[u8]) -> u8 {
        self.key.hash_one(rest).to_le_bytes()[0]
    }

    /// A connection ID of this thread that nobody can guess.
    fn make(&self, thread: usize) -> quiche::Result<ConnectionId<'static>> {
        let mut id = transport::connection_id()?.to_vec();
        if let [first, rest @ ..] = id.as_mut_slice() {
            // Below 256, as the number of threads.
            *first = self.mask(rest).wrapping_add(thread as u8);
        }
        Ok(ConnectionId::from_vec(id))
    }

    /// The thread that made a connection ID. One that somebody else made may name any.
    fn of(&self, id: &ConnectionId<'_>) -> Option<usize> {
        if id.len() != transport::CONNECTION_ID_BYTES {
            return None;
        }
        let (first, rest) = id.split_first()?;
        let thread = usize::from(first.wrapping_sub(self.mask(rest)));
        (thread < self.threads).then_some(thread)
    }
}

/// One thread's access to the others.
pub(super) struct Post {
    owners: Owners,
    thread: usize,
    /// The way to each thread, by number.
    boxes: Vec<(SyncSender<Letter>, Arc<Waker>)>,
    inbox: Receiver<Letter>,
    /// Threads that have got something, and are to be woken.
    to_wake: Vec<bool>,
}

impl Post {
    /// The post of as many threads as there are wakers.
    pub(super) fn of_threads(wakers: &[Arc<Waker>]) -> Vec<Post> {
        let owners = Owners {
            key: RandomState::new(),
            threads: wakers.len(),
        };
        let (senders, inboxes): (Vec<_>, Vec<_>) =
            wakers.iter().map(|_| sync_channel(CAPACITY)).unzip();
        let boxes: Vec<_> = senders.into_iter().zip(wakers.iter().cloned()).collect();
        let post = |(thread, inbox)| Post {
            owners: owners.clone(),
            thread,
            boxes: boxes.clone(),
            inbox,
            to_wake: vec![false; boxes.len()],
        };
        inboxes.into_iter().enumerate().map(post).collect()
    }

    /// A connection ID of this thread that nobody can guess.
    ///
    /// # Errors
    ///
    /// BoringSSL has no random numbers.
    pub(super) fn connection_id(&self) -> quiche::Result<ConnectionId<'static>> {
        self.owners.make(self.thread)
    }

    /// Gives a datagram for a connection that this thread does not know to the one that may. False if
    /// there is none.
    pub(super) fn hand_over(
        &mut self,
        id: &ConnectionId<'_>,
        datagram: &[u8],
        info: RecvInfo,
        at: Instant,
    ) -> bool {
        let Some(thread) = self.owners.of(id).filter(|thread| *thread != self.thread) else {
            return false;
        };
        let letter = Letter {
            datagram: datagram.to_vec(),
            info,
            at,
        };
        match self.boxes[thread].0.try_send(letter) {
            Ok(()) => self.to_wake[thread] = true,
            Err(TrySendError::Full(_)) => {
                tracing::debug!(from = %info.from, "too many packets for another thread");
                self.to_wake[thread] = true;
            }
            // The server is ending, and that thread has no connection left.
            Err(TrySendError::Disconnected(_)) => {}
        }
        true
    }

    /// Wakes a thread when this one has done its turn.
    pub(super) fn wake_later(&mut self, thread: usize) {
        self.to_wake[thread] = true;
    }

    /// Wakes the threads that have got something.
    pub(super) fn wake(&mut self) {
        for ((_, waker), to_wake) in self.boxes.iter().zip(&mut self.to_wake) {
            if std::mem::take(to_wake)
                && let Err(error) = waker.wake()
            {
                tracing::error!(%error, "another thread cannot be woken");
            }
        }
    }

    /// The datagrams that other threads have handed over, at most as many as may wait.
    pub(super) fn letters(&self) -> Vec<Letter> {
        self.inbox.try_iter().take(CAPACITY).collect()
    }

    /// The number of this thread.
    pub(super) fn thread(&self) -> usize {
        self.thread
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners(threads: usize) -> Owners {
        Owners {
            key: RandomState::new(),
            threads,
        }
    }

    #[test]
    fn a_connection_id_names_its_thread() {
        for threads in [1, 2, 7, MAX_THREADS] {
            let owners = owners(threads);
            for thread in 0..threads {
                let id = owners.make(thread).unwrap();
                assert_eq!(id.len(), transport::CONNECTION_ID_BYTES);
                assert_eq!(owners.of(&id), Some(thread));
            }
        }
    }

    #[test]
    fn nobody_else_can_tell_the_thread() {
        let (one, other) = (owners(2), owners(2));
        let of_first = |owners: &Owners, id: &ConnectionId<'_>| owners.of(id) == Some(0);
        let ids: Vec<_> = (0..1_000).map(|_| one.make(0).unwrap()).collect();
        assert!(ids.iter().all(|id| of_first(&one, id)));
        // By chance, 4 of them.
        assert!(ids.iter().filter(|id| of_first(&other, id)).count() < 50);
    }

    #[test]
    fn an_id_of_another_length_names_no_thread() {
        let owners = owners(MAX_THREADS);
        for length in [0, 1, 8, 15, 17, 20] {
            assert_eq!(owners.of(&ConnectionId::from_vec(vec![0; length])), None);
        }
    }
}
