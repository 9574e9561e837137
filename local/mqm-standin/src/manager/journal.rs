//! Journal: a file of records, through which persistent messages outlive the queue manager. A
//! record holds a whole unit of work, so that the unit takes effect as a whole or not at all.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Seek as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::queue::{QueuePlace, Stored};
use crate::protocol::{self, Chars};

/// Size in bytes from which on the journal is rewritten with the present state.
const REWRITE_AFTER: u64 = 256 * 1024 * 1024;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Record {
    Commit {
        puts: Vec<(Chars, QueuePlace, Stored)>,
        gets: Vec<(Chars, QueuePlace)>,
    },
    /// Persistent messages whose get was backed out, so that their backout count is one higher.
    Backout(Vec<(Chars, QueuePlace)>),
}

#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    /// True if a write failed. From then on, calls that have to write to the journal fail.
    pub(crate) failed: bool,
}

impl Journal {
    /// Opens the journal and reads its records. From the first incomplete record on, the file is
    /// cut off.
    pub(crate) fn open(path: &Path) -> io::Result<(Self, Vec<Record>)> {
        let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let mut reader = BufReader::new(&file);
        let mut records = Vec::new();
        let mut whole = 0;
        while let Ok(record) = protocol::read_up_to(&mut reader, u32::MAX) {
            records.push(record);
            whole = reader.stream_position()?;
        }
        file.set_len(whole)?;
        Ok((Self { path: path.to_owned(), file, failed: false }, records))
    }

    /// Appends a record without syncing it to disk. The record survives the end of the process; a
    /// stand-in need not survive a power failure.
    pub(crate) fn append(&mut self, record: &Record) {
        self.failed |= protocol::write(&mut self.file, record).is_err();
    }

    /// Returns true if the journal is so large that it should be rewritten.
    pub(crate) fn is_due(&self) -> bool {
        self.file.metadata().is_ok_and(|file| file.len() > REWRITE_AFTER)
    }

    /// Replaces the journal with a new file that contains only `records`.
    pub(crate) fn rewrite<'a>(&mut self, records: impl Iterator<Item = Record> + 'a) -> io::Result<()> {
        let path = self.path.with_extension("new");
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).open(&path)?;
        for record in records {
            protocol::write(&mut file, &record)?;
        }
        std::fs::rename(&path, &self.path)?;
        self.file = OpenOptions::new().append(true).open(&self.path)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::{Journal, Record};

    #[test]
    fn a_torn_record_is_cut_and_the_ones_before_it_stay() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let (mut journal, _) = Journal::open(&path).unwrap();
        journal.append(&Record::Backout(Vec::new()));
        let length = std::fs::metadata(&path).unwrap().len();
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(&[9, 0, 0, 0, 1, 2]).unwrap();

        let (mut journal, records) = Journal::open(&path).unwrap();
        assert_eq!(records.len(), 1);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), length);
        journal.append(&Record::Backout(Vec::new()));
        assert_eq!(Journal::open(&path).unwrap().1.len(), 2);
    }

    #[test]
    fn a_rewritten_journal_goes_on() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let (mut journal, _) = Journal::open(&path).unwrap();
        for _ in 0..10 {
            journal.append(&Record::Backout(Vec::new()));
        }
        journal.rewrite(std::iter::once(Record::Backout(Vec::new()))).unwrap();
        journal.append(&Record::Backout(Vec::new()));
        assert_eq!(Journal::open(&path).unwrap().1.len(), 2);
    }
}
