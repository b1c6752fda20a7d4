//! Running a target.

use std::fmt::Debug;
use std::panic::RefUnwindSafe;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bolero::TypeGenerator;
use bolero::generator::bolero_generator::driver::{ByteSliceDriver, Options};

use crate::corpus;

/// The longest that random inputs are tried.
const RANDOM_TIME: Duration = Duration::from_secs(10);

/// Runs a test on the kept inputs of a target, and then on random ones: at most `iterations`, for
/// at most 10 s. Under libFuzzer, libFuzzer chooses the inputs.
///
/// # Panics
///
/// If the test panics, after printing the line or the seed of the input; or if the kept inputs
/// cannot be read.
pub fn check<T: Debug + TypeGenerator>(
    target: &str,
    iterations: usize,
    mut test: impl FnMut(&T) + RefUnwindSafe,
) {
    for path in files(target) {
        for (line, input) in corpus::read(&path).unwrap_or_else(|error| panic!("{error}")) {
            let culprit = Culprit { path: &path, line };
            let driver = &mut ByteSliceDriver::new(&input, &Options::default());
            if let Some(value) = T::generate(driver) {
                test(&value);
            }
            drop(culprit);
        }
    }
    bolero::check!()
        .with_type::<T>()
        .with_iterations(iterations)
        .with_test_time(RANDOM_TIME)
        .for_each(test);
}

/// The files of kept inputs, and of those that once failed, if there are any.
fn files(target: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let failed = folder.join(format!("{target}.failed"));
    let mut files = vec![folder.join(format!("{target}.corpus"))];
    files.extend(failed.exists().then_some(failed));
    files
}

/// Names an input if the thread panics in its time.
struct Culprit<'a> {
    path: &'a Path,
    line: usize,
}

impl Drop for Culprit<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the input is {}:{}", self.path.display(), self.line);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn kept_inputs_of_all_targets_can_be_read() {
        let entries = fs::read_dir(env!("CARGO_MANIFEST_DIR")).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let packed: Vec<PathBuf> = paths
            .filter(|path| {
                path.extension()
                    .is_some_and(|extension| extension == "corpus")
            })
            .collect();
        assert!(!packed.is_empty());
        for path in packed {
            assert!(
                !corpus::read(&path).unwrap().is_empty(),
                "{}",
                path.display()
            );
        }
    }

    #[test]
    fn every_kept_input_is_tried() {
        let kept = corpus::read(&files("option_text")[0]).unwrap().len();
        let tried = AtomicUsize::new(0);
        check("option_text", 0, |_: &u8| {
            tried.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(tried.into_inner(), kept);
    }
}
