//! One request and its response.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use gallop_files::WholeFile;
use serde::Serialize;
use url::Url;

use crate::body::Body;

/// The task for one URL.
#[derive(Clone, Debug)]
pub struct Job {
    /// The URL.
    pub url: Url,
    /// The destination of the response's body.
    pub target: Target,
    /// The request's method.
    pub method: &'static str,
    /// Header fields besides the usual ones.
    pub fields: Vec<(String, String)>,
    /// The file to send, if any.
    pub upload: Option<PathBuf>,
}

/// The destination of a response's body.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// Nowhere.
    Discard,
    /// Standard output.
    Output,
    /// A file, which appears when it is complete.
    File(PathBuf),
}

/// A body on its way to its target.
enum Sink {
    Discard,
    Output,
    File(Box<WholeFile>, PathBuf),
}

/// A transfer in progress.
pub(super) struct Transfer {
    pub(super) job: Job,
    /// The bytes that are still to be sent: the upload, or the end of a raw request.
    pub(super) body: Body,
    pub(super) status: Option<u16>,
    /// The length of the response's content, if its header section says so.
    pub(super) promised_bytes: Option<u64>,
    pub(super) has_trailers: bool,
    sink: Sink,
    begun: Instant,
    first_byte: Option<Instant>,
    received_bytes: u64,
    upload_bytes: u64,
}

/// The result of a transfer.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The URL.
    pub url: String,
    /// The status of the response; none with hq-interop.
    pub status: Option<u16>,
    /// Bytes of the response's body.
    pub received_bytes: u64,
    /// Bytes of the request's body.
    pub uploaded_bytes: u64,
    /// From the request to the response's first byte.
    pub first_byte_s: Option<f64>,
    /// From the request to the response's end.
    pub duration_s: f64,
    /// The reason why it failed, if it did.
    pub error: Option<String>,
    /// True if a local file is the cause.
    #[serde(skip)]
    pub is_local: bool,
}

impl Job {
    /// The path and query of the request.
    pub fn path(&self) -> String {
        match self.url.query() {
            Some(query) => format!("{}?{query}", self.url.path()),
            None => self.url.path().to_owned(),
        }
    }

    /// The outcome of a job that came to nothing.
    pub(super) fn failed(&self, error: String, is_local: bool) -> Outcome {
        Outcome {
            url: self.url.to_string(),
            status: None,
            received_bytes: 0,
            uploaded_bytes: 0,
            first_byte_s: None,
            duration_s: 0.0,
            error: Some(error),
            is_local,
        }
    }
}

fn named(path: &Path) -> impl FnOnce(io::Error) -> String {
    move |error| format!("{}: {error}", path.display())
}

impl Transfer {
    /// Opens what is needed.
    ///
    /// The error names the file.
    pub(super) fn begin(job: Job, now: Instant) -> Result<Self, Box<(Job, String)>> {
        let open = || -> Result<(Body, Sink), String> {
            let body = match &job.upload {
                None => Body::empty(),
                Some(path) => {
                    let file = File::open(path).map_err(named(path))?;
                    let length = file.metadata().map_err(named(path))?.len();
                    Body::reader(Box::new(file), length)
                }
            };
            let sink = match &job.target {
                Target::Discard => Sink::Discard,
                Target::Output => Sink::Output,
                Target::File(path) => {
                    let file = WholeFile::create(path).map_err(named(path))?;
                    Sink::File(Box::new(file), path.clone())
                }
            };
            Ok((body, sink))
        };
        match open() {
            Err(error) => Err(Box::new((job, error))),
            Ok((body, sink)) => Ok(Transfer {
                upload_bytes: body.left_bytes(),
                job,
                body,
                status: None,
                promised_bytes: None,
                has_trailers: false,
                sink,
                begun: now,
                first_byte: None,
                received_bytes: 0,
            }),
        }
    }

    /// True if the final header section has come, or the protocol has none.
    pub(super) fn has_head(&self) -> bool {
        self.status.is_some_and(|status| status >= 200)
    }

    /// True if the request has a field of one of these names.
    fn asks(&self, names: &[&str]) -> bool {
        let mut fields = self.job.fields.iter();
        fields.any(|(name, _)| names.contains(&name.as_str()))
    }

    /// True unless the body is known to be other than what was asked for, such as the text of an
    /// error or a part that nobody wanted.
    fn is_wanted(&self) -> bool {
        match self.status {
            None => true,
            Some(206) => self.asks(&["range"]),
            Some(status) => (200..300).contains(&status),
        }
    }

    /// The error of a status, if it is one.
    fn status_error(&self) -> Option<String> {
        let status = self.status?;
        let is_unchanged = status == 304 && self.asks(&["if-none-match", "if-modified-since"]);
        match status {
            _ if is_unchanged || self.is_wanted() => None,
            206 => Some("status 206, but no part was asked for".to_owned()),
            _ => Some(format!("status {status}")),
        }
    }

    /// The error of a response that ends before its length.
    pub(super) fn shortage(&self) -> Option<String> {
        let promised = self.promised_bytes?;
        (self.received_bytes < promised)
            .then(|| format!("{} of {promised} bytes came", self.received_bytes))
    }

    /// True if so many more bytes are beyond the response's length.
    pub(super) fn is_excess(&self, bytes: usize) -> bool {
        self.promised_bytes
            .is_some_and(|promised| self.received_bytes + bytes as u64 > promised)
    }

    /// More of the response's body.
    pub(super) fn receive(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.first_byte.get_or_insert_with(Instant::now);
        self.received_bytes += bytes.len() as u64;
        if !self.is_wanted() {
            return Ok(());
        }
        match &mut self.sink {
            Sink::Discard => Ok(()),
            Sink::Output => io::stdout()
                .write_all(bytes)
                .map_err(|error| format!("standard output: {error}")),
            Sink::File(file, path) => file.write_all(bytes).map_err(named(path)),
        }
    }

    /// Ends the transfer, with an error if it is not complete.
    pub(super) fn end(self, error: Option<String>, is_local: bool) -> Outcome {
        let status_error = self.status_error();
        let is_wanted = self.is_wanted();
        let since = |time: Instant| time.saturating_duration_since(self.begun).as_secs_f64();
        let mut outcome = Outcome {
            url: self.job.url.to_string(),
            status: self.status,
            received_bytes: self.received_bytes,
            // The rest may be of a raw request, which is not an upload.
            uploaded_bytes: self.upload_bytes.saturating_sub(self.body.left_bytes()),
            first_byte_s: self.first_byte.map(since),
            duration_s: since(Instant::now()),
            error,
            is_local,
        };
        outcome.error = outcome.error.or(status_error);
        if outcome.error.is_none()
            && is_wanted
            && let Sink::File(file, path) = self.sink
            && let Err(error) = file.finish()
        {
            outcome.error = Some(named(&path)(error));
            outcome.is_local = true;
        }
        outcome
    }
}
