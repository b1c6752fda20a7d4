//! A TCP flow of the kernel beside another.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use gallop_path::{Path, SERVER_IPV4};
use socket2::{Domain, Socket, Type};

/// The port of the flow's server.
const PORT: u16 = 5201;

/// Bytes of a read or write.
const BLOCK_BYTES: usize = 64 << 10;

/// A flow that sends nothing for so long is over.
const STUCK: Duration = Duration::from_secs(10);

/// The controller of crosstraffic's flow.
pub const CUBIC: &str = "cubic";

/// A TCP flow from server to client, as long as this value lives.
#[derive(Debug)]
pub struct TcpFlow {
    receiving: TcpStream,
    received_bytes: Arc<AtomicU64>,
    start: Instant,
    threads: Vec<JoinHandle<()>>,
}

impl TcpFlow {
    /// Starts it with a congestion controller of the kernel's, and with the kernel's maximum
    /// segment size unless it is given.
    ///
    /// # Errors
    ///
    /// The kernel does not have the controller, or refuses a socket.
    pub fn start(path: &Path, controller: &str, segment_bytes: Option<u32>) -> Result<Self> {
        let listener = path
            .server()
            .run(|| listen(controller, segment_bytes))?
            .with_context(|| format!("TCP flow: cannot listen with {controller}"))?;
        let address = SocketAddr::from((SERVER_IPV4, PORT));
        let receiving = path
            .client()
            .run(|| TcpStream::connect(address))?
            .context("TCP flow: cannot connect")?;
        let (mut sending, _) = listener.accept().context("TCP flow: cannot accept")?;
        sending.set_write_timeout(Some(STUCK)).context("TCP flow")?;
        let sender = thread::spawn(move || {
            let block = [0; BLOCK_BYTES];
            while sending.write_all(&block).is_ok() {}
        });
        let received_bytes = Arc::new(AtomicU64::new(0));
        let mut reading = receiving.try_clone().context("TCP flow")?;
        let counter = Arc::clone(&received_bytes);
        let receiver = thread::spawn(move || {
            let mut block = [0; BLOCK_BYTES];
            while let Ok(count @ 1..) = reading.read(&mut block) {
                counter.fetch_add(count as u64, Ordering::Relaxed);
            }
        });
        Ok(TcpFlow {
            receiving,
            received_bytes,
            start: Instant::now(),
            threads: vec![sender, receiver],
        })
    }

    /// The bytes that have been received so far.
    pub fn received_bytes(&self) -> u64 {
        self.received_bytes.load(Ordering::Relaxed)
    }

    /// Ends it; gives the rate in bits per second at which it was received.
    pub fn stop(self) -> f64 {
        let elapsed = self.start.elapsed();
        let bytes = self.received_bytes();
        // An error means that it has ended already. Closing with unread data resets the sender.
        let _ = self.receiving.shutdown(Shutdown::Both);
        drop(self.receiving);
        for thread in self.threads {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
        bytes as f64 * 8.0 / elapsed.as_secs_f64()
    }
}

fn listen(controller: &str, segment_bytes: Option<u32>) -> std::io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_tcp_congestion(controller.as_bytes())?;
    if let Some(bytes) = segment_bytes {
        socket.set_tcp_mss(bytes)?;
    }
    socket.bind(&SocketAddr::from((SERVER_IPV4, PORT)).into())?;
    socket.listen(1)?;
    Ok(socket.into())
}
