//! Notes of the parts of the contract that responses had, in a file of the stack.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Mutex;

/// Parts of the contract that this process has noted already.
static NOTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Notes the parts of a response that this process has not noted yet.
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

/// Path of the file of notes beside the stack's logs.
fn notes() -> Option<PathBuf> {
    Some(crate::leaks::logs()?.join("responses-seen"))
}

/// Returns the notes on responses since the stack was started.
///
/// # Panics
/// If there are no notes.
#[must_use]
pub fn seen() -> BTreeSet<String> {
    let notes = notes().unwrap_or_else(|| panic!("tests run by `make test`"));
    std::fs::read_to_string(notes).unwrap().lines().map(str::to_owned).collect()
}
