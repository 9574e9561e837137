//! The identity of a version of a dropped object, and the state in its tags.

use std::collections::BTreeMap;

use crate::payload::{Source, encoded_key};
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// Maximum number of characters of an object's name that its idempotency key contains.
const SHOWN: usize = 200;

/// State of a dropped object that is written to its tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateToTag<'a> {
    /// The dropped object became this batch.
    Accepted(Uuid),
    /// The object's batch is final, so that the bucket's lifecycle rule expires the object.
    Final(Uuid),
    /// The object was refused for this reason.
    Refused(&'a str),
}

/// Returns the idempotency key of a version of a dropped object, so that it becomes a single batch
/// however often it is announced. Without version ids, the ETag and `modified_at`, the time of the
/// write, distinguish versions. Everything comes from the object itself, so that a notification and
/// a listing give the same key.
#[must_use]
pub fn idempotency_key(source: &Source, modified_at: Timestamp) -> String {
    let Source { bucket, key, etag, version_id } = source;
    let time = modified_at.to_string();
    let version = version_id.as_deref().map_or([etag.as_str(), &time], |id| [id, ""]);
    let mut hash = Sha256::new();
    hash.update(b"integrahub.drop");
    for text in [bucket.as_str(), key].into_iter().chain(version) {
        hash.update(u64::try_from(text.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(text.as_bytes());
    }
    let hash: [u8; 32] = hash.finalize().into();
    let half: [u8; 16] = hash.first_chunk().copied().unwrap_or_default();
    let name = key.rsplit('/').next().map(encoded_key).unwrap_or_default();
    format!("drop:{}:{}", hex::encode(half), name.chars().take(SHOWN).collect::<String>())
}

/// Returns the id of the event that a version of a dropped object, written at `modified_at`, was
/// refused for this reason. Repeated refusals give the same id.
#[must_use]
pub fn refusal_id(source: &Source, modified_at: Timestamp, reason: &str) -> Uuid {
    let mut hash = Sha256::new();
    hash.update(b"integrahub.drop.refused");
    hash.update(idempotency_key(source, modified_at));
    hash.update([0]);
    hash.update(reason);
    let hash: [u8; 32] = hash.finalize().into();
    uuid::Builder::from_custom_bytes(hash.first_chunk().copied().unwrap_or_default()).into_uuid()
}

/// True if a batch with this idempotency key may have been made of a dropped object. Only the
/// metadata of the payload's object show it for certain.
#[must_use]
pub fn may_be_of(idempotency_key: &str) -> bool {
    idempotency_key.starts_with("drop:")
}

/// True if the batch with the idempotency key `batch_key` was made of the version of a dropped
/// object that the bucket has now: the one with the same version id, or without version ids, with
/// the same ETag and time of the write (`modified_at`).
#[must_use]
pub fn is_version_of(batch_key: &str, source: &Source, etag: &str, modified_at: Timestamp) -> bool {
    let there = Source { etag: etag.to_owned(), ..source.clone() };
    idempotency_key(&there, modified_at) == batch_key
}

/// Builds the tags of a dropped object. They name the object's version by its ETag and the time of
/// its write (`modified_at`), since tags that are written too late may get to a newer version of
/// the object.
#[must_use]
pub fn tags(source: &Source, modified_at: Timestamp, state: StateToTag<'_>) -> Vec<(&'static str, String)> {
    let (word, more) = match state {
        StateToTag::Accepted(batch_id) => ("accepted", vec![("batch", batch_id.to_string())]),
        StateToTag::Final(batch_id) => {
            ("accepted", vec![("batch", batch_id.to_string()), ("state", "final".to_owned())])
        }
        StateToTag::Refused(reason) => ("refused", vec![("reason", reason.to_owned())]),
    };
    let always = [
        ("drop", word.to_owned()),
        ("etag", bare(&source.etag).to_owned()),
        ("modified", second(modified_at)),
    ];
    always.into_iter().chain(more).collect()
}

/// State of a dropped object that was read from its tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateFromTags {
    /// The object was accepted as this batch. The tags are written before the batch has its
    /// payload.
    Accepted(Uuid),
    /// The object was refused, or its batch is final.
    Settled,
}

/// Reads the state from an object's tags; `None` if no state is tagged, or if the tags belong to a
/// version of the object with another ETag or another time of the write (`modified_at`).
#[must_use]
pub fn tagged_state(
    tags: &BTreeMap<String, String>,
    etag: &str,
    modified_at: Timestamp,
) -> Option<StateFromTags> {
    let tag = |name| tags.get(name).map(String::as_str);
    match (tag("drop")?, tag("state")) {
        _ if tag("etag")? != bare(etag) || tag("modified")? != second(modified_at) => None,
        ("accepted", None) => Some(StateFromTags::Accepted(tag("batch")?.parse().ok()?)),
        _ => Some(StateFromTags::Settled),
    }
}

/// Formats a time in whole seconds, which is the precision that an object's header and a listing
/// have in common.
fn second(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

/// Returns an ETag without its quotation marks, which tags cannot contain.
fn bare(etag: &str) -> &str {
    etag.trim_matches('"')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::source::tests::source;

    #[test]
    fn each_version_has_a_key_of_its_own() {
        let time: Timestamp = "2026-11-22T01:00:00Z".parse().unwrap();
        let key = |source: &Source| idempotency_key(source, time);
        let first = key(&source());
        assert_eq!(first, key(&source()));
        assert!(
            first.starts_with("drop:") && first.ends_with(":PRE%C3%87OS%20de%20hoje%2B1.json"),
            "{first}"
        );
        let mut keys = vec![
            first.clone(),
            idempotency_key(&source(), "2026-11-22T01:00:01Z".parse().unwrap()),
            key(&Source { bucket: "others".to_owned(), ..source() }),
            key(&Source { etag: "\"ab-3\"".to_owned(), ..source() }),
            key(&Source { key: "drop/1/full/x.json".to_owned(), ..source() }),
            key(&Source { version_id: Some("v1".to_owned()), ..source() }),
            key(&Source { version_id: Some("v2".to_owned()), ..source() }),
        ];
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 7);
        let long = Source { key: format!("drop/1/full/{}", "é".repeat(160)), ..source() };
        let key = key(&long);
        assert!(key.len() <= 255 && key.bytes().all(|byte| byte.is_ascii_graphic()), "{key}");
    }

    #[test]
    fn a_version_s_time_does_not_matter_if_it_has_an_id() {
        let source = Source { version_id: Some("v1".to_owned()), ..source() };
        let (early, late) = (Timestamp::UNIX_EPOCH, "2026-11-22T01:00:01Z".parse().unwrap());
        assert_eq!(idempotency_key(&source, early), idempotency_key(&source, late));
    }

    #[test]
    fn a_refusal_has_one_id_for_a_version_and_a_reason() {
        let [time, later] =
            ["2026-11-22T01:00:00Z", "2026-11-22T01:00:01Z"].map(|time| time.parse().unwrap());
        let id = refusal_id(&source(), time, "KEY_UNKNOWN");
        assert_eq!(id, refusal_id(&source(), time, "KEY_UNKNOWN"));
        assert_ne!(id, refusal_id(&source(), later, "KEY_UNKNOWN"));
        assert_ne!(id, refusal_id(&source(), time, "CONTENT_TYPE"));
    }

    #[test]
    fn a_key_says_that_a_batch_may_be_of_a_drop() {
        assert!(may_be_of(&idempotency_key(&source(), Timestamp::UNIX_EPOCH)));
        assert!(!may_be_of("5c1e0a56-4a58-4aaf-9359-83ec8f663f10"));
    }

    #[test]
    fn tags_are_of_one_version() {
        let batch_id = Uuid::from_u128(7);
        let [time, listed, later] =
            ["2026-11-22T01:00:00Z", "2026-11-22T01:00:00.731Z", "2026-11-22T01:00:01Z"]
                .map(|time| time.parse().unwrap());
        for (state, expected) in [
            (StateToTag::Accepted(batch_id), StateFromTags::Accepted(batch_id)),
            (StateToTag::Final(batch_id), StateFromTags::Settled),
            (StateToTag::Refused("EMPTY"), StateFromTags::Settled),
        ] {
            let tags = tags(&source(), time, state);
            let tags: BTreeMap<_, _> =
                tags.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            assert_eq!(tags.contains_key("state"), matches!(state, StateToTag::Final(_)));
            assert_eq!(tagged_state(&tags, "\"ab-2\"", time), Some(expected), "{tags:?}");
            assert_eq!(tagged_state(&tags, "\"ab-2\"", listed), Some(expected), "{tags:?}");
            assert_eq!(tagged_state(&tags, "\"ab-3\"", time), None, "{tags:?}");
            assert_eq!(
                tagged_state(&tags, "\"ab-2\"", later),
                None,
                "the same bytes, written again: {tags:?}"
            );
        }
        assert_eq!(tagged_state(&BTreeMap::new(), "\"ab-2\"", time), None);
    }

    #[test]
    fn a_batch_was_made_of_one_version() {
        let [time, later] =
            ["2026-11-22T01:00:00Z", "2026-11-22T01:00:01Z"].map(|time| time.parse().unwrap());
        let key = idempotency_key(&source(), time);
        assert!(is_version_of(&key, &source(), "\"ab-2\"", time));
        assert!(!is_version_of(&key, &source(), "\"ab-3\"", time));
        assert!(!is_version_of(&key, &source(), "\"ab-2\"", later), "the same bytes, written again");
    }
}
