//! The servers that the client connects to, and the transfers with each.

use std::collections::VecDeque;
use std::fs;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;

use url::{Host, Url};

use crate::client::arguments::{Arguments, Method};
use crate::client::failure::Failure;
use crate::client::transfer::{Job, Target};

/// A server, and the transfers with it.
pub(super) struct Origin {
    pub(super) host: Host<String>,
    port: u16,
    pub(super) jobs: VecDeque<Job>,
}

impl Origin {
    /// The server's address.
    ///
    /// # Errors
    ///
    /// The name has no address.
    pub(super) fn resolve(&self) -> Result<SocketAddr, Failure> {
        let port = self.port;
        let name = match &self.host {
            Host::Ipv4(ip) => return Ok((*ip, port).into()),
            Host::Ipv6(ip) => return Ok((*ip, port).into()),
            Host::Domain(name) => name,
        };
        let unknown = |why: String| Failure::Connect(format!("{name}: {why}"));
        let addresses: Vec<SocketAddr> = (name.as_str(), port)
            .to_socket_addrs()
            .map_err(|error| unknown(error.to_string()))?
            .collect();
        addresses
            .iter()
            // IPv4 first: the server's default listens on both, others may not.
            .find(|address| address.is_ipv4())
            .or(addresses.first())
            .copied()
            .ok_or_else(|| unknown("no address".to_owned()))
    }
}

/// The transfers that the flags ask for, checked as far as possible without a server.
fn jobs(arguments: &Arguments) -> Result<Vec<Job>, Failure> {
    if arguments.output.is_some() && arguments.urls.len() > 1 {
        return Err(Failure::Local(
            "--output is for one URL; for several give --dir".to_owned(),
        ));
    }
    if let Some(path) = &arguments.upload {
        fs::File::open(path)
            .map_err(|error| Failure::Local(format!("{}: {error}", path.display())))?;
    }
    if let Some(dir) = &arguments.dir {
        fs::create_dir_all(dir)
            .map_err(|error| Failure::Local(format!("{}: {error}", dir.display())))?;
    }
    let job = |url: &Url| -> Result<Job, Failure> {
        let target = match (&arguments.output, &arguments.dir) {
            (Some(path), _) if path == Path::new("-") => Target::Output,
            (Some(path), _) => Target::File(path.clone()),
            (None, Some(dir)) => {
                let name = url
                    .path()
                    .rsplit('/')
                    .next()
                    .filter(|name| !name.is_empty())
                    .unwrap_or("index.html");
                Target::File(dir.join(name))
            }
            (None, None) => Target::Discard,
        };
        Ok(Job {
            url: url.clone(),
            target,
            method: match (&arguments.upload, arguments.method) {
                (None, _) if arguments.head => "HEAD",
                (None, _) => "GET",
                (Some(_), Method::Put) => "PUT",
                (Some(_), Method::Post) => "POST",
            },
            fields: arguments.header.clone(),
            upload: arguments.upload.clone(),
        })
    };
    let once: Vec<Job> = arguments.urls.iter().map(job).collect::<Result<_, _>>()?;
    Ok((0..arguments.repeat).flat_map(|_| once.clone()).collect())
}

/// The servers of all URLs, with their transfers.
///
/// # Errors
///
/// Flags exclude each other, or a local file or folder cannot be used.
pub(super) fn origins(arguments: &Arguments) -> Result<Vec<Origin>, Failure> {
    let mut origins: Vec<Origin> = Vec::new();
    for job in jobs(arguments)? {
        let Some(host) = job.url.host().map(|host| host.to_owned()) else {
            continue; // The flag's parser has seen to it.
        };
        let port = job.url.port_or_known_default().unwrap_or(443);
        match origins
            .iter_mut()
            .find(|origin| origin.host == host && origin.port == port)
        {
            Some(origin) => origin.jobs.push_back(job),
            None => origins.push(Origin {
                host,
                port,
                jobs: VecDeque::from([job]),
            }),
        }
    }
    Ok(origins)
}
