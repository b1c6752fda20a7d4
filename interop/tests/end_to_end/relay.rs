//! A path between client and server that loses and damages packets, and changes its address as a
//! NAT does.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// The fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fate {
    Pass,
    Lose,
    Damage,
    /// It comes from another port from now on.
    Rebind,
    /// It comes from another address from now on.
    Move,
}

/// The side that sent a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum From {
    Client,
    Server,
}

pub struct Relay {
    pub address: SocketAddr,
    state: Arc<State>,
}

struct State {
    client_side: UdpSocket,
    server_side: Mutex<Arc<UdpSocket>>,
    server: SocketAddr,
    client: Mutex<Option<SocketAddr>>,
    fate: Box<dyn Fn(From, usize) -> Fate + Send + Sync>,
    moves: AtomicUsize,
    is_over: AtomicBool,
}

fn bind(last: u8) -> UdpSocket {
    let socket = UdpSocket::bind(SocketAddr::from(([127, 0, 0, last], 0))).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(10)))
        .unwrap();
    socket
}

impl Relay {
    /// `fate` decides by the side and the number of a packet from it.
    pub fn start(
        server: SocketAddr,
        fate: impl Fn(From, usize) -> Fate + Send + Sync + 'static,
    ) -> Relay {
        let client_side = bind(1);
        let address = client_side.local_addr().unwrap();
        let state = Arc::new(State {
            client_side,
            server_side: Mutex::new(Arc::new(bind(1))),
            server,
            client: Mutex::default(),
            fate: Box::new(fate),
            moves: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        });
        for from in [From::Client, From::Server] {
            let state = Arc::clone(&state);
            thread::spawn(move || state.run(from));
        }
        Relay { address, state }
    }

    /// The number of times that the address has changed.
    pub fn moves(&self) -> usize {
        self.state.moves.load(Ordering::Relaxed)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::Relaxed);
    }
}

impl State {
    fn run(&self, from: From) {
        let mut buffer = [0; 65_535];
        let mut count = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            let server_side = Arc::clone(&self.server_side.lock().unwrap());
            let received = match from {
                From::Client => self.client_side.recv_from(&mut buffer),
                From::Server => server_side.recv_from(&mut buffer),
            };
            let Ok((length, sender)) = received else {
                continue;
            };
            let packet = &mut buffer[..length];
            let fate = (self.fate)(from, count);
            count += 1;
            match fate {
                Fate::Pass => {}
                Fate::Lose => continue,
                Fate::Damage => packet[length / 2] ^= 0xff,
                Fate::Rebind | Fate::Move => {
                    let moves = self.moves.fetch_add(1, Ordering::Relaxed) + 1;
                    let last = if fate == Fate::Move {
                        moves as u8 + 1
                    } else {
                        1
                    };
                    *self.server_side.lock().unwrap() = Arc::new(bind(last));
                }
            }
            // A peer that is gone is no matter of the path.
            let _ = match from {
                From::Client => {
                    *self.client.lock().unwrap() = Some(sender);
                    let server_side = Arc::clone(&self.server_side.lock().unwrap());
                    server_side.send_to(packet, self.server)
                }
                From::Server => match *self.client.lock().unwrap() {
                    Some(client) => self.client_side.send_to(packet, client),
                    None => continue,
                },
            };
        }
    }
}
