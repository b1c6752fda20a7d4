//! The files that are served: only those below one folder, wherever links and dots point.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File};
use percent_encoding::percent_decode_str;

/// The file that is served for a path that ends in a slash.
const INDEX: &str = "index.html";

/// A folder from which files are served. The system itself keeps paths and symbolic links inside.
#[derive(Debug)]
pub struct Files(Dir);

/// A file to serve.
#[derive(Debug)]
pub struct Resource {
    file: File,
    /// Its length in bytes.
    pub length_bytes: u64,
    /// The time of its last change, if the file system knows it.
    pub modified: Option<SystemTime>,
    /// Its media type.
    pub content_type: String,
}

/// The target of a path.
#[derive(Debug)]
pub enum Found {
    /// A file.
    File(Resource),
    /// A folder whose path lacks the slash at its end.
    Folder,
    /// Nothing that is served.
    Nothing,
    /// Unknown for now: too many files are open.
    Unavailable,
}

/// `EMFILE` and `ENFILE`, which are the same on all systems with POSIX' names for them.
const TOO_MANY_OPEN: [i32; 2] = [24, 23];

impl Files {
    /// Serves what is below `root`.
    ///
    /// # Errors
    ///
    /// It is not a folder, or cannot be read.
    pub fn new(root: &Path) -> io::Result<Self> {
        let dir = Dir::open_ambient_dir(root, ambient_authority())?;
        dir.entries()?;
        Ok(Files(dir))
    }

    /// The target of a URL's path; a query is ignored.
    pub fn find(&self, url_path: &str) -> Found {
        let Some(path) = relative(url_path) else {
            return Found::Nothing;
        };
        match self.open(&path) {
            Ok(found) => found,
            Err(error)
                if error
                    .raw_os_error()
                    .is_some_and(|code| TOO_MANY_OPEN.contains(&code)) =>
            {
                tracing::warn!(path = %path.display(), %error, "cannot be opened");
                Found::Unavailable
            }
            Err(error) => {
                tracing::debug!(path = %path.display(), %error, "not served");
                Found::Nothing
            }
        }
    }

    fn open(&self, path: &Path) -> io::Result<Found> {
        // Opening a named pipe would wait for a writer.
        let metadata = self.0.metadata(path)?;
        if metadata.is_dir() {
            return Ok(Found::Folder);
        }
        if !metadata.is_file() {
            return Ok(Found::Nothing);
        }
        let file = self.0.open(path)?;
        let metadata = file.metadata()?;
        Ok(Found::File(Resource {
            file,
            length_bytes: metadata.len(),
            modified: metadata.modified().ok().map(|time| time.into_std()),
            content_type: content_type(path),
        }))
    }
}

/// The path below the root that a URL's path names.
fn relative(url_path: &str) -> Option<PathBuf> {
    let path = url_path.split(['?', '#']).next()?.strip_prefix('/')?;
    let path = percent_decode_str(path).decode_utf8().ok()?;
    // Names that begin with a dot are hidden, but for those that are for the public (RFC 8615).
    let is_hidden =
        |name: &str| name.starts_with('.') && !matches!(name, "." | ".." | ".well-known");
    if path.contains('\0') || path.split('/').any(is_hidden) {
        return None;
    }
    let path = match path.as_ref() {
        "" => INDEX.to_owned(),
        folder if folder.ends_with('/') => format!("{folder}{INDEX}"),
        path => path.to_owned(),
    };
    Some(PathBuf::from(path))
}

fn content_type(path: &Path) -> String {
    let mime = mime_guess::from_path(path).first_or_octet_stream();
    if mime.type_() == mime_guess::mime::TEXT {
        return format!("{mime}; charset=utf-8");
    }
    mime.to_string()
}

impl Resource {
    /// Changes when the file does (RFC 9110 §8.8.3).
    pub fn entity_tag(&self) -> String {
        let changed = self
            .modified
            .and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok())
            .map_or(0, |since| since.as_nanos());
        format!("\"{changed:x}-{:x}\"", self.length_bytes)
    }

    /// The bytes from `start` on, to be read.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn into_reader(mut self, start: u64, length_bytes: u64) -> io::Result<impl Read> {
        if start > 0 {
            self.file.seek(SeekFrom::Start(start))?;
        }
        Ok(self.file.take(length_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(files: &Files, path: &str) -> bool {
        matches!(files.find(path), Found::File(_))
    }

    #[test]
    fn nothing_outside_the_folder_is_served() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        std::fs::create_dir_all(root.join("below")).unwrap();
        std::fs::write(folder.path().join("secret"), "secret").unwrap();
        std::fs::write(root.join("file"), "file").unwrap();
        std::fs::write(root.join("below/index.html"), "index").unwrap();
        std::os::unix::fs::symlink("../secret", root.join("out")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", root.join("absolute")).unwrap();
        std::os::unix::fs::symlink("../..", root.join("below/up")).unwrap();
        std::os::unix::fs::symlink("file", root.join("in")).unwrap();
        let files = Files::new(&root).unwrap();
        for inside in [
            "/file",
            "/in",
            "/below/",
            "/below/../file",
            "/%66ile",
            "/file?a=/..",
        ] {
            assert!(served(&files, inside), "{inside}");
        }
        for outside in [
            "/../secret",
            "/%2e%2e/secret",
            "/..%2fsecret",
            "/below/../../secret",
            "/out",
            "/absolute",
            "/below/up/secret",
            "//etc/passwd",
            "/%2fetc/passwd",
            "/file%00.html",
            "/%ff",
            "secret",
            "",
            "/",
        ] {
            assert!(!served(&files, outside), "{outside}");
        }
        assert!(matches!(files.find("/below"), Found::Folder));
    }

    #[test]
    fn hidden_files_are_not_served() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for name in [".git", ".well-known"] {
            std::fs::create_dir(root.join(name)).unwrap();
            std::fs::write(root.join(name).join("file"), "file").unwrap();
        }
        std::fs::write(root.join(".env"), "secret").unwrap();
        let files = Files::new(root).unwrap();
        assert!(served(&files, "/.well-known/file"));
        assert!(served(&files, "/./.well-known/../.well-known/file"));
        for hidden in ["/.env", "/%2eenv", "/.git/file", "/.git/../.env", "/.git"] {
            assert!(matches!(files.find(hidden), Found::Nothing), "{hidden}");
        }
    }

    #[test]
    fn media_types() {
        assert_eq!(
            content_type(Path::new("a.html")),
            "text/html; charset=utf-8"
        );
        assert_eq!(content_type(Path::new("a.mp4")), "video/mp4");
        assert_eq!(content_type(Path::new("a")), "application/octet-stream");
    }

    #[test]
    fn a_file_is_no_root() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(Files::new(file.path()).is_err());
    }
}
