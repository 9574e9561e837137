//! Subdirectories of a watched directory, to which files move once they are sent, with their
//! results next to them.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::delivery::End;
use super::load::FileStamp;
use super::report::Sent;
use crate::access::now;
use crate::api::Api;
use crate::batches::{ItemsFile, each_item_in_error};
use crate::exit::{Exit, Explain as _, Failure};

const RESULT: &str = "integrahub.send-result.v1";

/// Location of a file after its delivery. Without `--watch`, each file stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileLocation {
    /// The file is still at its path. In a watched directory, it may succeed when it is sent again.
    Stays,
    /// The file was moved to this path.
    Moved(PathBuf),
    /// Another program overwrote the file while it was sent. The new content stays at the path.
    Overwritten,
}

/// Subdirectories of a watched directory, `done` and `failed`, that finished files are moved to.
#[derive(Clone, Debug)]
pub(crate) struct FinishedFiles {
    directory: PathBuf,
}

impl FinishedFiles {
    /// Creates the value for a watched directory. The subdirectories are created when they are
    /// needed.
    pub(crate) fn of(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    /// Moves a finished file to `done` or `failed`, and writes its result and its items in error
    /// next to it. A file that may succeed later stays. If another program has overwritten the
    /// file, the new content stays, and the result of the old content is written.
    ///
    /// # Errors
    /// If the items in error cannot be downloaded, or the file system fails.
    pub(crate) async fn put(&self, api: &Api, path: &Path, sent: &Sent) -> Result<FileLocation, Failure> {
        let place = match (&sent.end, sent.exit()) {
            (End::Final(_), Exit::Done | Exit::Partial | Exit::Held) => "done",
            (End::Final(_), Exit::Refused | Exit::Error) | (End::Failed(_), Exit::Refused) => "failed",
            _ => return Ok(FileLocation::Stays),
        };
        let target = self.target(place, path)?;
        if let End::Final(batch) = &sent.end
            && batch.items_failed > 0
        {
            let mut file = ItemsFile::create(&beside(&target, ".errors.ndjson"))?;
            each_item_in_error(api, batch, |item| file.write(&item)).await?;
            file.close()?;
        }
        let found = fs::metadata(path).ok().map(|metadata| FileStamp::of(&metadata));
        let is_overwritten = matches!((&found, &sent.stamp), (Some(found), Some(sent)) if found != sent);
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
                return Ok(FileLocation::Overwritten);
            }
            let moved = fs::rename(path, &target);
            moved.or_explain(|| format!("move {} to {}", sent.name, target.display()))?;
            Ok(FileLocation::Moved(target))
        });
        if moved.is_err() {
            // The next attempt writes it again, and a full disk may have cut it.
            let _left = fs::remove_file(result);
        }
        moved
    }

    /// Returns a free path for a file and its result, in the directory of today's date (UTC).
    /// `place` is the subdirectory `done` or `failed` of the watched directory.
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

    fn write(directory: &Path, name: &str, text: &str) -> PathBuf {
        let path = directory.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn api() -> Api {
        let schedule = Schedule::within(std::time::Duration::ZERO);
        Api::at(&"http://127.0.0.1:1".parse().unwrap(), None, schedule).unwrap()
    }

    #[tokio::test]
    async fn a_file_goes_where_its_end_belongs_and_takes_no_name_from_another() {
        let directory = tempfile::tempdir().unwrap();
        let finished = FinishedFiles::of(directory.path());
        let loaded = || End::Final(Batch { status: "COMPLETED".to_owned(), ..Batch::default() });
        let failed = || End::Final(Batch { status: "FAILED".to_owned(), ..Batch::default() });
        let put = async |end: End| {
            let path = write(directory.path(), "a.json", "[]");
            let sent = Sent { end, ..Sent::failed(0, "a.json".to_owned(), Failure::usage("")) };
            (finished.put(&api(), &path, &sent).await.unwrap(), path)
        };
        let moved = |place: FileLocation| match place {
            FileLocation::Moved(path) => path,
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
        assert_eq!(second.file_name().unwrap(), "a.json.2");
        assert!(moved(put(failed()).await.0).starts_with(directory.path().join("failed")));
        let refused = End::Failed(Failure::refused("no"));
        assert!(moved(put(refused).await.0).starts_with(directory.path().join("failed")));
        for end in
            [End::Stopped, End::Accepted("b".to_owned()), End::Failed(Failure::new(Exit::Temporary, "later"))]
        {
            let (place, path) = put(end).await;
            assert!(place == FileLocation::Stays && path.exists());
        }
    }

    #[tokio::test]
    async fn a_file_that_was_written_anew_meanwhile_is_not_moved_away() {
        let directory = tempfile::tempdir().unwrap();
        let finished = FinishedFiles::of(directory.path());
        let path = write(directory.path(), "a.json", "[]");
        let stamp = Some(FileStamp::of(&fs::metadata(&path).unwrap()));
        write(directory.path(), "a.json", "[{}]");
        let end = End::Final(Batch { status: "COMPLETED".to_owned(), ..Batch::default() });
        let sent = Sent { end, stamp, ..Sent::failed(0, "a.json".to_owned(), Failure::usage("")) };
        for number in 1..3 {
            assert_eq!(finished.put(&api(), &path, &sent).await.unwrap(), FileLocation::Overwritten);
            assert_eq!(fs::read(&path).unwrap(), b"[{}]");
            let day = fs::read_dir(directory.path().join("done")).unwrap().next().unwrap().unwrap().path();
            assert_eq!(fs::read_dir(&day).unwrap().count(), number, "each load has its own result");
            let result = fs::read(day.join("a.json.result.json")).unwrap();
            let result: Value = serde_json::from_slice(&result).unwrap();
            assert_eq!(result["movedTo"], Value::Null);
        }
    }
}
