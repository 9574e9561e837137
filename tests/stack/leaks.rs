//! Secrets that tests make, and the logs, which may have none of them.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Notes a secret that a test made, so that the logs are searched for it after all tests.
pub(crate) fn note(secret: &str) {
    let Some(logs) = logs() else { return };
    let mut file = OpenOptions::new().create(true).append(true).open(logs.join(NOTES)).unwrap();
    // In one write, so that no other test's lines come in between.
    file.write_all(format!("{secret}\n").as_bytes()).unwrap();
}

const NOTES: &str = "secrets-of-tests";

/// The directory of the stack's logs, which each run empties; `None` for a stack that was started
/// by hand.
pub fn logs() -> Option<PathBuf> {
    let stack = PathBuf::from(std::env::var_os("INTEGRAHUB_STACK_ENV")?);
    Some(stack.parent().unwrap_or(Path::new(".")).join("logs"))
}

/// Returns the secrets that were noted since the stack was started.
///
/// # Panics
/// If there are none.
pub fn noted() -> BTreeSet<String> {
    let logs = logs().unwrap_or_else(|| panic!("tests run by `make test`"));
    std::fs::read_to_string(logs.join(NOTES)).unwrap().lines().map(str::to_owned).collect()
}
