//! A network path between two network namespaces, in real time, with the links and queues of the
//! simulator: rate, propagation delay, buffer, random loss, damage, black holes, and a NAT that
//! forgets.
//!
//! ```no_run
//! use gallop_path::{Path, Settings};
//! use std::process::Command;
//!
//! // 10 Mbit/s, 15 ms one way, 25 packets: the default.
//! let path = Path::start(&Settings::default())?;
//! let mut server = path.server().spawn(Command::new("gallop-server").arg("--listen=[::]:443"))?;
//! let url = format!("https://{}/file", gallop_path::SERVER_IPV4);
//! let client = path.client().spawn(Command::new("gallop-client").arg(url))?;
//! client.wait_with_output()?;
//! server.kill()?;
//! println!("{}", path.stop()?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Nothing outlives the program: the namespaces have no names, and only open files of this process
//! hold them. Any number of paths may run at once, all with the same addresses.
//!
//! It needs Linux with network namespaces and TUN devices, the command `ip` (iproute2), and the
//! rights of root, of which those in a user namespace (`unshare --user --map-root-user`) are
//! enough.

#![cfg(target_os = "linux")]

mod addresses;
mod capture;
pub mod check;
mod damage;
mod error;
mod exit;
mod forward;
mod ip;
mod namespace;
mod nat;
mod path;
mod report;
pub mod settings;

pub use addresses::{
    CLIENT_IPV4, CLIENT_IPV6, MTU_BYTES, SERVER_IPV4, SERVER_IPV6, client_address, server_address,
};
pub use error::PathError;
pub use namespace::Namespace;
pub use path::Path;
pub use report::{DirectionReport, Lateness, LinkReport, Report, WindowReport};
pub use settings::Settings;
