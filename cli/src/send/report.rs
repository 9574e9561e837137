//! Outcome of each file that was sent, as text for people and as JSON for programs.

use std::path::Path;

use serde_json::{Value, json};

use super::content::Content;
use super::delivery::End;
use super::finished::FileLocation;
use super::journal::Entry;
use super::load::FileStamp;
use crate::batches::{Batch, resume_line};
use crate::exit::{Exit, Failure};

/// Outcome of sending one file, from which the report is made.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    /// Number of the file in this process, from 0.
    pub(crate) file: usize,
    pub(crate) name: String,
    pub(crate) content: Option<Content>,
    pub(crate) entry: Option<Entry>,
    /// True if the API had accepted a load with the same idempotency key before, although this
    /// command did not continue a load from the journal.
    pub(crate) is_replay: bool,
    pub(crate) end: End,
    /// Size and last change of the file when it was read; `None` if it could not be read.
    pub(crate) stamp: Option<FileStamp>,
    /// Location of the file after its delivery. Only files of a watched directory are moved.
    pub(crate) place: FileLocation,
    /// Name of this program with the options of this command, to print a command that waits for the
    /// batch again. Empty if the file could not be read.
    pub(crate) program: String,
}

/// Column titles of the table of sent files.
pub(crate) const HEADER: [&str; 7] =
    ["file", "batch", "status", "items", "loaded", "in error", "deactivated"];

impl Sent {
    /// Creates the outcome of a file that could not be read, or whose load could not be planned.
    pub(crate) fn failed(file: usize, name: String, failure: Failure) -> Self {
        let end = End::Failed(failure);
        Self {
            file,
            name,
            content: None,
            entry: None,
            is_replay: false,
            end,
            stamp: None,
            place: FileLocation::Stays,
            program: String::new(),
        }
    }

    /// Returns the batch of the file as the API last returned it; `None` if the program has not
    /// seen it.
    pub(crate) const fn batch(&self) -> Option<&Batch> {
        match &self.end {
            End::Final(batch) | End::TimedOut(batch) => Some(batch),
            End::Accepted(_) | End::Failed(_) | End::Stopped => None,
        }
    }

    /// Returns the path that the file was moved to, if it was moved.
    pub(crate) fn moved_to(&self) -> Option<&Path> {
        match &self.place {
            FileLocation::Moved(path) => Some(path),
            FileLocation::Stays | FileLocation::Overwritten => None,
        }
    }

    fn batch_id(&self) -> Option<&str> {
        self.entry.as_ref()?.batch_id.as_deref()
    }

    /// Returns the exit code for the outcome of this file alone.
    pub(crate) fn exit(&self) -> Exit {
        match &self.end {
            End::Final(batch) => {
                batch.outcome(&self.program).map_or_else(|failure| failure.exit, |()| Exit::Done)
            }
            End::Accepted(_) | End::Stopped => Exit::Done,
            End::TimedOut(_) => Exit::TimedOut,
            End::Failed(failure) => failure.exit,
        }
    }

    /// Returns the failure to show if the file was not loaded completely. `None` if it was, and for
    /// [`End::Accepted`] and [`End::Stopped`].
    pub(crate) fn trouble(&self) -> Option<Failure> {
        let name = &self.name;
        match &self.end {
            End::Final(batch) => {
                let failure = batch.outcome(&self.program).err()?;
                Some(Failure { what: format!("{name}: {}", failure.what), ..failure })
            }
            End::Accepted(_) | End::Stopped => None,
            End::TimedOut(batch) => Some(
                Failure::new(Exit::TimedOut, format!("{name}: the time to wait is over"))
                    .why(format!("its batch is {}, and goes on by itself", batch.status))
                    .next(format!("wait again: {}", resume_line(&self.program, &batch.batch_id))),
            ),
            End::Failed(failure) => {
                let named = failure.what.contains(name.as_str());
                let what = if named { failure.what.clone() } else { format!("{name}: {}", failure.what) };
                Some(Failure { what, ..failure.clone() })
            }
        }
    }

    /// Returns notes for people: that the content was sent before, how to follow the batch, and
    /// warnings.
    pub(crate) fn notes(&self) -> Vec<String> {
        let name = &self.name;
        let mut notes = Vec::new();
        if let (true, Some(batch_id)) = (self.is_replay, self.batch_id()) {
            let received = self.batch().and_then(|batch| batch.received_at.as_deref());
            let received = received.map(|at| format!(", received {at}")).unwrap_or_default();
            notes.push(format!(
                "{name}: this content was sent before, as batch {batch_id}{received}, and is not \
                 loaded again; --again loads it once more"
            ));
        }
        if let End::Accepted(batch_id) = &self.end {
            notes.push(format!("{name}: accepted; follow it: {}", resume_line(&self.program, batch_id)));
        }
        let warnings = self.batch().map(|batch| batch.warnings.as_slice()).unwrap_or_default();
        notes.extend(warnings.iter().map(|warning| format!("{name}: {warning}")));
        notes.extend(self.batch().and_then(Batch::note).map(|note| format!("{name}: {note}")));
        notes
    }

    /// Returns the outcome as a row of the table of sent files.
    pub(crate) fn row(&self) -> Vec<String> {
        let id = self.batch_id().unwrap_or("-").to_owned();
        let (status, counts) = match (self.batch(), &self.end) {
            (Some(batch), _) => {
                let counts = [
                    batch.items_parsed,
                    batch.items_processed,
                    batch.items_failed,
                    batch.changes.deactivated,
                ];
                (batch.status.as_str(), counts.map(|count| count.to_string()))
            }
            (None, End::Accepted(_)) => ("accepted", [const { String::new() }; 4]),
            (None, _) => ("not sent", [const { String::new() }; 4]),
        };
        [self.name.clone(), id, status.to_owned()].into_iter().chain(counts).collect()
    }

    /// Returns the outcome as JSON.
    pub(crate) fn json(&self) -> Value {
        let exit = self.exit();
        let content = self.content.as_ref();
        let entry = self.entry.as_ref();
        let trouble = self
            .trouble()
            .map(|failure| json!({"what": failure.what, "why": failure.why, "next": failure.next}));
        json!({
            "file": self.name,
            "bytes": content.map(|content| content.bytes),
            "sha256": content.map(|content| &content.sha256),
            "form": content.map(|content| content.form.as_str()),
            "gzip": content.map(|content| content.is_gzip),
            "way": entry.map(|entry| entry.way.as_str()),
            "key": entry.map(|entry| &entry.key),
            "batchId": self.batch_id(),
            "replayed": self.is_replay,
            "exit": exit.code(),
            "trouble": trouble,
            "batch": self.batch().map(|batch| &batch.json),
            "movedTo": self.moved_to(),
        })
    }
}

/// Returns the exit code of the command from those of its files: the one for the most severe
/// outcome.
pub(crate) fn worst(exits: impl IntoIterator<Item = Exit>) -> Exit {
    const ORDER: [Exit; 9] = [
        Exit::Done,
        Exit::Nothing,
        Exit::Partial,
        Exit::Held,
        Exit::TimedOut,
        Exit::Temporary,
        Exit::Refused,
        Exit::Error,
        Exit::Denied,
    ];
    let rank = |exit: &Exit| ORDER.iter().position(|own| own == exit).unwrap_or(ORDER.len());
    exits.into_iter().max_by_key(rank).unwrap_or(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::super::journal::{State, Way};
    use super::*;

    fn sent(end: End) -> Sent {
        let mut entry = Entry::new(State::Accepted, "api", "i", "k".to_owned(), Way::Request);
        entry.batch_id = Some("b".to_owned());
        let failed = Sent::failed(0, "a.json".to_owned(), Failure::usage(""));
        Sent { entry: Some(entry), end, program: "integrahub -c till".to_owned(), ..failed }
    }

    fn batch(members: Value) -> Batch {
        let mut batch =
            json!({"batch_id": "b", "status": "COMPLETED", "items_parsed": 2, "items_processed": 2});
        let Value::Object(members) = members else { panic!("members are an object") };
        batch.as_object_mut().unwrap().extend(members);
        Batch::read(batch).unwrap()
    }

    #[test]
    fn trouble_names_the_file_once_and_has_a_next_step() {
        let partial = sent(End::Final(batch(json!({"items_processed": 1, "items_failed": 1}))));
        let trouble = partial.trouble().unwrap();
        assert_eq!(trouble.what, "a.json: 1 of 2 items are in error");
        assert_eq!(trouble.next.as_deref(), Some("integrahub -c till batches errors b"));
        let late = sent(End::TimedOut(batch(json!({"status": "PROCESSING"}))));
        assert_eq!(late.exit(), Exit::TimedOut);
        assert!(late.trouble().unwrap().next.unwrap().contains("integrahub -c till batches watch b"));
        let unread = sent(End::Failed(Failure::refused("a.json is empty")));
        assert_eq!(unread.trouble().unwrap().what, "a.json is empty");
        let denied = sent(End::Failed(Failure::new(Exit::Denied, "The API key is not known")));
        assert_eq!(denied.trouble().unwrap().what, "a.json: The API key is not known");
        assert_eq!(denied.row()[2], "not sent");
    }

    #[test]
    fn content_that_is_not_loaded_again_is_said_aloud() {
        let end = End::Final(batch(json!({"received_at": "2026-11-21T10:00:00Z", "warnings": ["w"]})));
        let sent = Sent { is_replay: true, ..sent(end) };
        let notes = sent.notes();
        assert!(
            notes[0].contains("sent before, as batch b, received 2026-11-21") && notes[0].contains("--again")
        );
        assert_eq!(notes[1], "a.json: w");
    }

    #[test]
    fn the_worst_file_decides() {
        assert_eq!(worst([]), Exit::Done);
        assert_eq!(worst([Exit::Done, Exit::Partial, Exit::Done]), Exit::Partial);
        assert_eq!(worst([Exit::Partial, Exit::Held, Exit::Temporary]), Exit::Temporary);
        assert_eq!(worst([Exit::Refused, Exit::Denied, Exit::Error]), Exit::Denied);
    }
}
