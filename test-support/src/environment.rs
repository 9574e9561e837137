//! Root directory of the repository, and Python environments below its `.local/`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the root directory of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// Returns the Python interpreter of the environment `.local/<name>`. If the environment does not
/// exist, `scripts/python-env.sh` creates it with these requirements. Test processes may call this
/// at the same time: the script lets one create the environment while the others wait.
///
/// # Panics
/// If the script fails, for example because no package index can be reached.
pub fn python(name: &str, requirements: &str) -> PathBuf {
    let root = repository();
    let environment = format!(".local/{name}");
    let mut script = Command::new("scripts/python-env.sh");
    // What it says goes to standard error, where a program's own output does not stand.
    let made = script.args([&environment, requirements]).current_dir(&root).output().unwrap();
    assert!(
        made.status.success(),
        "{environment} could not be made: {}",
        String::from_utf8_lossy(&made.stderr)
    );
    root.join(environment).join("bin/python")
}
