//! Request bodies: counted, and kept if there is a folder for them.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use gallop_files::WholeFile;
use percent_encoding::percent_decode_str;

use crate::server::respond::Response;

/// The folder for uploads and their limit.
#[derive(Clone, Debug)]
pub struct Uploads {
    folder: Option<PathBuf>,
    limit_bytes: u64,
}

/// An upload in progress. If it is dropped before its end, it leaves nothing behind.
#[derive(Debug)]
pub struct Upload {
    file: Option<WholeFile>,
    received_bytes: u64,
    limit_bytes: u64,
}

impl Uploads {
    /// Keeps uploads in `folder`, or nowhere.
    ///
    /// # Errors
    ///
    /// Nothing can be written to the folder.
    pub fn new(folder: Option<&Path>, limit_bytes: u64) -> io::Result<Self> {
        if let Some(folder) = folder {
            gallop_files::check_folder(folder)?;
        }
        Ok(Uploads {
            folder: folder.map(Path::to_owned),
            limit_bytes,
        })
    }

    /// Begins an upload to the path of a URL.
    ///
    /// # Errors
    ///
    /// The response that refuses it.
    pub fn begin(&self, url_path: &str) -> Result<Upload, Response> {
        let file = match &self.folder {
            None => None,
            Some(folder) => {
                let name = file_name(url_path)
                    .ok_or_else(|| Response::text(400, "the path names no file\n"))?;
                let path = folder.join(name);
                if path.symlink_metadata().is_ok() {
                    return Err(taken());
                }
                Some(WholeFile::create_new(&path).map_err(failed)?)
            }
        };
        Ok(Upload {
            file,
            received_bytes: 0,
            limit_bytes: self.limit_bytes,
        })
    }
}

/// The longest name of a file, in bytes (`NAME_MAX`).
const MAX_NAME_BYTES: usize = 255;

/// The last part of a path, if it can be a file's name that is not hidden.
fn file_name(url_path: &str) -> Option<String> {
    let path = url_path.split(['?', '#']).next()?;
    let name = percent_decode_str(path.rsplit('/').next()?)
        .decode_utf8()
        .ok()?
        .into_owned();
    let is_plain = Path::new(&name).file_name() == Some(OsStr::new(&name));
    let is_harmless = !name.starts_with('.')
        && name.len() <= MAX_NAME_BYTES
        && !name.contains(|letter: char| letter == '\\' || letter.is_control());
    (is_plain && is_harmless).then_some(name)
}

/// The answer to an upload under a name that is taken.
fn taken() -> Response {
    Response::text(409, "there is a file of that name\n")
}

fn failed(error: io::Error) -> Response {
    if error.kind() == io::ErrorKind::AlreadyExists {
        return taken();
    }
    tracing::warn!(%error, "an upload cannot be written");
    Response::text(500, "the upload cannot be written\n")
}

impl Upload {
    /// Takes more of the body.
    ///
    /// # Errors
    ///
    /// The response that ends the upload.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Response> {
        self.received_bytes += bytes.len() as u64;
        if self.received_bytes > self.limit_bytes {
            return Err(Response::text(413, "the upload is too large\n"));
        }
        match &mut self.file {
            Some(file) => file.write_all(bytes).map_err(failed),
            None => Ok(()),
        }
    }

    /// Completes the upload.
    pub fn finish(self) -> Response {
        let text = format!("{} bytes received\n", self.received_bytes);
        match self.file {
            None => Response::text(200, &text),
            Some(file) => match file.finish() {
                Ok(()) => Response::text(201, &text),
                Err(error) => failed(error),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    #[test]
    fn an_upload_appears_when_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let uploads = Uploads::new(Some(folder.path()), 10).unwrap();
        let mut upload = uploads.begin("/some/where/file.txt?x").unwrap();
        upload.write(b"hello").unwrap();
        assert!(!folder.path().join("file.txt").exists());
        assert_eq!(upload.finish().status, 201);
        assert_eq!(
            std::fs::read(folder.path().join("file.txt")).unwrap(),
            b"hello"
        );

        let mut too_large = uploads.begin("/large").unwrap();
        too_large.write(b"0123456789").unwrap();
        assert_eq!(too_large.write(b"x").unwrap_err().status, 413);
        drop(too_large);
        assert_eq!(names(folder.path()), ["file.txt"]);
    }

    #[test]
    fn names_stay_in_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let uploads = Uploads::new(Some(folder.path()), 10).unwrap();
        for path in [
            "/",
            "/..",
            "/a/..",
            "/%2e%2e",
            "/..%2fa",
            "/a%2fb",
            "/.profile",
            "/a%00",
            "/a%0ab",
            "/a%1b[2J",
            "/a%c2%9b",
            &format!("/{}", "n".repeat(256)),
            "/%ff",
        ] {
            let status = uploads.begin(path).map(|_| ()).unwrap_err().status;
            assert_eq!(status, 400, "{path}");
        }
        assert_eq!(names(folder.path()), [""; 0]);
    }

    #[test]
    fn no_upload_takes_the_place_of_another_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let uploads = Uploads::new(Some(folder.path()), 10).unwrap();
        std::fs::write(path("there"), "first").unwrap();
        std::os::unix::fs::symlink("nowhere", path("link")).unwrap();
        for name in ["/there", "/link"] {
            let refusal = uploads.begin(name).map(drop).unwrap_err();
            assert_eq!(refusal.status, 409, "{name}");
        }
        // Nor if they come at the same time.
        let mut first = uploads.begin("/same").unwrap();
        let second = uploads.begin("/same").unwrap();
        first.write(b"first").unwrap();
        assert_eq!(first.finish().status, 201);
        assert_eq!(second.finish().status, 409);
        assert_eq!(std::fs::read(path("same")).unwrap(), b"first");
        assert_eq!(std::fs::read(path("there")).unwrap(), b"first");
    }

    #[test]
    fn without_a_folder_bytes_are_counted() {
        let mut upload = Uploads::new(None, 10).unwrap().begin("/").unwrap();
        upload.write(b"hello").unwrap();
        assert_eq!(upload.finish().status, 200);
    }
}
