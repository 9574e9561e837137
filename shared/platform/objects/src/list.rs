use std::borrow::Cow;

use aws_sdk_s3::primitives::DateTime;
use aws_sdk_s3::types::{EncodingType, Object};
use jiff::Timestamp;
use percent_encoding::percent_decode_str;

use crate::{ObjectError, Objects};

/// S3 object in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Key of the object in the bucket.
    pub key: String,
    /// Time at which the object was written last.
    pub modified_at: Timestamp,
    /// ETag of the object, which changes with its content.
    pub etag: String,
    /// Length of the object in bytes, as it is stored.
    pub length: u64,
}

/// Page of a listing of S3 objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Objects of the page, ordered by key.
    pub objects: Vec<Listed>,
    /// Continuation token for the next page; `None` on the last page.
    pub next: Option<String>,
}

impl Objects {
    /// Lists up to 1000 objects whose keys begin with `prefix`: the first page, or the page of the
    /// continuation token `from`.
    ///
    /// # Errors
    /// If S3 does not respond.
    pub async fn list(&self, prefix: &str, from: Option<String>) -> Result<Page, ObjectError> {
        self.list_after(prefix, None, from).await
    }

    /// Lists up to 1000 objects whose keys begin with `prefix` and are greater than `after`. If
    /// `from`, the continuation token of a page, is given, `after` is ignored.
    ///
    /// # Errors
    /// If S3 does not respond.
    pub async fn list_after(
        &self,
        prefix: &str,
        after: Option<&str>,
        from: Option<String>,
    ) -> Result<Page, ObjectError> {
        let request = self.client.list_objects_v2().bucket(&self.bucket).prefix(prefix);
        let after = after.filter(|after| from.is_none() && !after.is_empty());
        let request = request.set_start_after(after.map(str::to_owned));
        // XML has no form for some characters that keys may have.
        let request = request.set_continuation_token(from).encoding_type(EncodingType::Url);
        let found = request.send().await.map_err(|error| ObjectError::of(prefix, error))?;
        let is_encoded = found.encoding_type == Some(EncodingType::Url);
        let objects = found.contents.unwrap_or_default().into_iter();
        let objects = objects.filter_map(|object| listed(object, is_encoded)).collect();
        Ok(Page { objects, next: found.next_continuation_token })
    }
}

/// Converts an entry of a listing, whose key is URL-encoded if `is_encoded`. Returns `None` if it
/// has no key or no time, which does not happen in S3.
fn listed(object: Object, is_encoded: bool) -> Option<Listed> {
    let key = object.key?;
    Some(Listed {
        modified_at: timestamp(object.last_modified?)?,
        etag: object.e_tag.unwrap_or_default(),
        length: object.size.and_then(|size| size.try_into().ok()).unwrap_or_default(),
        key: if is_encoded { decoded(&key)? } else { key },
    })
}

/// Decodes a URL-encoded key of a listing, in which a plus sign is a space; `None` if the key is
/// not UTF-8.
fn decoded(key: &str) -> Option<String> {
    let key = key.replace('+', " ");
    percent_decode_str(&key).decode_utf8().ok().map(Cow::into_owned)
}

pub(crate) fn timestamp(time: DateTime) -> Option<Timestamp> {
    Timestamp::new(time.secs(), i32::try_from(time.subsec_nanos()).ok()?).ok()
}
