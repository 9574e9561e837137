//! Journal of `integrahub send`: records the state of each load, so that the next command continues
//! a load after the program was killed. Each state is on disk before the request that follows it.

mod entry;

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use self::entry::VERSION;
pub(crate) use self::entry::{Entry, State, Way};
use crate::directory::DirectoryVariables;
use crate::exit::{Explain as _, Failure};

/// Environment variables that may name the journal's directory.
const VARIABLES: DirectoryVariables = DirectoryVariables {
    purpose: "to remember what is sent",
    own: "INTEGRAHUB_STATE_DIR",
    xdg: "XDG_STATE_HOME",
    windows: "LOCALAPPDATA",
    home: ".local/state",
};
/// Name of the journal's file.
const FILE: &str = "sends.ndjson";
/// Size in bytes above which the journal is compacted to the last line of each load. No load is
/// ever removed, because the API keeps the idempotency keys of loads for a hundred years.
const COMPACT_FROM: u64 = 1024 * 1024;
/// Maximum size in bytes of a journal that is read.
const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// Last entry of each load, by the API's base URL and the load's identity.
type Loads = HashMap<(String, String), Entry>;

/// Journal of loads: the file that records each load's progress, so that a later `send` resumes it.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    cached: Mutex<Cached>,
}

/// Content of the journal, as this process last read it.
#[derive(Debug)]
struct Cached {
    loads: Loads,
    /// Size of the journal's file in bytes when `loads` was read. If the present size differs,
    /// another process has written to the file.
    bytes: u64,
    /// Size in bytes from which on the journal is compacted.
    compact_at: u64,
}

impl Cached {
    fn read(path: &Path) -> io::Result<Self> {
        let bytes = size(path);
        Ok(Self { loads: read(path)?, bytes, compact_at: COMPACT_FROM })
    }

    /// Replaces the journal atomically with a file that has only the last line of each load.
    fn compact(&mut self, path: &Path) -> io::Result<()> {
        let mut text = Vec::new();
        for entry in self.loads.values() {
            serde_json::to_writer(&mut text, entry)?;
            text.push(b'\n');
        }
        let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
        file.write_all(&text)?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        self.bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        self.compact_at = self.bytes.saturating_mul(2).max(COMPACT_FROM);
        Ok(())
    }
}

impl Journal {
    /// Opens the journal of this user, and creates its directory if that is missing.
    ///
    /// # Errors
    /// If no environment variable leads to a directory for it, or the file system fails.
    pub(crate) fn open() -> Result<Self, Failure> {
        Self::at(&VARIABLES.find(|name| std::env::var_os(name))?)
    }

    /// Reads the journal of this user, and creates or writes nothing.
    ///
    /// # Errors
    /// If no environment variable leads to a directory for it, or the file system fails.
    pub(crate) fn look() -> Result<Self, Failure> {
        Self::look_at(&VARIABLES.find(|name| std::env::var_os(name))?)
    }

    fn look_at(directory: &Path) -> Result<Self, Failure> {
        let path = directory.join(FILE);
        let cached = Cached::read(&path).or_explain(|| format!("read {}", path.display()))?;
        Ok(Self { path, cached: Mutex::new(cached) })
    }

    /// Opens the journal in a directory, which is created if it is missing. A large journal is
    /// compacted.
    pub(crate) fn at(directory: &Path) -> Result<Self, Failure> {
        let path = directory.join(FILE);
        let explain = || format!("open {}", path.display());
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(directory).or_explain(explain)?;
        let _lock = lock(&path).or_explain(explain)?;
        let mut cached = Cached::read(&path).or_explain(explain)?;
        if cached.bytes > COMPACT_FROM {
            cached.compact(&path).or_explain(|| format!("write {} anew", path.display()))?;
        }
        Ok(Self { path, cached: Mutex::new(cached) })
    }

    fn cached(&self) -> MutexGuard<'_, Cached> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the last journal entry of a load, whichever process added it. `api` is the base URL
    /// that the load was sent to, `identity` the load's identity.
    pub(crate) fn last(&self, api: &str, identity: &str) -> Result<Option<Entry>, Failure> {
        let mut cached = self.cached();
        let bytes = size(&self.path);
        if bytes != cached.bytes {
            cached.loads = read(&self.path).or_explain(|| format!("read {}", self.path.display()))?;
            cached.bytes = bytes;
        }
        Ok(cached.loads.get(&(api.to_owned(), identity.to_owned())).cloned())
    }

    /// Adds an entry to the journal, and returns once it is on disk.
    pub(crate) fn add(&self, entry: &Entry) -> Result<(), Failure> {
        let cached = &mut *self.cached();
        self.write(entry, cached).or_explain(|| format!("write {}", self.path.display()))
    }

    fn write(&self, entry: &Entry, cached: &mut Cached) -> io::Result<()> {
        let _lock = lock(&self.path)?;
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&self.path)?;
        // A line that a full disk cut ends here, so that this one can be read.
        if ends_within_a_line(&self.path)? {
            line.insert(0, b'\n');
        }
        let is_known = file.metadata()?.len() == cached.bytes;
        file.write_all(&line)?;
        file.sync_all()?;
        if is_known {
            cached.loads.insert((entry.api.clone(), entry.identity.clone()), entry.clone());
            cached.bytes = file.metadata()?.len();
        }
        if file.metadata()?.len() > cached.compact_at {
            drop(file);
            // Other processes have added lines.
            cached.loads = read(&self.path)?;
            cached.compact(&self.path)?;
        }
        Ok(())
    }
}

/// Locks the journal against other processes, until the returned file is dropped.
fn lock(path: &Path) -> io::Result<File> {
    let file =
        OpenOptions::new().create(true).truncate(false).write(true).open(path.with_extension("lock"))?;
    file.lock()?;
    Ok(file)
}

/// Reads the last entry of each load from the journal. Lines that are cut off or have another
/// format version are ignored. A file that does not exist has no loads.
fn read(path: &Path) -> io::Result<Loads> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HashMap::new()),
        file => file?,
    };
    if file.metadata()?.len() > MAX_BYTES {
        return Err(io::Error::other(format!("it has more than {MAX_BYTES} bytes")));
    }
    let mut last = HashMap::new();
    for line in BufReader::new(file.take(MAX_BYTES)).split(b'\n') {
        if let Ok(entry) = serde_json::from_slice::<Entry>(&line?)
            && entry.version == VERSION
        {
            last.insert((entry.api.clone(), entry.identity.clone()), entry);
        }
    }
    Ok(last)
}

/// Returns the size of a file in bytes; 0 if it does not exist.
fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |found| found.len())
}

fn ends_within_a_line(path: &Path) -> io::Result<bool> {
    use std::io::{Seek as _, SeekFrom};

    let mut file = File::open(path)?;
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut end = [0];
    file.read_exact(&mut end)?;
    Ok(end != *b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const API: &str = "https://api.example.com";

    fn entry(identity: &str, state: State) -> Entry {
        Entry::new(state, API, identity, format!("send:{identity}"), Way::Request)
    }

    fn open(directory: &tempfile::TempDir) -> Journal {
        Journal::at(&directory.path().join("state/integrahub")).unwrap()
    }

    fn last(journal: &Journal, identity: &str) -> Option<Entry> {
        journal.last(API, identity).unwrap()
    }

    #[test]
    fn a_program_that_watches_knows_what_another_one_has_sent() {
        let directory = tempfile::tempdir().unwrap();
        let [watching, other] = [open(&directory), open(&directory)];
        watching.add(&entry("a", State::Sending)).unwrap();
        other.add(&Entry { occurrence: 2, ..entry("a", State::Final) }).unwrap();
        assert_eq!(last(&watching, "a").unwrap().occurrence, 2);
        other.add(&Entry { occurrence: 3, ..entry("a", State::Final) }).unwrap();
        watching.add(&entry("b", State::Sending)).unwrap();
        assert_eq!(last(&watching, "a").unwrap().occurrence, 3, "its own line does not hide the other one");
        assert!(last(&other, "b").is_some());
    }

    #[test]
    fn a_look_reads_what_is_there_and_writes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("state/integrahub");
        let looking = Journal::look_at(&state).unwrap();
        assert_eq!(last(&looking, "a"), None);
        assert!(!directory.path().join("state").exists());
        open(&directory).add(&entry("a", State::Sending)).unwrap();
        fs::remove_file(state.join("sends.lock")).unwrap();
        let long = PathBuf::from("x".repeat(usize::try_from(COMPACT_FROM).unwrap()));
        let mut line = serde_json::to_vec(&Entry { file: long, ..entry("a", State::Final) }).unwrap();
        line.push(b'\n');
        fs::write(state.join(FILE), line.repeat(2)).unwrap();
        let before = size(&state.join(FILE));
        let looking = Journal::look_at(&state).unwrap();
        assert_eq!(last(&looking, "a").unwrap().state, State::Final);
        assert_eq!((size(&state.join(FILE)), fs::read_dir(&state).unwrap().count()), (before, 1));
    }

    #[test]
    fn another_run_knows_the_last_state_of_each_load() {
        let directory = tempfile::tempdir().unwrap();
        let journal = open(&directory);
        let first = Entry { batch_id: Some("b".to_owned()), ..entry("a", State::Sending) };
        journal.add(&first).unwrap();
        journal.add(&entry("b", State::Sending)).unwrap();
        journal.add(&first.now(State::Accepted)).unwrap();
        assert_eq!(last(&journal, "a").unwrap().state, State::Accepted);

        let again = open(&directory);
        let found = last(&again, "a").unwrap();
        assert_eq!(
            (found.state, found.batch_id.as_deref(), found.key.as_str()),
            (State::Accepted, Some("b"), "send:a")
        );
        assert_eq!(last(&again, "b").unwrap().state, State::Sending);
        assert_eq!(again.last("https://other.example.com", "a"), Ok(None));
    }

    #[test]
    fn a_line_that_was_cut_costs_no_other_line() {
        let directory = tempfile::tempdir().unwrap();
        let journal = open(&directory);
        journal.add(&entry("a", State::Sending)).unwrap();
        let mut file = OpenOptions::new().append(true).open(&journal.path).unwrap();
        file.write_all(b"{\"version\":1,\"at\"").unwrap();
        journal.add(&entry("b", State::Sending)).unwrap();
        let again = open(&directory);
        assert!(last(&again, "a").is_some() && last(&again, "b").is_some());
    }

    #[test]
    fn a_line_of_a_later_version_is_not_misread() {
        let directory = tempfile::tempdir().unwrap();
        let journal = open(&directory);
        journal.add(&Entry { version: 2, ..entry("a", State::Final) }).unwrap();
        assert_eq!(last(&open(&directory), "a"), None);
    }

    #[test]
    fn a_long_journal_is_written_anew_with_what_is_known() {
        let directory = tempfile::tempdir().unwrap();
        let journal = open(&directory);
        let old = Entry { at: "2020-01-01T00:00:00Z".parse().unwrap(), ..entry("old", State::Final) };
        journal.add(&old).unwrap();
        let long = Entry { file: "x".repeat(400_000).into(), ..entry("a", State::Sending) };
        for _ in 0..3 {
            journal.add(&long).unwrap();
        }
        assert!(fs::metadata(&journal.path).unwrap().len() < 500_000);
        let again = open(&directory);
        assert_eq!(last(&again, "a").unwrap(), long);
        assert_eq!(last(&again, "old").unwrap(), old, "the API still knows its key");
    }

    #[test]
    fn a_journal_that_is_too_long_is_refused_and_not_cut() {
        let directory = tempfile::tempdir().unwrap();
        let path = open(&directory).path;
        File::create(&path).unwrap().set_len(MAX_BYTES + 1).unwrap();
        let failure = Journal::at(path.parent().unwrap()).unwrap_err();
        assert!(failure.why.unwrap().contains("more than"));
    }

    #[cfg(unix)]
    #[test]
    fn nobody_else_reads_the_names_of_files() {
        use std::os::unix::fs::PermissionsExt as _;

        let directory = tempfile::tempdir().unwrap();
        let journal = open(&directory);
        journal.add(&entry("a", State::Sending)).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&journal.path), mode(journal.path.parent().unwrap())), (0o600, 0o700));
    }
}
