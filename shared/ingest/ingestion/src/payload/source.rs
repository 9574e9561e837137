use std::collections::BTreeMap;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use url::form_urlencoded;

use super::InvalidMetadata;

const BUCKET: &str = "drop-bucket";
const KEY: &str = "drop-key";
const ETAG: &str = "drop-etag";
const VERSION: &str = "drop-version";

/// Version of a dropped S3 object of which a batch was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Name of the bucket with the dropped object.
    pub bucket: String,
    /// Key of the dropped object in its bucket.
    pub key: String,
    /// ETag of the dropped object, with S3's quotation marks.
    pub etag: String,
    /// Version id of the dropped object; `None` if the bucket keeps no versions.
    pub version_id: Option<String>,
}

impl Source {
    /// Returns the entries by which the metadata of the payload's object name the dropped object,
    /// by names without the prefix `x-amz-meta-`.
    pub(super) fn to_map(&self) -> impl Iterator<Item = (&'static str, String)> {
        let version = self.version_id.as_ref().map(|id| (VERSION, id.clone()));
        let always =
            [(BUCKET, self.bucket.clone()), (KEY, encoded_key(&self.key)), (ETAG, self.etag.clone())];
        always.into_iter().chain(version)
    }

    /// Parses the entries that [`to_map`](Self::to_map) made; `None` if a request created the
    /// batch. Earlier versions left out the name of the bucket if it was the payload's own
    /// `bucket`.
    pub(super) fn from_map(
        map: &BTreeMap<String, String>,
        bucket: &str,
    ) -> Result<Option<Self>, InvalidMetadata> {
        let Some(key) = map.get(KEY) else { return Ok(None) };
        let text = |name| map.get(name).cloned().ok_or(InvalidMetadata::Missing(name));
        Ok(Some(Self {
            bucket: map.get(BUCKET).map_or(bucket, String::as_str).to_owned(),
            key: decoded_key(key).ok_or(InvalidMetadata::Malformed(KEY))?,
            etag: text(ETAG)?,
            version_id: map.get(VERSION).cloned(),
        }))
    }
}

/// Key of a dropped S3 object, by which lists of batches are filtered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceKey(String);

/// Error for a text that cannot be the key of an S3 object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be an object's key, of 1 to {} bytes", SourceKey::MAX)]
pub struct InvalidSourceKey;

impl SourceKey {
    /// Maximum number of bytes of an S3 key (Amazon S3 User Guide, "Naming Amazon S3 objects").
    pub const MAX: usize = 1024;

    /// Returns the S3 key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SourceKey {
    type Err = InvalidSourceKey;

    /// Parses an S3 key. It must not contain NUL, which PostgreSQL's texts cannot hold.
    fn from_str(text: &str) -> Result<Self, InvalidSourceKey> {
        let is_key = (1..=Self::MAX).contains(&text.len()) && !text.contains('\0');
        is_key.then(|| Self(text.to_owned())).ok_or(InvalidSourceKey)
    }
}

/// Percent-encodes an S3 key, except its slashes, as for the path of a URL.
#[must_use]
pub fn encoded_key(key: &str) -> String {
    let segment = |segment: &str| form_urlencoded::byte_serialize(segment.as_bytes()).collect::<String>();
    // A plus sign that belongs to the key is encoded by now; the others are spaces.
    key.split('/').map(segment).collect::<Vec<_>>().join("/").replace('+', "%20")
}

/// Decodes an S3 key that [`encoded_key`] encoded.
fn decoded_key(key: &str) -> Option<String> {
    let key = key.replace('+', "%2B");
    form_urlencoded::parse(key.as_bytes()).next().map(|(key, _)| key.into_owned())
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn source() -> Source {
        Source {
            bucket: "payloads".to_owned(),
            key: "drop/1/full/PREÇOS de hoje+1.json".to_owned(),
            etag: "\"ab-2\"".to_owned(),
            version_id: None,
        }
    }

    fn map(source: &Source) -> BTreeMap<String, String> {
        source.to_map().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    #[test]
    fn a_payload_s_object_says_what_it_was_made_of() {
        for source in [source(), Source { version_id: Some("v1".to_owned()), ..source() }] {
            assert_eq!(Source::from_map(&map(&source), "other"), Ok(Some(source)));
        }
        assert_eq!(Source::from_map(&BTreeMap::new(), "payloads"), Ok(None));
        let mut map = map(&source());
        map.remove(BUCKET);
        assert_eq!(Source::from_map(&map, "payloads"), Ok(Some(source())));
        map.remove(ETAG);
        assert_eq!(Source::from_map(&map, "payloads"), Err(InvalidMetadata::Missing(ETAG)));
    }

    #[test]
    fn a_key_to_look_for_is_one_that_an_object_can_have() {
        for text in ["", "a\0b", &"é".repeat(513)] {
            assert_eq!(text.parse::<SourceKey>(), Err(InvalidSourceKey), "{text:?}");
        }
        let longest = "é".repeat(512);
        assert_eq!(longest.parse::<SourceKey>().unwrap().as_str(), longest);
    }

    proptest! {
        #[test]
        fn any_key_survives_its_encoding(key in "\\PC{0,60}") {
            let text = encoded_key(&key);
            prop_assert!(text.is_ascii() && !text.contains([' ', '+', '?']));
            prop_assert_eq!(decoded_key(&text).unwrap_or_default(), key);
        }
    }
}
