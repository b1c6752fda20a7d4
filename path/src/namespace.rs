//! Network namespaces without names.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};

use crate::PathError;

/// A network namespace that exists as long as this value, or a process or socket in it.
#[derive(Debug)]
pub struct Namespace {
    /// The namespace itself, in /proc.
    file: File,
}

impl Namespace {
    /// Makes an empty namespace.
    ///
    /// # Errors
    /// The system does not permit it.
    pub(crate) fn create() -> Result<Namespace, PathError> {
        let refused = |error| PathError::Namespace {
            action: "make",
            error,
        };
        // A thread of its own, since the namespace of a thread changes for good.
        let file = on_a_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            File::open("/proc/thread-self/ns/net")
        });
        let file = file.map_err(refused)?;
        Ok(Namespace { file })
    }

    /// Runs `work` on a thread in the namespace and waits for it. Sockets and devices made there,
    /// and processes started there, stay in the namespace.
    ///
    /// # Errors
    /// The system does not let the thread enter.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, PathError> {
        let refused = |error| PathError::Namespace {
            action: "enter",
            error,
        };
        on_a_thread(|| {
            setns(&self.file, CloneFlags::CLONE_NEWNET)?;
            Ok(work())
        })
        .map_err(refused)
    }

    /// Starts `command` in the namespace.
    ///
    /// # Errors
    /// The system does not let a thread enter, or does not start the command.
    pub fn spawn(&self, command: &mut Command) -> Result<Child, PathError> {
        let program = command.get_program().to_string_lossy().into_owned();
        self.run(|| command.spawn())?
            .map_err(|error| PathError::Spawn { program, error })
    }

    /// The path of the namespace while this process has it, for `nsenter --net=PATH COMMAND`.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        let (process, file) = (std::process::id(), self.file.as_raw_fd());
        format!("/proc/{process}/fd/{file}").into()
    }
}

/// Runs `work` on its own thread; a panic continues in this one.
fn on_a_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let worker = thread::Builder::new().spawn_scoped(scope, work)?;
        worker
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
