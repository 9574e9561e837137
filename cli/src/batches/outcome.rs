//! Batch of the ingest as the API returns it, and the exit code of a command for its outcome.

use serde::Deserialize;
use serde_json::Value;

use crate::exit::{Exit, Explain as _, Failure};

/// Batch of the ingest, as the API returns it. Members that this program does not know are in
/// `json` only.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Batch {
    pub(crate) batch_id: String,
    pub(crate) load_type: String,
    pub(crate) status: String,
    pub(crate) received_at: Option<String>,
    pub(crate) items_parsed: u64,
    pub(crate) items_processed: u64,
    pub(crate) items_failed: u64,
    pub(crate) errors_url: Option<String>,
    pub(crate) changes: Changes,
    pub(crate) deactivation: Deactivation,
    pub(crate) chunks: Chunks,
    pub(crate) error: Option<PayloadError>,
    pub(crate) warnings: Vec<String>,
    /// JSON of the whole batch, as the API sent it.
    #[serde(skip)]
    pub(crate) json: Value,
}

/// Number of a batch's items by their effect on products, and of products that it deactivated.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Changes {
    pub(crate) inserted: u64,
    pub(crate) updated: u64,
    pub(crate) unchanged: u64,
    pub(crate) stale: u64,
    pub(crate) deactivated: u64,
}

/// Outcome of a full load for products that it did not contain and that should become inactive.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Deactivation {
    pub(crate) state: String,
    pub(crate) would_deactivate: u64,
    pub(crate) reason: Option<String>,
}

/// Number of chunks into which a batch is divided, and of those that are done and that failed.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Chunks {
    pub(crate) total: u64,
    pub(crate) done: u64,
    pub(crate) failed: u64,
}

/// Reason why nothing of a batch's payload was loaded.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PayloadError {
    pub(crate) code: String,
    pub(crate) detail: String,
    pub(crate) byte_offset: Option<u64>,
}

/// Beginning of a sentence for a full load after which products that it does not contain stay
/// active.
const KEPT: &str = "not all products that the file lacks became inactive";

/// Error codes of a payload that fails again if the same file is sent again.
const OF_THE_FILE: [&str; 5] =
    ["MALFORMED_JSON", "CONTENT_CORRUPT", "MAX_PAYLOAD_EXCEEDED", "TOO_MANY_CNPJS", "TOO_MANY_ERRORS"];

impl Batch {
    /// Parses a batch from the API's JSON.
    ///
    /// # Errors
    /// If a member has an unexpected type.
    pub(crate) fn read(json: Value) -> Result<Self, Failure> {
        let batch = Self::deserialize(&json).or_explain(|| "read the batch that the API shows".to_owned())?;
        Ok(Self { json, ..batch })
    }

    /// Returns whether the batch has ended: its status changes only if a person acts. A status that
    /// this program does not know is not final.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self.status.as_str(), "COMPLETED" | "PARTIAL_FAIL" | "FAILED" | "EXPIRED")
    }

    /// Returns whether the batch has ended without loading anything.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self.status.as_str(), "FAILED" | "EXPIRED")
    }

    /// Checks whether the batch loaded everything. `program` begins the command that a failure
    /// suggests.
    ///
    /// # Errors
    /// If the batch loaded nothing or only a part, or if the deactivation of products is held or
    /// was left out.
    pub(crate) fn outcome(&self, program: &str) -> Result<(), Failure> {
        let id = &self.batch_id;
        let end = |exit, trouble: String, next: String| Err(Failure::new(exit, trouble).next(next));
        let replay = || format!("{program} batches replay {id}");
        let errors = || format!("{program} batches errors {id}");
        match (self.status.as_str(), &self.error) {
            ("EXPIRED", _) => end(
                Exit::Temporary,
                "the file was not uploaded in time, so nothing is loaded".to_owned(),
                "send it again".to_owned(),
            ),
            ("FAILED", Some(error)) => {
                let place = error.byte_offset.map(|byte| format!(", at byte {byte}")).unwrap_or_default();
                let trouble = format!("nothing is loaded: {} ({}{place})", error.detail, error.code);
                match error.code.as_str() {
                    code if OF_THE_FILE.contains(&code) => {
                        end(Exit::Refused, trouble, "correct the file, and send it again".to_owned())
                    }
                    "TOO_OLD" => end(Exit::Error, trouble, "send the products in a new file".to_owned()),
                    _ => end(Exit::Error, trouble, replay()),
                }
            }
            ("FAILED", None) => {
                end(Exit::Error, "no part of the batch could be written".to_owned(), replay())
            }
            _ if self.deactivation.state == "held" => end(
                Exit::Held,
                format!(
                    "the products are loaded, but {} deactivations are held: so many would be unusual",
                    self.deactivation.would_deactivate
                ),
                format!("check that the file is complete, then: {program} batches confirm {id}"),
            ),
            ("PARTIAL_FAIL", _) => end(
                Exit::Partial,
                format!("{} of {} parts could not be written", self.chunks.failed, self.chunks.total),
                replay(),
            ),
            _ if self.items_failed > 0 && self.items_processed == 0 => {
                end(Exit::Refused, format!("none of {} items could be loaded", self.items_failed), errors())
            }
            _ if self.items_failed > 0 => {
                let all = self.items_parsed;
                let kept = self.undecided(program).map(|(why, _)| format!("; {KEPT}: {why}"));
                let kept = kept.unwrap_or_default();
                let trouble = format!("{} of {all} items are in error{kept}", self.items_failed);
                end(Exit::Partial, trouble, errors())
            }
            _ => match self.undecided(program) {
                Some((why, next)) => end(Exit::Partial, format!("{KEPT}: {why}"), next),
                None => Ok(()),
            },
        }
    }

    /// Returns the reason why a full load did not deactivate the products that it lacks, and the
    /// step that remedies it. `program` begins the command that the step suggests. Returns `None`
    /// for other loads, and if no reason or no remedy is known.
    fn undecided(&self, program: &str) -> Option<(&'static str, String)> {
        let id = &self.batch_id;
        let reason = self.deactivation.reason.as_deref().filter(|_| self.load_type == "full")?;
        match reason {
            "too_late" => Some((
                "too many other parts have arrived since the file was received",
                "send the whole catalogue in a new full load".to_owned(),
            )),
            "failed_load" => {
                Some(("some parts of the load had failed", format!("{program} batches replay {id}")))
            }
            "unreadable_key" => Some((
                "an item has a key that cannot be read, so it may be any product",
                format!("correct the items, and send the file again: {program} batches errors {id}"),
            )),
            "not_owned" => Some((
                "their establishments do not belong to this tenant",
                format!(
                    "ask the operator to register the establishments, then: \
                     {program} batches replay {id} --scope all"
                ),
            )),
            _ => None,
        }
    }

    /// Returns a sentence for people if this full load deactivated no products because a later full
    /// load decides about them; `None` otherwise.
    pub(crate) fn note(&self) -> Option<&'static str> {
        let is_later = self.deactivation.reason.as_deref() == Some("later_full_load");
        (is_later && self.load_type == "full")
            .then_some("a full load that was received later decides which products become inactive")
    }

    /// Returns the batch's properties for people, as pairs of name and value.
    pub(crate) fn rows(&self) -> Vec<(&'static str, String)> {
        let changes = self.changes;
        let mut rows = vec![
            ("batch", self.batch_id.clone()),
            ("type", self.load_type.clone()),
            ("status", self.status.clone()),
            ("received", self.received_at.clone().unwrap_or_default()),
            ("items", self.items_parsed.to_string()),
            ("in error", self.items_failed.to_string()),
            ("inserted", changes.inserted.to_string()),
            ("updated", changes.updated.to_string()),
            ("unchanged", changes.unchanged.to_string()),
            ("stale", changes.stale.to_string()),
            ("parts", format!("{} of {} done", self.chunks.done, self.chunks.total)),
        ];
        if self.load_type == "full" {
            let reason = self.deactivation.reason.as_deref().map(|reason| format!(", {reason}"));
            let state = format!("{}{}", self.deactivation.state, reason.unwrap_or_default());
            rows.push(("deactivated", format!("{} ({state})", changes.deactivated)));
        }
        rows.extend(self.error.iter().map(|error| ("error", format!("{}: {}", error.code, error.detail))));
        rows.extend(self.warnings.iter().map(|warning| ("warning", warning.clone())));
        rows.retain(|(_, value)| !value.is_empty());
        rows
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ID: &str = "01a1fd8c-697b-7c4e-8d21-3f5a6b7c8d9e";

    fn outcome(members: Value) -> Result<(), Failure> {
        let mut batch = json!({"batch_id": ID, "load_type": "full", "status": "COMPLETED", "items_parsed": 3,
            "items_processed": 3, "new_member": [1]});
        let Value::Object(members) = members else { panic!("members are an object") };
        batch.as_object_mut().unwrap().extend(members);
        Batch::read(batch).unwrap().outcome("integrahub -c till")
    }

    #[test]
    fn the_exit_code_says_what_became_of_the_file() {
        let failed = |code: &str| {
            let error = json!({"code": code, "detail": "d", "byte_offset": 7});
            json!({"status": "FAILED", "error": error})
        };
        let skipped = |reason: &str, items_failed: u64| {
            let deactivation = json!({"state": "skipped", "reason": reason});
            json!({"deactivation": deactivation, "items_failed": items_failed})
        };
        let held = json!({"deactivation": {"state": "held", "would_deactivate": 900}, "items_failed": 1});
        for (members, exit, word) in [
            (json!({}), Exit::Done, ""),
            (skipped("too_late", 0), Exit::Partial, "have arrived since"),
            (skipped("failed_load", 0), Exit::Partial, "had failed"),
            (skipped("unreadable_key", 0), Exit::Partial, "cannot be read"),
            (skipped("unreadable_key", 1), Exit::Partial, "1 of 3 items are in error; not all products"),
            (skipped("not_owned", 0), Exit::Partial, "do not belong"),
            (skipped("later_full_load", 0), Exit::Done, ""),
            (json!({"items_failed": 1, "items_processed": 2}), Exit::Partial, "1 of 3 items"),
            (json!({"items_failed": 3, "items_processed": 0}), Exit::Refused, "none of 3 items"),
            (
                json!({"status": "PARTIAL_FAIL", "chunks": {"total": 4, "failed": 1}}),
                Exit::Partial,
                "1 of 4 parts",
            ),
            (failed("MALFORMED_JSON"), Exit::Refused, "d (MALFORMED_JSON, at byte 7)"),
            (failed("GIVEN_UP"), Exit::Error, "GIVEN_UP"),
            (failed("OF_A_LATER_VERSION"), Exit::Error, "OF_A_LATER_VERSION"),
            (json!({"status": "FAILED"}), Exit::Error, "no part"),
            (json!({"status": "EXPIRED"}), Exit::Temporary, "not uploaded"),
            (held, Exit::Held, "900 deactivations"),
        ] {
            let failure = outcome(members).err().unwrap_or(Failure::new(Exit::Done, ""));
            assert_eq!(failure.exit, exit, "{failure:?}");
            assert!(failure.what.contains(word), "{failure:?}");
            assert_eq!(failure.next.is_some(), exit != Exit::Done, "trouble has a next step");
            let next = failure.next.unwrap_or_default();
            assert!(!next.contains("batches") || next.contains("integrahub -c till batches"), "{next}");
        }
    }

    #[test]
    fn a_status_of_a_later_version_is_not_final() {
        for (status, is_final) in
            [("RECEIVED", false), ("PROCESSING", false), ("PAUSED", false), ("FAILED", true)]
        {
            let batch = Batch { status: status.to_owned(), ..Batch::default() };
            assert_eq!(batch.is_final(), is_final, "{status}");
        }
    }
}
