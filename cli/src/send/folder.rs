//! Directory that `send --watch` watches, and the search for files in it that are complete.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use wildmatch::WildMatch;

use super::load::FileStamp;
use crate::exit::{Exit, Explain as _, Failure};

/// Name patterns of catalogue files that are sent by default, in lower case.
const PATTERNS: [&str; 6] = ["*.json", "*.ndjson", "*.jsonl", "*.json.gz", "*.ndjson.gz", "*.jsonl.gz"];
/// Name endings of files that another program is still writing, in lower case.
const UNFINISHED: [&str; 9] =
    [".tmp", ".temp", ".part", ".partial", ".filepart", ".crdownload", ".inprogress", ".swp", "~"];
/// Name of the lock file that keeps a second `send --watch` from the directory.
const LOCK: &str = ".integrahub.lock";

/// Directory that `send --watch` watches, with the files that its last scan found.
#[derive(Debug)]
pub(crate) struct Folder {
    directory: PathBuf,
    patterns: Vec<WildMatch>,
    seen: HashMap<PathBuf, FileStamp>,
    /// Paths of files that cannot be sent and that the user was told about, so that each is
    /// reported only once.
    told: HashSet<PathBuf>,
    _lock: File,
}

impl Folder {
    /// Opens a directory, and locks it against other processes of this program. `patterns` are file
    /// name patterns; if empty, the names of JSON files match.
    ///
    /// # Errors
    /// If the directory does not exist or cannot be written to, or another process watches it.
    pub(crate) fn open(directory: &Path, patterns: &[String]) -> Result<Self, Failure> {
        let name = directory.display();
        let path = directory.join(LOCK);
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let lock = lock.or_explain(|| format!("use the directory {name}"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Failure::new(Exit::Temporary, format!("another integrahub watches {name}"))
                    .why(format!("it holds {}", path.display()))
                    .next("let that one do it, or stop it first"));
            }
            Err(TryLockError::Error(error)) => {
                Err(error).or_explain(|| format!("lock {}", path.display()))?;
            }
        }
        let patterns: Vec<String> = match patterns {
            [] => PATTERNS.map(str::to_owned).into(),
            given => given.iter().map(|pattern| pattern.to_lowercase()).collect(),
        };
        let patterns = patterns.iter().map(|pattern| WildMatch::new(pattern)).collect();
        Ok(Self {
            directory: directory.to_owned(),
            patterns,
            seen: HashMap::new(),
            told: HashSet::new(),
            _lock: lock,
        })
    }

    /// Scans the directory. Returns the files that have not changed since the last scan, oldest
    /// change first, without those in `busy`. Each file that cannot be sent is reported once, by a
    /// call of `tell` with a sentence.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub(crate) fn look(
        &mut self,
        busy: &HashSet<PathBuf>,
        mut tell: impl FnMut(&str),
    ) -> Result<Vec<PathBuf>, Failure> {
        let explain = || format!("read the directory {}", self.directory.display());
        let mut found = HashMap::new();
        for entry in fs::read_dir(&self.directory).or_explain(explain)? {
            let path = entry.or_explain(explain)?.path();
            // What vanishes meanwhile is not there.
            if !busy.contains(&path)
                && self.is_catalogue(&path)
                && let Ok(metadata) = fs::metadata(&path)
                && metadata.is_file()
            {
                found.insert(path, FileStamp::of(&metadata));
            }
        }
        let mut same: Vec<_> =
            found.iter().filter(|(path, stamp)| self.seen.get(*path) == Some(*stamp)).collect();
        same.sort_by_key(|(path, stamp)| (stamp.modified, *path));
        self.told.retain(|path| found.contains_key(path));
        let mut ready = Vec::new();
        for (path, stamp) in same {
            match obstacle(&self.directory, path, stamp) {
                None => ready.push(path.clone()),
                Some(obstacle) if self.told.insert(path.clone()) => {
                    tell(&format!("{} stays where it is: {obstacle}", path.display()));
                }
                Some(_) => {}
            }
        }
        self.seen = found;
        Ok(ready)
    }

    fn is_catalogue(&self, path: &Path) -> bool {
        let Some(name) = path.file_name().map(|name| name.to_string_lossy().to_lowercase()) else {
            return false;
        };
        let is_hidden = name.starts_with('.') || name.starts_with('_');
        let is_unfinished = UNFINISHED.iter().any(|end| name.ends_with(end));
        !is_hidden && !is_unfinished && self.patterns.iter().any(|pattern| pattern.matches(&name))
    }
}

/// Returns the reason why a file cannot be sent, judged by its name and metadata; `None` if it can.
fn obstacle(directory: &Path, path: &Path, stamp: &FileStamp) -> Option<&'static str> {
    if path.file_name().is_some_and(|name| name.to_str().is_none()) {
        return Some("its name is not UTF-8; rename it");
    }
    if leads_out(directory, path) {
        return Some("it is a link to a file outside of the directory; copy the file here");
    }
    (stamp.bytes == 0).then_some("it is empty")
}

/// Returns whether a path is a link to a file outside the directory. A user who may write to the
/// directory must not be able to send other files of this machine.
fn leads_out(directory: &Path, path: &Path) -> bool {
    let is_link = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    let is_below =
        || Ok::<_, std::io::Error>(fs::canonicalize(path)?.starts_with(fs::canonicalize(directory)?));
    is_link && !is_below().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(paths: &[PathBuf]) -> Vec<&str> {
        paths.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect()
    }

    fn look(folder: &mut Folder, busy: &HashSet<PathBuf>) -> Vec<PathBuf> {
        folder.look(busy, |text| panic!("{text}")).unwrap()
    }

    fn write(directory: &Path, name: &str, text: &str) -> PathBuf {
        let path = directory.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn a_file_counts_once_it_stays_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let mut folder = Folder::open(directory.path(), &[]).unwrap();
        let none = HashSet::new();
        let path = write(directory.path(), "a.json", "[");
        assert!(look(&mut folder, &none).is_empty(), "it may still be written");
        write(directory.path(), "a.json", "[]");
        assert!(look(&mut folder, &none).is_empty(), "it was still written");
        assert_eq!(names(&look(&mut folder, &none)), ["a.json"]);
        assert!(look(&mut folder, &HashSet::from([path])).is_empty(), "it is on its way");
    }

    #[test]
    fn the_file_that_was_written_first_comes_first() {
        let directory = tempfile::tempdir().unwrap();
        let mut folder = Folder::open(directory.path(), &[]).unwrap();
        for (name, second) in [("a.json", 30), ("b.json", 10), ("c.json", 20)] {
            let path = write(directory.path(), name, "[]");
            let file = File::options().write(true).open(path).unwrap();
            file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(second)).unwrap();
        }
        look(&mut folder, &HashSet::new());
        assert_eq!(names(&look(&mut folder, &HashSet::new())), ["b.json", "c.json", "a.json"]);
    }

    #[test]
    fn only_complete_catalogues_are_looked_at() {
        let directory = tempfile::tempdir().unwrap();
        for name in [
            "a.json",
            "B.NDJSON",
            "c.jsonl.gz",
            "d.csv",
            ".e.json",
            "_f.json",
            "g.json.part",
            "h.json.tmp",
            "i.json~",
        ] {
            write(directory.path(), name, "[]");
        }
        fs::create_dir(directory.path().join("j.json")).unwrap();
        let found = |patterns: &[String]| {
            let mut folder = Folder::open(directory.path(), patterns).unwrap();
            look(&mut folder, &HashSet::new());
            let mut found = look(&mut folder, &HashSet::new());
            found.sort();
            names(&found).iter().map(|&name| name.to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(found(&[]), ["B.NDJSON", "a.json", "c.jsonl.gz"]);
        assert_eq!(found(&["*.csv".to_owned(), "A.*".to_owned()]), ["a.json", "d.csv"]);
    }

    #[test]
    fn a_file_that_cannot_be_sent_is_said_once() {
        let directory = tempfile::tempdir().unwrap();
        let mut folder = Folder::open(directory.path(), &[]).unwrap();
        let path = write(directory.path(), "empty.json", "");
        let mut told = Vec::new();
        for looks in 1..4 {
            let found = folder.look(&HashSet::new(), |text| told.push(text.to_owned())).unwrap();
            assert!(found.is_empty() && (looks > 1 || told.is_empty()), "it may still be written");
        }
        assert_eq!(told, [format!("{} stays where it is: it is empty", path.display())]);
    }

    #[cfg(unix)]
    #[test]
    fn a_catalogue_whose_name_is_not_utf_8_stays() {
        use std::os::unix::ffi::OsStrExt as _;

        let directory = tempfile::tempdir().unwrap();
        let folder = Folder::open(directory.path(), &[]).unwrap();
        let named = |name: &[u8]| directory.path().join(std::ffi::OsStr::from_bytes(name));
        let path = named(b"a\xff.json");
        assert!(folder.is_catalogue(&path) && !folder.is_catalogue(&named(b"a\xff.json.tmp")));
        let stamp = FileStamp { bytes: 2, modified: None };
        let obstacle = |path: &Path| obstacle(directory.path(), path, &stamp);
        assert!(obstacle(&path).unwrap().contains("rename it"));
        assert_eq!(obstacle(&named(b"a.json")), None);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_counts_as_its_file_unless_it_leads_out_of_the_directory() {
        use std::os::unix::fs::symlink;

        let (directory, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = |name: &str| directory.path().join(name);
        fs::create_dir(path("days")).unwrap();
        write(&path("days"), "monday", "[]");
        symlink("days/monday", path("inside.json")).unwrap();
        symlink(write(elsewhere.path(), "secret", "[]"), path("outside.json")).unwrap();
        symlink("nothing", path("broken.json")).unwrap();
        // What leads to the directory itself may be a link.
        let watched = elsewhere.path().join("watched");
        symlink(directory.path(), &watched).unwrap();
        let (mut folder, mut told) = (Folder::open(&watched, &[]).unwrap(), Vec::new());
        let mut found = Vec::new();
        for _ in 0..3 {
            found = folder.look(&HashSet::new(), |text| told.push(text.to_owned())).unwrap();
        }
        assert_eq!(names(&found), ["inside.json"]);
        let [told] = told.as_slice() else { panic!("{told:?}") };
        assert!(told.contains("outside.json stays where it is: it is a link"), "{told}");
    }
}
