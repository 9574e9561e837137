use aws_sdk_s3::types::Object;
use jiff::Timestamp;

use crate::{ObjectError, Objects};

/// An object as a listing names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its key in the bucket.
    pub key: String,
    /// When it was put.
    pub modified_at: Timestamp,
}

/// Part of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// In the order of their keys.
    pub objects: Vec<Listed>,
    /// The continuation token of the next page, if there is one.
    pub next: Option<String>,
}

impl Objects {
    /// Lists up to 1000 objects whose keys begin with `prefix`, from the continuation token of the
    /// page before.
    ///
    /// # Errors
    /// If S3 does not answer.
    pub async fn list(&self, prefix: &str, from: Option<String>) -> Result<Page, ObjectError> {
        let request = self.client.list_objects_v2().bucket(&self.bucket).prefix(prefix);
        let request = request.set_continuation_token(from);
        let found = request.send().await.map_err(|error| ObjectError::of(prefix, error))?;
        let objects = found.contents.unwrap_or_default().into_iter().filter_map(listed).collect();
        Ok(Page { objects, next: found.next_continuation_token })
    }
}

/// S3 leaves neither member out.
fn listed(object: Object) -> Option<Listed> {
    let modified_at = object.last_modified?;
    let nanosecond = i32::try_from(modified_at.subsec_nanos()).ok()?;
    Some(Listed { key: object.key?, modified_at: Timestamp::new(modified_at.secs(), nanosecond).ok()? })
}
