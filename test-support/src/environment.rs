//! Environments of other languages' programs, which scripts of this repository make below
//! `.local/`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the repository.
///
/// # Panics
/// If the directory that this was built in is gone.
#[must_use]
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// Lets a script, as `scripts/python-env.sh`, make the environment `.local/<name>` from `source`,
/// unless it is there, and returns its directory. Tests are processes of their own that may ask for
/// it at once: the script lets one make it while the others wait.
///
/// # Panics
/// If the script fails, for example because no package index can be reached.
#[must_use]
pub fn environment(script: &str, name: &str, source: &str) -> PathBuf {
    let root = repository();
    let environment = format!(".local/{name}");
    // What it says goes to standard error, where a program's own output does not stand.
    let made = Command::new(script).args([&environment, source]).current_dir(&root).output().unwrap();
    assert!(
        made.status.success(),
        "{environment} could not be made: {}",
        String::from_utf8_lossy(&made.stderr)
    );
    root.join(environment)
}
