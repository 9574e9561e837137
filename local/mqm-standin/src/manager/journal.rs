//! The journal: persistent messages, which outlive the queue manager, as a file of records. A
//! record holds a whole unit of work, so that it is there or it is not.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::queue::{QueuePlace, Stored};
use crate::protocol::Chars;

/// A journal that grew to more than this since it was last rewritten is rewritten.
const REWRITE_AFTER: u64 = 256 * 1024 * 1024;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Record {
    Commit {
        puts: Vec<(Chars, QueuePlace, Stored)>,
        gets: Vec<(Chars, QueuePlace)>,
    },
    /// Messages that were got and backed out once more.
    Backout(Vec<(Chars, QueuePlace)>),
}

#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    written: u64,
    /// True if a write failed: later records cannot be kept either.
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
        while let Some((record, length)) = read_record(&mut reader) {
            records.push(record);
            whole += length;
        }
        file.set_len(whole)?;
        Ok((Self { path: path.to_owned(), file, written: whole, failed: false }, records))
    }

    /// Appends a record. It is with the operating system when this returns, so it survives the
    /// process; a stand-in need not survive a power failure.
    pub(crate) fn append(&mut self, record: &Record) {
        match frame(record).and_then(|frame| self.file.write_all(&frame).map(|()| frame.len())) {
            Ok(length) => self.written += u64::try_from(length).unwrap_or_default(),
            Err(_) => self.failed = true,
        }
    }

    /// True if the journal has grown enough to be rewritten.
    pub(crate) fn is_due(&self) -> bool {
        self.written > REWRITE_AFTER
    }

    /// Replaces the journal with one of these records.
    pub(crate) fn rewrite<'a>(&mut self, records: impl Iterator<Item = Record> + 'a) -> io::Result<()> {
        let path = self.path.with_extension("new");
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).open(&path)?;
        let mut written = 0;
        for record in records {
            let frame = frame(&record)?;
            file.write_all(&frame)?;
            written += u64::try_from(frame.len()).unwrap_or_default();
        }
        std::fs::rename(&path, &self.path)?;
        self.file = OpenOptions::new().append(true).open(&self.path)?;
        self.written = written;
        Ok(())
    }
}

fn frame(record: &Record) -> io::Result<Vec<u8>> {
    let payload = postcard::to_stdvec(record).map_err(io::Error::other)?;
    let length = u32::try_from(payload.len()).map_err(io::Error::other)?;
    Ok([length.to_le_bytes().as_slice(), &crc32fast::hash(&payload).to_le_bytes(), &payload].concat())
}

/// Reads a record and its length on disk; `None` at the end or at an incomplete record.
fn read_record(reader: &mut impl Read) -> Option<(Record, u64)> {
    let mut header = [0; 8];
    reader.read_exact(&mut header).ok()?;
    let (length, checksum) = header.split_first_chunk::<4>()?;
    let length = u64::from(u32::from_le_bytes(*length));
    // The buffer grows with what comes, so a wrong length takes no memory.
    let mut payload = Vec::new();
    io::copy(&mut reader.take(length), &mut payload).ok()?;
    if crc32fast::hash(&payload).to_le_bytes() != checksum {
        return None;
    }
    Some((postcard::from_bytes(&payload).ok()?, length + 8))
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
