//! File of notes: parts of the contract that responses had since the stack was started.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Mutex;

/// Parts of the contract that this process has already written to the file of notes.
static NOTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Appends to the file of notes those parts of a response that this process has not written yet.
pub(super) fn note(seen: BTreeSet<String>) {
    let Some(path) = notes() else { return };
    let mut noted = NOTED.lock().unwrap();
    let lines: String =
        seen.into_iter().filter(|line| noted.insert(line.clone())).map(|line| line + "\n").collect();
    if !lines.is_empty() {
        let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        // In one write, so that no other test's lines come in between.
        file.write_all(lines.as_bytes()).unwrap();
    }
}

/// Returns the path of the file of notes, in the directory of the stack's logs. Returns `None` if
/// `make test` has not started the stack.
fn notes() -> Option<PathBuf> {
    Some(crate::leaks::logs()?.join("responses-seen"))
}

/// Returns all parts of the contract that responses had since the stack was started.
///
/// # Panics
/// If there is no file of notes.
#[must_use]
pub fn seen() -> BTreeSet<String> {
    let notes = notes().unwrap_or_else(|| panic!("tests run by `make test`"));
    std::fs::read_to_string(notes).unwrap().lines().map(str::to_owned).collect()
}
