//! Files that are written whole, or not at all.

mod document;

pub use document::Document;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// The mode of files that only their owner can read.
const PRIVATE: u32 = 0o600;

/// A file that is being written: it has a temporary name in the same folder until
/// [`finish`](Self::finish) gives it its own. If it is dropped before that, nothing is left.
///
/// A pipe, a terminal or a device such as `/dev/null` is written to directly: a file in its place
/// would remove it from the system.
#[derive(Debug)]
pub struct WholeFile(Place);

#[derive(Debug)]
enum Place {
    Temporary(NamedTempFile, PathBuf),
    /// The same for a file that must not take the place of another.
    New(NamedTempFile, PathBuf),
    /// A file without a name, which is gone when the program is.
    #[cfg(target_os = "linux")]
    Nameless(File, PathBuf),
    Device(File),
}

impl WholeFile {
    /// Begins the file of that name; a link is followed.
    ///
    /// # Errors
    ///
    /// The folder does not exist or cannot be written to, or the name is that of a folder.
    pub fn create(path: &Path) -> io::Result<WholeFile> {
        // As other programs make files: the umask decides who else may read them.
        WholeFile::with_mode(path, 0o666)
    }

    /// Begins a file that only its owner can read, and that takes the place of no other: for names
    /// that somebody else chose. On Linux nothing of it is left even if the program is killed, where
    /// the file system has files without names.
    ///
    /// # Errors
    ///
    /// The folder does not exist or cannot be written to.
    pub fn create_new(path: &Path) -> io::Result<WholeFile> {
        let path = path.to_owned();
        #[cfg(target_os = "linux")]
        if let Ok(file) = nameless(folder(&path)) {
            return Ok(WholeFile(Place::Nameless(file, path)));
        }
        named(&path, PRIVATE).map(|file| WholeFile(Place::New(file, path)))
    }

    fn with_mode(path: &Path, mode: u32) -> io::Result<WholeFile> {
        let place = match fs::metadata(path) {
            Ok(there) if there.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(there) if !there.is_file() => {
                Place::Device(OpenOptions::new().write(true).open(path)?)
            }
            Ok(_) => temporary(fs::canonicalize(path)?, mode)?,
            Err(_) => temporary(path.to_owned(), mode)?,
        };
        Ok(WholeFile(place))
    }

    /// Gives the file its name, in place of an earlier file.
    ///
    /// # Errors
    ///
    /// Those of the file system; then the earlier file is still there. `AlreadyExists` if there is
    /// a file that a [new](Self::create_new) one must not replace.
    pub fn finish(self) -> io::Result<()> {
        match self.0 {
            Place::New(file, path) => file
                .persist_noclobber(path)
                .map(drop)
                .map_err(|lost| lost.error),
            #[cfg(target_os = "linux")]
            Place::Nameless(file, path) => link(&file, &path),
            Place::Temporary(file, path) => file.persist(path).map(drop).map_err(|lost| lost.error),
            Place::Device(_) => Ok(()),
        }
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Place::Temporary(file, _) | Place::New(file, _) => file.write(bytes),
            #[cfg(target_os = "linux")]
            Place::Nameless(file, _) => file.write(bytes),
            Place::Device(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Place::Temporary(file, _) | Place::New(file, _) => file.flush(),
            #[cfg(target_os = "linux")]
            Place::Nameless(file, _) => file.flush(),
            Place::Device(file) => file.flush(),
        }
    }
}

/// Writes a file whole, or not at all.
///
/// # Errors
///
/// As those of [`WholeFile`]; then the earlier file is still there.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fill(WholeFile::create(path)?, bytes)
}

/// Writes a file that only its owner can read, whole or not at all.
///
/// # Errors
///
/// As those of [`WholeFile`]; then the earlier file is still there.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fill(WholeFile::with_mode(path, PRIVATE)?, bytes)
}

/// Checks before long work that its result can be [written](write()) there.
///
/// # Errors
///
/// The reason why not, without the file's name.
pub fn check(path: &Path) -> io::Result<()> {
    let refused = |kind, why: String| Err(io::Error::new(kind, why));
    if path.is_dir() {
        let why = "that is a folder, give a file".to_owned();
        return refused(io::ErrorKind::IsADirectory, why);
    }
    let folder = folder(path);
    if !folder.is_dir() {
        let why = format!("there is no folder {}", folder.display());
        return refused(io::ErrorKind::NotFound, why);
    }
    match WholeFile::create(path) {
        Ok(_) => Ok(()),
        Err(error) => refused(error.kind(), format!("cannot write there: {error}")),
    }
}

/// Checks that files can be made in a folder.
///
/// # Errors
///
/// Those of the file system.
pub fn check_folder(folder: &Path) -> io::Result<()> {
    NamedTempFile::new_in(folder).map(drop)
}

fn fill(mut file: WholeFile, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)?;
    file.finish()
}

fn temporary(path: PathBuf, mode: u32) -> io::Result<Place> {
    Ok(Place::Temporary(named(&path, mode)?, path))
}

/// A file with a temporary name beside `path`.
fn named(path: &Path, mode: u32) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(mode));
    builder.tempfile_in(folder(path))
}

/// A file without a name (open(2), `O_TMPFILE`).
#[cfg(target_os = "linux")]
fn nameless(folder: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;

    OpenOptions::new()
        .write(true)
        .mode(PRIVATE)
        .custom_flags(nix::fcntl::OFlag::O_TMPFILE.bits())
        .open(folder)
}

/// Gives a file without a name its name, if no other has it.
#[cfg(target_os = "linux")]
fn link(file: &File, path: &Path) -> io::Result<()> {
    use std::os::fd::AsRawFd;

    use nix::fcntl::{AT_FDCWD, AtFlags};

    let nameless = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = AtFlags::AT_SYMLINK_FOLLOW;
    nix::unistd::linkat(AT_FDCWD, nameless.as_str(), AT_FDCWD, path, flags)?;
    Ok(())
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_for_a_file_is_known_before() {
        let folder = tempfile::tempdir().unwrap();
        let why = |name: &str| check(&folder.path().join(name)).map_err(|error| error.to_string());
        assert_eq!(why("file"), Ok(()));
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        assert_eq!(why(""), Err("that is a folder, give a file".to_owned()));
        let missing = folder.path().join("missing");
        let expected = format!("there is no folder {}", missing.display());
        assert_eq!(why("missing/file"), Err(expected));
        assert_eq!(
            check(Path::new("file without a folder")).err().map(|_| ()),
            None
        );
    }

    #[test]
    fn a_file_appears_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write(&path, b"before").unwrap();
        let mut file = WholeFile::create(&path).unwrap();
        file.write_all(b"after").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"before");
        file.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"after");

        drop(WholeFile::create(&path).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_cannot_be_written_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(WholeFile::create(folder.path()).is_err());
        assert!(WholeFile::create(&folder.path().join("none/file")).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_device_stays_and_a_link_is_followed() {
        use std::os::unix::fs::{FileTypeExt, symlink};

        let folder = tempfile::tempdir().unwrap();
        // Through a link, so that a mistake costs the link.
        let null = folder.path().join("null");
        symlink("/dev/null", &null).unwrap();
        write(&null, b"nothing").unwrap();
        assert!(fs::metadata(&null).unwrap().file_type().is_char_device());

        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        write(&file, b"before").unwrap();
        symlink(&file, &link).unwrap();
        write(&link, b"after").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"after");
    }

    #[test]
    fn a_new_file_takes_the_place_of_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let by_name = |path: &Path| {
            let file = named(path, PRIVATE).unwrap();
            WholeFile(Place::New(file, path.to_owned()))
        };
        for begin in [by_name, |path: &Path| WholeFile::create_new(path).unwrap()] {
            let (mut first, mut second) = (begin(&path), begin(&path));
            first.write_all(b"first").unwrap();
            second.write_all(b"second").unwrap();
            assert!(!path.exists());
            first.finish().unwrap();
            let refused = second.finish().unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(fs::read(&path).unwrap(), b"first");
            assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
            fs::remove_file(&path).unwrap();
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_new_file_has_no_name_before_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = WholeFile::create_new(&folder.path().join("file")).unwrap();
        file.write_all(b"begun").unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_for_files_is_known_before() {
        let folder = tempfile::tempdir().unwrap();
        assert!(check_folder(folder.path()).is_ok());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        assert!(check_folder(&folder.path().join("missing")).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn who_may_read_it_is_up_to_the_umask_or_only_the_owner() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let mode = |name: &str| fs::metadata(path(name)).unwrap().permissions().mode() & 0o777;
        fs::write(path("plain"), "").unwrap();
        write(&path("whole"), b"").unwrap();
        write_private(&path("private"), b"").unwrap();
        WholeFile::create_new(&path("new"))
            .unwrap()
            .finish()
            .unwrap();
        assert_eq!(mode("whole"), mode("plain"));
        assert_eq!(mode("private") & 0o077, 0);
        assert_eq!(mode("new") & 0o077, 0);
    }
}
