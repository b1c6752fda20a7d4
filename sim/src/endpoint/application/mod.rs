//! The applications at both ends of a connection, over streams or HTTP/3.

mod client;
mod http3;
mod server;

pub(crate) use client::{Answer, Client};
pub(crate) use server::Server;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use gallop_network::time::Time;

use crate::endpoint::connection::ConnectionError;
use crate::endpoint::streams::Streams;
use crate::traffic::Source;

/// The answers that the requests under way ask for, by stream. The server finds the client's wishes
/// here, since the bytes that travel are zeros.
pub(crate) type Requests = Rc<RefCell<BTreeMap<u64, Box<dyn Source>>>>;

/// The error code of a connection that is closed because all is done: HTTP/3's H3_NO_ERROR (RFC
/// 9114 §8.1).
pub(crate) const ALL_IS_DONE: u64 = 0x100;

/// The application at one end.
#[derive(Debug)]
pub(crate) enum Application {
    Client(Client),
    Server(Server),
}

impl Application {
    /// Reads the data of all streams; returns true if there is something new to write.
    pub(crate) fn read(
        &mut self,
        connection: &mut impl Streams,
        now: Time,
    ) -> Result<bool, ConnectionError> {
        match self {
            Application::Client(client) => client.read(connection, now),
            Application::Server(server) => server.read(connection, now),
        }
    }

    /// Writes as much data as the connection takes. It is called only when the streams' buffers
    /// have run dry, because quiche would take a whole free window at every call.
    pub(crate) fn write(
        &mut self,
        connection: &mut impl Streams,
        now: Time,
    ) -> Result<(), ConnectionError> {
        match self {
            Application::Client(client) => client.write(connection, now),
            Application::Server(server) => server.write(connection, now),
        }
    }

    /// Closes the connection if all is done; returns true if it did so now.
    pub(crate) fn close(&self, connection: &mut impl Streams) -> bool {
        self.wants_to_close() && connection.close(ALL_IS_DONE)
    }

    /// True if all is done and the connection is to be closed.
    pub(crate) fn wants_to_close(&self) -> bool {
        match self {
            Application::Client(client) => client.wants_to_close(),
            Application::Server(_) => false,
        }
    }

    /// True if it is a client that has not read all answers.
    pub(crate) fn is_waiting(&self) -> bool {
        match self {
            Application::Client(client) => client.finished.is_none(),
            Application::Server(_) => false,
        }
    }

    /// Wakes the application, because there is something to write at `now`.
    pub(crate) fn wake(&mut self, now: Time) {
        match self {
            Application::Client(_) => {}
            Application::Server(server) => server.wake(now),
        }
    }

    /// Time at which there will be something to write, if it was last woken at `after`.
    pub(crate) fn more_at(&self, after: Option<Time>) -> Option<Time> {
        match self {
            Application::Client(client) => client.more_at(after),
            Application::Server(server) => server.more_at(after),
        }
    }
}
