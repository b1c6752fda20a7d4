//! Paths: two namespaces with a device each, and the thread between them.

use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use tun_rs::{DeviceBuilder, SyncDevice};

use crate::forward::Forwarder;
use crate::{
    CLIENT_IPV4, CLIENT_IPV6, MTU_BYTES, Namespace, PathError, Report, SERVER_IPV4, SERVER_IPV6,
    Settings,
};

/// Packets that wait in the kernel until the path looks at them. The path's own queue is what
/// should drop.
const DEVICE_QUEUE_PACKETS: u32 = 10_000;

/// A path that carries packets until it is stopped or dropped.
#[derive(Debug)]
pub struct Path {
    client: Namespace,
    server: Namespace,
    /// Ends the thread when it is closed.
    stop: UnixStream,
    thread: JoinHandle<io::Result<Report>>,
}

impl Path {
    /// Makes both namespaces with their devices and addresses, and starts to carry packets between
    /// them.
    ///
    /// # Errors
    /// The settings contradict themselves, or the system refuses something.
    pub fn start(settings: &Settings) -> Result<Path, PathError> {
        let (client, client_device) = side("client", CLIENT_IPV4, CLIENT_IPV6)?;
        let (server, server_device) = side("server", SERVER_IPV4, SERVER_IPV6)?;
        let failed = |error| PathError::Failed { error };
        let (stop, stopped) = UnixStream::pair().map_err(failed)?;
        let (ready, is_ready) = mpsc::channel();
        let settings = settings.clone();
        let thread = thread::Builder::new()
            .name("path".to_owned())
            .spawn(move || {
                let devices = [client_device, server_device];
                match Forwarder::new(&settings, devices, stopped) {
                    Ok(forwarder) => {
                        // Whoever waits for this has not gone away.
                        let _ = ready.send(Ok(()));
                        forwarder.run()
                    }
                    Err(error) => {
                        let _ = ready.send(Err(error));
                        Err(io::ErrorKind::Other.into())
                    }
                }
            })
            .map_err(failed)?;
        is_ready
            .recv()
            .unwrap_or_else(|_| Err(failed(io::ErrorKind::Other.into())))?;
        Ok(Path {
            client,
            server,
            stop,
            thread,
        })
    }

    /// The client's end.
    #[must_use]
    pub fn client(&self) -> &Namespace {
        &self.client
    }

    /// The server's end.
    #[must_use]
    pub fn server(&self) -> &Namespace {
        &self.server
    }

    /// Stops, and tells what has been measured.
    ///
    /// # Errors
    /// The system had failed the path before.
    pub fn stop(self) -> Result<Report, PathError> {
        drop(self.stop);
        let report = self.thread.join();
        report
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            .map_err(|error| PathError::Failed { error })
    }
}

/// A namespace with a device of these addresses through which everything goes.
fn side(
    name: &'static str,
    ipv4: Ipv4Addr,
    ipv6: Ipv6Addr,
) -> Result<(Namespace, SyncDevice), PathError> {
    let namespace = Namespace::create()?;
    let device = namespace.run(|| {
        let device = DeviceBuilder::new()
            .name(name)
            .mtu(MTU_BYTES)
            .with(|linux| {
                linux.offload(false);
            })
            .enable(false)
            .build_sync()
            .map_err(|error| PathError::Device { error })?;
        device
            .set_nonblocking(true)
            .map_err(|error| PathError::Device { error })?;
        set_up(name, ipv4, ipv6).map(|()| device)
    })??;
    Ok((namespace, device))
}

/// Gives the device `name` its addresses, and routes, in this thread's namespace.
fn set_up(name: &'static str, ipv4: Ipv4Addr, ipv6: Ipv6Addr) -> Result<(), PathError> {
    let script = format!(
        "link set dev lo up\n\
         link set dev {name} txqueuelen {DEVICE_QUEUE_PACKETS} addrgenmode none\n\
         address add {ipv4}/24 dev {name}\n\
         address add {ipv6}/64 dev {name} nodad\n\
         link set dev {name} up\n\
         route add default dev {name}\n\
         route add ::/0 dev {name}\n"
    );
    let missing = |error| PathError::IpMissing { error };
    let mut ip = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(missing)?;
    if let Some(mut input) = ip.stdin.take() {
        // A command that ends early says why below.
        let _ = input.write_all(script.as_bytes());
    }
    let output = ip.wait_with_output().map_err(missing)?;
    match output.status.success() {
        true => Ok(()),
        false => Err(PathError::IpFailed {
            side: name,
            message: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        }),
    }
}
