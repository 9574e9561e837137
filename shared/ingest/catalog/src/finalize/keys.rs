//! Product keys that a full load contained, as hashes. Products with other keys may become
//! inactive.

use std::pin::pin;

use futures_util::TryStreamExt as _;
use ingestion::Cnpj;
use uuid::Uuid;

use crate::connection::Connection;
use crate::error::DatabaseError;

/// Query for the key hashes of a load, without chunks whose establishments all precede `$2`. An
/// item in error whose key could be read counts as contained.
const OWN: &str = "SELECT key_hashes FROM batch_chunks WHERE batch_id = $1 AND key_hashes IS NOT NULL \
         AND (last_cnpj IS NULL OR last_cnpj >= $2::bpchar) \
     UNION ALL SELECT array_agg(key_hash) FROM batch_item_errors WHERE batch_id = $1 AND key_hash IS NOT NULL";

/// Hashes of the keys that a full load contains, in ascending order, 8 bytes each. A finalization
/// reads them once for all its slices of establishments.
pub(super) struct LoadKeys(Vec<i64>);

impl LoadKeys {
    /// Reads the key hashes of a load whose chunks are all done, from the establishment `first` on;
    /// none if `first` is `None`. They do not change until a replay.
    pub(super) async fn of(
        connection: &mut Connection,
        batch_id: Uuid,
        first: Option<&Cnpj>,
    ) -> Result<Self, DatabaseError> {
        let Some(first) = first else { return Ok(Self(Vec::new())) };
        let mut keys = Vec::new();
        let mut session = connection.begin().await?;
        {
            let mut rows = pin!(session.stream(OWN, &[&batch_id, &first.as_str()]).await?);
            while let Some(row) = rows.try_next().await? {
                keys.extend(row.try_get::<_, Option<Vec<i64>>>(0)?.unwrap_or_default());
            }
        }
        // The transaction ends before the sort.
        drop(session);
        keys.sort_unstable();
        Ok(Self(keys))
    }

    pub(super) fn contains(&self, key: i64) -> bool {
        self.0.binary_search(&key).is_ok()
    }
}
