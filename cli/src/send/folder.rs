//! A directory that a till writes to: which of its files are complete, and where they go when they
//! are sent.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use wildmatch::WildMatch;

use super::delivery::End;
use super::load::Version;
use super::report::Sent;
use crate::access::now;
use crate::api::Api;
use crate::batches::{ItemsFile, each_item_in_error};
use crate::exit::{Exit, Explain as _, Failure};

/// File name patterns of catalogues, in lower case.
const PATTERNS: [&str; 6] = ["*.json", "*.ndjson", "*.jsonl", "*.json.gz", "*.ndjson.gz", "*.jsonl.gz"];
/// Endings of the names of unfinished files, in lower case.
const UNFINISHED: [&str; 9] =
    [".tmp", ".temp", ".part", ".partial", ".filepart", ".crdownload", ".inprogress", ".swp", "~"];
/// Lock file that keeps a second program from the directory.
const LOCK: &str = ".integrahub.lock";

const RESULT: &str = "integrahub.send-result.v1";

/// Watched directory, with the files seen in it so far.
#[derive(Debug)]
pub(crate) struct Folder {
    directory: PathBuf,
    patterns: Vec<WildMatch>,
    seen: HashMap<PathBuf, Version>,
    /// Files that stay because they cannot be sent, which are said once.
    told: HashSet<PathBuf>,
    _lock: File,
}

impl Folder {
    /// Opens a directory, and keeps other programs of this kind from it. `patterns` are of names;
    /// none means those of JSON files.
    ///
    /// # Errors
    /// If there is no such directory, it cannot be written to, or another program watches it.
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

    /// Scans the directory. Returns the files that have not changed since the last scan, the one
    /// with the oldest change first, without those of `busy`. Files that cannot be sent are
    /// reported to `tell` instead, once each, as a sentence.
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
                found.insert(path, Version::of(&metadata));
            }
        }
        let mut same: Vec<_> =
            found.iter().filter(|(path, version)| self.seen.get(*path) == Some(*version)).collect();
        same.sort_by_key(|(path, version)| (version.modified, *path));
        self.told.retain(|path| found.contains_key(path));
        let mut ready = Vec::new();
        for (path, version) in same {
            match obstacle(&self.directory, path, version) {
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

/// Returns the reason why a file of the directory cannot be sent, as far as its name and
/// metadata show it.
fn obstacle(directory: &Path, path: &Path, version: &Version) -> Option<&'static str> {
    if path.file_name().is_some_and(|name| name.to_str().is_none()) {
        return Some("its name is not UTF-8; rename it");
    }
    if leads_out(directory, path) {
        return Some("it is a link to a file outside of the directory; copy the file here");
    }
    (version.bytes == 0).then_some("it is empty")
}

/// Returns whether a path is a link to a file outside the directory. A user who may write to the
/// directory must not be able to send other files of this machine.
fn leads_out(directory: &Path, path: &Path) -> bool {
    let is_link = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    let is_below =
        || Ok::<_, std::io::Error>(fs::canonicalize(path)?.starts_with(fs::canonicalize(directory)?));
    is_link && !is_below().unwrap_or(false)
}

/// Place of a file at the end of its delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The file stays where it is, because it may succeed later.
    Stays,
    /// The file was moved to this path.
    Moved(PathBuf),
    /// The file was overwritten: another file has its path by now.
    Overwritten,
}

/// Places in a directory for files that are sent.
#[derive(Clone, Debug)]
pub(crate) struct Away {
    directory: PathBuf,
}

impl Away {
    /// Builds the places of a directory.
    pub(crate) fn of(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    /// Moves a finished file away, together with its result and its items in error. A file that may
    /// succeed later stays. If something wrote the file anew meanwhile, the new file stays, and the
    /// result of the old one is written.
    ///
    /// # Errors
    /// If the items in error cannot be downloaded, or the file system fails.
    pub(crate) async fn put(&self, api: &Api, path: &Path, sent: &Sent) -> Result<Place, Failure> {
        let place = match (&sent.end, sent.exit()) {
            (End::Final(_), Exit::Done | Exit::Partial | Exit::Held) => "done",
            (End::Final(_), Exit::Refused | Exit::Error) | (End::Failed(_), Exit::Refused) => "failed",
            _ => return Ok(Place::Stays),
        };
        let target = self.target(place, path)?;
        if let End::Final(batch) = &sent.end
            && batch.items_failed > 0
        {
            let mut file = ItemsFile::create(&beside(&target, ".errors.ndjson"))?;
            each_item_in_error(api, batch, |item| file.write(&item)).await?;
            file.close()?;
        }
        let found = fs::metadata(path).ok().map(|metadata| Version::of(&metadata));
        let is_overwritten = matches!((&found, &sent.version), (Some(found), Some(sent)) if found != sent);
        let mut result = json!({"schema": RESULT, "at": now()});
        if let (Some(result), Value::Object(members)) = (result.as_object_mut(), sent.json()) {
            result.extend(members);
            result.insert("movedTo".to_owned(), json!((!is_overwritten).then_some(&target)));
        }
        let text = format!("{result:#}\n");
        let result = beside(&target, ".result.json");
        let written = fs::write(&result, text).or_explain(|| format!("write the result of {}", sent.name));
        let moved = written.and_then(|()| {
            if is_overwritten {
                return Ok(Place::Overwritten);
            }
            let moved = fs::rename(path, &target);
            moved.or_explain(|| format!("move {} to {}", sent.name, target.display()))?;
            Ok(Place::Moved(target))
        });
        if moved.is_err() {
            // The next attempt writes it again, and a full disk may have cut it.
            let _left = fs::remove_file(result);
        }
        moved
    }

    /// Returns a path that no file and no result has, in the directory of the day.
    fn target(&self, place: &str, path: &Path) -> Result<PathBuf, Failure> {
        let day = Timestamp::now().to_zoned(TimeZone::UTC).date();
        let directory = self.directory.join(place).join(day.to_string());
        fs::create_dir_all(&directory).or_explain(|| format!("create {}", directory.display()))?;
        let name = path.file_name().unwrap_or(path.as_os_str());
        let first = directory.join(name);
        let others = (2_u32..).map(|number| beside(&first, &format!(".{number}")));
        let free = std::iter::once(first.clone())
            .chain(others)
            .find(|path| !path.exists() && !beside(path, ".result.json").exists());
        free.ok_or_else(|| Failure::new(Exit::Error, format!("{} is full", directory.display())))
    }
}

/// Returns a path with `end` appended to its name.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Schedule;
    use crate::batches::Batch;

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

    fn api() -> Api {
        let schedule = Schedule::within(std::time::Duration::ZERO);
        Api::at(&"http://127.0.0.1:1".parse().unwrap(), None, schedule).unwrap()
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
        let version = Version { bytes: 2, modified: None };
        let obstacle = |path: &Path| obstacle(directory.path(), path, &version);
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

    #[tokio::test]
    async fn a_file_goes_where_its_end_belongs_and_takes_no_name_from_another() {
        let directory = tempfile::tempdir().unwrap();
        let away = Away::of(directory.path());
        let loaded = || End::Final(Batch { status: "COMPLETED".to_owned(), ..Batch::default() });
        let failed = || End::Final(Batch { status: "FAILED".to_owned(), ..Batch::default() });
        let put = async |end: End| {
            let path = write(directory.path(), "a.json", "[]");
            let sent = Sent { end, ..Sent::failed(0, "a.json".to_owned(), Failure::usage("")) };
            (away.put(&api(), &path, &sent).await.unwrap(), path)
        };
        let moved = |place: Place| match place {
            Place::Moved(path) => path,
            other => panic!("{other:?}"),
        };
        let (first, path) = put(loaded()).await;
        let first = moved(first);
        assert!(!path.exists() && first.starts_with(directory.path().join("done")));
        let result: Value =
            serde_json::from_slice(&fs::read(beside(&first, ".result.json")).unwrap()).unwrap();
        assert_eq!((&result["schema"], &result["exit"]), (&json!(RESULT), &json!(0)));
        assert_eq!(result["movedTo"], json!(first));
        let second = moved(put(loaded()).await.0);
        assert_eq!(names(&[second]), ["a.json.2"]);
        assert!(moved(put(failed()).await.0).starts_with(directory.path().join("failed")));
        let refused = End::Failed(Failure::refused("no"));
        assert!(moved(put(refused).await.0).starts_with(directory.path().join("failed")));
        for end in
            [End::Stopped, End::Accepted("b".to_owned()), End::Failed(Failure::new(Exit::Temporary, "later"))]
        {
            let (place, path) = put(end).await;
            assert!(place == Place::Stays && path.exists());
        }
    }

    #[tokio::test]
    async fn a_file_that_was_written_anew_meanwhile_is_not_moved_away() {
        let directory = tempfile::tempdir().unwrap();
        let away = Away::of(directory.path());
        let path = write(directory.path(), "a.json", "[]");
        let version = Some(Version::of(&fs::metadata(&path).unwrap()));
        write(directory.path(), "a.json", "[{}]");
        let end = End::Final(Batch { status: "COMPLETED".to_owned(), ..Batch::default() });
        let sent = Sent { end, version, ..Sent::failed(0, "a.json".to_owned(), Failure::usage("")) };
        for number in 1..3 {
            assert_eq!(away.put(&api(), &path, &sent).await.unwrap(), Place::Overwritten);
            assert_eq!(fs::read(&path).unwrap(), b"[{}]");
            let day = fs::read_dir(directory.path().join("done")).unwrap().next().unwrap().unwrap().path();
            assert_eq!(fs::read_dir(&day).unwrap().count(), number, "each load has its own result");
            let result = fs::read(day.join("a.json.result.json")).unwrap();
            let result: Value = serde_json::from_slice(&result).unwrap();
            assert_eq!(result["movedTo"], Value::Null);
        }
    }
}
