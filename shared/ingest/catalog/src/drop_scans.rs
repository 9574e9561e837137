//! Progress of the scans of buckets for dropped objects (payloads put there without a request).

use jiff::Timestamp;

use crate::database::Database;
use crate::error::DatabaseError;

/// Scan of a bucket for dropped objects (payloads put there without a request to the API), which
/// may take several invocations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropScan {
    /// Key of the last object that was checked, after which the scan continues: empty at the start,
    /// `None` if the scan is complete.
    pub after: Option<String>,
    /// Time at which the scan of dropped objects began.
    pub began_at: Timestamp,
    /// Time at which the previous scan of the bucket began; `None` if this is the first.
    pub began_before: Option<Timestamp>,
}

const SCAN: &str = "SELECT after_key, began_at, began_before FROM drop_looks WHERE bucket = $1";
const NOTE: &str = "INSERT INTO drop_looks (bucket, after_key, began_at, began_before) VALUES ($1, $2, $3, $4) \
     ON CONFLICT (bucket) DO UPDATE SET after_key = EXCLUDED.after_key, began_at = EXCLUDED.began_at, \
         began_before = EXCLUDED.began_before";

impl Database {
    /// Returns the current or last scan of a bucket's dropped objects; `None` if there was none.
    pub async fn drop_scan(&self, bucket: &str) -> Result<Option<DropScan>, DatabaseError> {
        let rows = self.read(SCAN, &[&bucket]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let after: Option<Vec<u8>> = row.try_get("after_key")?;
        Ok(Some(DropScan {
            // A key that is not UTF-8 was never recorded, so the scan starts again.
            after: after.and_then(|key| String::from_utf8(key).ok()),
            began_at: row.try_get("began_at")?,
            began_before: row.try_get("began_before")?,
        }))
    }

    /// Records the progress of a scan of a bucket's dropped objects. Of two concurrent invocations,
    /// the later write counts, so that some objects may be checked twice.
    ///
    /// # Errors
    /// If the database fails. The next invocation then checks the same objects again.
    pub async fn note_drop_scan(&self, bucket: &str, scan: &DropScan) -> Result<(), DatabaseError> {
        let after = scan.after.as_deref().map(str::as_bytes);
        self.change(NOTE, &[&bucket, &after, &scan.began_at, &scan.began_before]).await.map(drop)
    }
}
