//! A client and a server in memory, and the datagrams between them.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use gallop_sim::{clock, isolated};
use quiche::{Config, Connection, ConnectionId, RecvInfo, SendInfo};

/// The client's address.
pub const CLIENT: ([u8; 4], u16) = ([127, 0, 0, 1], 1234);
/// The address to which the client migrates.
pub const CLIENT_LATER: ([u8; 4], u16) = ([127, 0, 0, 1], 5678);
/// The server's address.
pub const SERVER: ([u8; 4], u16) = ([127, 0, 0, 1], 4433);

/// The stream that the server sends on.
pub const STREAM: u64 = 3;

/// A datagram, and quiche's information about sending it.
pub type Datagram = (Vec<u8>, SendInfo);

/// Runs a test on a virtual clock and with seeded entropy.
pub fn in_virtual_time<T: Send>(test: impl FnOnce() -> T + Send) -> T {
    isolated(1, test).expect("the simulator's clock and entropy are in force")
}

/// Lets virtual time pass.
pub fn pass(time: Duration) {
    clock::set(clock::now().expect("virtual time") + time);
}

/// Lets virtual time pass until then, if that is in the future.
pub fn pass_until(time: Instant) {
    pass(time.saturating_duration_since(Instant::now()));
}

/// A configuration for either side, with the simulator's certificate.
pub fn config() -> Config {
    with_certificate(Config::new(quiche::PROTOCOL_VERSION).unwrap())
}

/// Completes a configuration for either side.
pub fn with_certificate(mut config: Config) -> Config {
    let tls = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sim/tls");
    let file = |name: &str| tls.join(name).to_string_lossy().into_owned();
    config
        .load_cert_chain_from_pem_file(&file("cert.pem"))
        .unwrap();
    config
        .load_priv_key_from_pem_file(&file("key.pem"))
        .unwrap();
    config.set_application_protos(&[b"test"]).unwrap();
    config.verify_peer(false);
    config.grease(false);
    config.set_initial_max_data(1 << 30);
    config.set_initial_max_stream_data_uni(1 << 30);
    config.set_initial_max_streams_uni(10);
    config.set_max_recv_udp_payload_size(1500);
    config.set_max_send_udp_payload_size(1200);
    config.set_active_connection_id_limit(4);
    config
}

/// A client and a server.
pub struct Pair {
    pub client: Connection,
    pub server: Connection,
    /// The path loses larger datagrams, in bytes.
    pub path_mtu: usize,
}

impl Pair {
    /// Both sides before the handshake.
    pub fn new(client: &mut Config, server: &mut Config) -> Pair {
        let id = |side: u8| ConnectionId::from_vec(vec![side; 16]);
        let (client_addr, server_addr) = (SocketAddr::from(CLIENT), SERVER.into());
        Pair {
            client: quiche::connect(None, &id(1), client_addr, server_addr, client).unwrap(),
            server: quiche::accept(&id(2), None, server_addr, client_addr, server).unwrap(),
            path_mtu: usize::MAX,
        }
    }

    /// Both sides after the handshake, with nothing left to send.
    pub fn connected(client: &mut Config, server: &mut Config) -> Pair {
        let mut pair = Pair::new(client, server);
        pair.settle();
        assert!(pair.client.is_established() && pair.server.is_established());
        pair
    }

    /// Exchanges datagrams, without delay, until nothing is left to send.
    pub fn settle(&mut self) {
        loop {
            let to_server = send_all(&mut self.client);
            let to_client = send_all(&mut self.server);
            if to_server.is_empty() && to_client.is_empty() {
                return;
            }
            let (to_server, to_client) = (self.fitting(to_server), self.fitting(to_client));
            receive(&mut self.server, to_server);
            receive(&mut self.client, to_client);
        }
    }

    fn fitting(&self, mut datagrams: Vec<Datagram>) -> Vec<Datagram> {
        datagrams.retain(|(bytes, _)| bytes.len() <= self.path_mtu);
        datagrams
    }

    /// The client acknowledges what it has received.
    pub fn acknowledge(&mut self) {
        let to_server = send_all(&mut self.client);
        receive(&mut self.server, to_server);
    }
}

/// All datagrams that a side has to send now.
pub fn send_all(connection: &mut Connection) -> Vec<Datagram> {
    std::iter::from_fn(|| send(connection)).collect()
}

/// The next datagram of a side, if there is one now.
pub fn send(connection: &mut Connection) -> Option<Datagram> {
    send_up_to(connection, 2000)
}

/// The next datagram of a side, if there is one now that has no more than that many bytes.
pub fn send_up_to(connection: &mut Connection, bytes: usize) -> Option<Datagram> {
    let mut buffer = vec![0; bytes];
    match connection.send(&mut buffer) {
        Ok((length, info)) => {
            buffer.truncate(length);
            Some((buffer, info))
        }
        Err(quiche::Error::Done) => None,
        Err(error) => panic!("send: {error}"),
    }
}

/// Hands datagrams to a side.
pub fn receive(connection: &mut Connection, datagrams: Vec<Datagram>) {
    for (mut datagram, info) in datagrams {
        let info = RecvInfo {
            from: info.from,
            to: info.to,
        };
        connection.recv(&mut datagram, info).unwrap();
    }
}

/// Lets the server send that many bytes on its stream.
pub fn write(server: &mut Connection, bytes: usize) {
    assert_eq!(
        server.stream_send(STREAM, &vec![0; bytes], false),
        Ok(bytes)
    );
}
