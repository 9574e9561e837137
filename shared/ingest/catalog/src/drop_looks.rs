//! How far dropped objects have been looked at.

use jiff::Timestamp;

use crate::database::Database;
use crate::error::DatabaseError;

/// A pass over the dropped objects of a bucket, which may take several runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropLook {
    /// The key after which it goes on, empty at its beginning; `None` if it has come to its end.
    pub after: Option<String>,
    /// Time at which the pass began.
    pub began_at: Timestamp,
    /// Time at which the pass before it began.
    pub began_before: Option<Timestamp>,
}

const LOOK: &str = "SELECT after_key, began_at, began_before FROM drop_looks WHERE bucket = $1";
const NOTE: &str = "INSERT INTO drop_looks (bucket, after_key, began_at, began_before) VALUES ($1, $2, $3, $4) \
     ON CONFLICT (bucket) DO UPDATE SET after_key = EXCLUDED.after_key, began_at = EXCLUDED.began_at, \
         began_before = EXCLUDED.began_before";

impl Database {
    /// The last pass over a bucket; `None` if there was none yet.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn drop_look(&self, bucket: &str) -> Result<Option<DropLook>, DatabaseError> {
        let rows = self.read(LOOK, &[&bucket]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let after: Option<Vec<u8>> = row.try_get("after_key")?;
        Ok(Some(DropLook {
            // A key that is no text was never noted. The pass begins again.
            after: after.and_then(|key| String::from_utf8(key).ok()),
            began_at: row.try_get("began_at")?,
            began_before: row.try_get("began_before")?,
        }))
    }

    /// Notes how far a pass over a bucket has come. Of two runs side by side the last one counts:
    /// at worst some objects are looked at twice.
    ///
    /// # Errors
    /// If the database fails. Then the next run looks at the same objects again.
    pub async fn note_drop_look(&self, bucket: &str, look: &DropLook) -> Result<(), DatabaseError> {
        let after = look.after.as_deref().map(str::as_bytes);
        self.change(NOTE, &[&bucket, &after, &look.began_at, &look.began_before]).await.map(drop)
    }
}
