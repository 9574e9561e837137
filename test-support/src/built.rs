//! Files that `cargo` built beside the running program. Programs lie in the profile's directory,
//! tests in its `deps/`; a shared library lies in `deps/`, and also above it if it was built for
//! itself (`--lib`).

use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// File name of the shared library that stands in for IBM MQ's client library.
pub const MQ_LIBRARY: &str = "libmqm_r.so";
/// File name of the program that stands in for a queue manager of IBM MQ.
pub const MQ_MANAGER: &str = "mqm-standin";

/// Finds the newest file of this name that `cargo` built, in the profile's directory or its
/// `deps/`.
///
/// # Errors
/// If the file was not built. The message says what to run.
pub fn find(file: &str) -> std::io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let directories = program.ancestors().skip(1).take(2);
    let places = directories.flat_map(|directory| [directory.join(file), directory.join("deps").join(file)]);
    let built = places.filter_map(|path| Some((modified(&path)?, path)));
    built.max().map(|(_, path)| path).ok_or_else(|| {
        let message = format!("{file} is missing: run `cargo build --workspace --bins --tests`");
        std::io::Error::new(std::io::ErrorKind::NotFound, message)
    })
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().ok().filter(std::fs::Metadata::is_file)?.modified().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_test_is_found_and_what_was_not_built_is_named() {
        let test = std::env::current_exe().unwrap();
        let name = test.file_name().unwrap().to_str().unwrap();
        assert_eq!(find(name).unwrap(), test);
        let error = find("none.so").unwrap_err();
        assert!(error.to_string().contains("none.so is missing"), "{error}");
    }
}
