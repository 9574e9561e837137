//! Secrets that tests make, and the logs of the stack, which must not contain them.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Notes a secret that a test made. After all tests the logs are searched for it.
pub(crate) fn note(secret: &str) {
    let Some(logs) = logs() else { return };
    let mut file = OpenOptions::new().create(true).append(true).open(logs.join(NOTES)).unwrap();
    // In one write, so that no other test's lines come in between.
    file.write_all(format!("{secret}\n").as_bytes()).unwrap();
}

const NOTES: &str = "secrets-of-tests";

/// Returns the directory of the stack's logs, which is emptied when `make test` starts a stack.
/// Returns `None` if the stack was started otherwise.
pub fn logs() -> Option<PathBuf> {
    let stack = PathBuf::from(std::env::var_os("INTEGRAHUB_STACK_ENV")?);
    Some(stack.parent().unwrap_or(Path::new(".")).join("logs"))
}

/// Returns the secrets that tests noted since the stack was started.
///
/// # Panics
/// If no secret was noted.
pub fn noted() -> BTreeSet<String> {
    let logs = logs().unwrap_or_else(|| panic!("tests run by `make test`"));
    std::fs::read_to_string(logs.join(NOTES)).unwrap().lines().map(str::to_owned).collect()
}
