//! Items in error of a batch: recorded while its payload is cut, and listed in pages.

use ingestion::Viewer;
use ingestion::chunk::Generation;
use ingestion::product::{ItemError, ItemErrorCode, KeyHash};
use serde_json::Value;
use tokio_postgres::Row;
use tokio_postgres::types::Json;
use uuid::Uuid;

use crate::connection::Session;
use crate::database::Database;
use crate::error::DatabaseError;
use crate::hashes::first_eight;
use crate::rows::{bigint, count, word};
use crate::visible::{accepted_within, visible};

/// Default maximum number of items in error that a batch's report lists.
pub const LISTED_ITEM_ERRORS: u64 = 10_000;

/// Page of a batch's items in error, as the batches API lists them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemErrorPage {
    /// Items in error of the page, in the order of the payload.
    pub errors: Vec<ItemError>,
    /// Number of items in error of the whole batch that are on no page, because the report is
    /// limited.
    pub omitted: u64,
}

const INSERT: &str = "INSERT INTO batch_item_errors \
     (batch_id, item_index, byte_offset, code, field, detail, key, key_hash) \
     SELECT $1, e.* FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], \
     $7::jsonb[], $8::bigint[]) e \
     ON CONFLICT (batch_id, item_index) DO NOTHING";
/// Locks a batch until the commit if it is still being cut in this generation (round of
/// processing), so that a replay sees the errors recorded here. Returns no row otherwise.
const IS_CHUNKING: &str = "SELECT FROM batches WHERE batch_id = $1 AND generation = $2 \
     AND (status = 'CHUNKING' OR status = 'FAILED' AND error->>'code' = 'GIVEN_UP') FOR SHARE";
const FORGET_REFUSED: &str = "DELETE FROM batch_item_errors WHERE batch_id = $1 AND item_index = ANY($2) \
     AND code IN ('REJECTED_BY_DATABASE', 'CNPJ_NOT_ALLOWED')";
const LISTED: &str =
    "SELECT count(*) AS listed FROM (SELECT FROM batch_item_errors WHERE batch_id = $1 LIMIT $2) AS listed";
/// Query for the batch `$1` if the viewer (tenant `$2`, limited to the establishments `$3`) may see
/// it, and for whether the viewer may see all of the batch's errors. A batch that the viewer could
/// not have sent may have errors about other establishments.
const SHOWN: &str = concat!(
    "SELECT $3::text[] IS NULL OR ",
    accepted_within!("$3"),
    " AS is_own, b.errors_omitted + b.rejected_unlisted AS omitted FROM batches b WHERE b.batch_id = $1 AND ",
    visible!("$2", "$3")
);
/// Query for the file of a batch's items in error, for a viewer (tenant `$2`, limited to the
/// establishments `$3`) that may see the items of all establishments in it.
const FILE: &str = concat!(
    "SELECT b.errors_uri FROM batches b WHERE b.batch_id = $1 AND b.errors_uri IS NOT NULL AND ($3::text[] IS NULL OR ",
    accepted_within!("$3"),
    ") AND ",
    visible!("$2", "$3")
);
const PAGE: &str = "SELECT item_index, byte_offset, code, field, detail, key FROM batch_item_errors \
     WHERE batch_id = $1 AND item_index > $2 AND ($4::text[] IS NULL OR key->>'cnpj' IN (SELECT unnest($4::text[]))) \
     ORDER BY item_index LIMIT $3";

impl Database {
    /// Records items in error while the batch's payload is being cut. Idempotent by batch and item.
    /// Nothing is recorded if the batch has moved to another generation (round of processing) or
    /// state.
    pub async fn record_item_errors(
        &self,
        batch_id: Uuid,
        generation: Generation,
        errors: &[ItemError],
    ) -> Result<(), DatabaseError> {
        if errors.is_empty() {
            return Ok(());
        }
        let number = i32::try_from(generation.number())?;
        self.with_connection(async |connection| {
            let mut session = connection.begin().await?;
            if session.query_opt(IS_CHUNKING, &[&batch_id, &number]).await?.is_some() {
                insert(&mut session, batch_id, errors).await?;
            }
            session.commit().await
        })
        .await
    }

    /// Returns a page of up to `limit` items in error of a batch, in the order of the payload;
    /// `after` is the index of the last item on the previous page. `None` if the viewer may not see
    /// the batch. A viewer that is limited to some establishments sees only their errors in a batch
    /// that it could not have sent itself.
    pub async fn item_errors(
        &self,
        viewer: &Viewer,
        batch_id: Uuid,
        after: Option<u64>,
        limit: u32,
    ) -> Result<Option<ItemErrorPage>, DatabaseError> {
        self.with_connection(async |connection| {
            let mut session = connection.begin().await?;
            let cnpjs = viewer.limits();
            let shown = session.query_opt(SHOWN, &[&batch_id, &viewer.tenant_id(), &cnpjs]).await?;
            let Some(shown) = shown else { return Ok(None) };
            let cnpjs = if shown.try_get("is_own")? { None } else { cnpjs };
            let after = after.map_or(Ok(-1), bigint)?;
            let rows = session.query(PAGE, &[&batch_id, &after, &i64::from(limit), &cnpjs]).await?;
            let errors = rows.iter().map(item_error).collect::<Result<_, _>>()?;
            Ok(Some(ItemErrorPage { errors, omitted: count(&shown, "omitted")? }))
        })
        .await
    }

    /// Returns the `s3://bucket/key` of the file of a batch's items in error. `None` if the batch
    /// has none, or if the viewer may not see all of it because it may contain items of other
    /// establishments.
    pub async fn errors_uri(&self, viewer: &Viewer, batch_id: Uuid) -> Result<Option<String>, DatabaseError> {
        let found = self.read(FILE, &[&batch_id, &viewer.tenant_id(), &viewer.limits()]).await?;
        Ok(found.first().map(|row| row.try_get("errors_uri")).transpose()?)
    }
}

/// Deletes from a batch's report the errors of these items that were recorded when their chunk was
/// written in an earlier generation (round of processing) of the batch. The items have no other
/// errors, since the chunker puts only valid items into chunks.
pub(crate) async fn forget_refused(
    session: &mut Session<'_>,
    batch_id: Uuid,
    items: &[u64],
) -> Result<(), DatabaseError> {
    let items = items.iter().map(|item| bigint(*item)).collect::<Result<Vec<_>, _>>()?;
    session.execute(FORGET_REFUSED, &[&batch_id, &items]).await?;
    Ok(())
}

/// Adds errors to the report of a locked batch, so that it lists at most `most` in total. Returns
/// the number of errors that were left out.
pub(crate) async fn insert_up_to(
    session: &mut Session<'_>,
    batch_id: Uuid,
    errors: &[ItemError],
    most: u64,
) -> Result<u64, DatabaseError> {
    let row = session.query_opt(LISTED, &[&batch_id, &bigint(most)?]).await?;
    let listed = row.as_ref().map_or(Ok(0), |row| count(row, "listed"))?;
    let room = usize::try_from(most.saturating_sub(listed))?.min(errors.len());
    let (listed, left_out) = errors.split_at(room);
    if !listed.is_empty() {
        insert(session, batch_id, listed).await?;
    }
    Ok(u64::try_from(left_out.len())?)
}

/// Inserts items in error into the batch's report.
async fn insert(
    session: &mut Session<'_>,
    batch_id: Uuid,
    errors: &[ItemError],
) -> Result<(), DatabaseError> {
    let mut indexes = Vec::with_capacity(errors.len());
    let mut offsets = Vec::with_capacity(errors.len());
    for error in errors {
        indexes.push(bigint(error.item_index)?);
        offsets.push(bigint(error.byte_offset)?);
    }
    let codes: Vec<String> = errors.iter().map(|error| code_word(error.code)).collect::<Result<_, _>>()?;
    // PostgreSQL's texts cannot contain NUL.
    let fields: Vec<Option<String>> = errors
        .iter()
        .map(|error| error.field.as_ref().map(|field| field.replace('\0', "\u{fffd}")))
        .collect();
    let details: Vec<String> = errors.iter().map(|error| error.detail.replace('\0', "\u{fffd}")).collect();
    let keys: Vec<Json<_>> = errors.iter().map(|error| Json(&error.key)).collect();
    let hashes: Vec<Option<i64>> =
        errors.iter().map(|error| error.settled_key().map(|key| first_eight(KeyHash::of(&key).0))).collect();
    session
        .execute(INSERT, &[&batch_id, &indexes, &offsets, &codes, &fields, &details, &keys, &hashes])
        .await?;
    Ok(())
}

fn code_word(code: ItemErrorCode) -> Result<String, DatabaseError> {
    match serde_json::to_value(code) {
        Ok(Value::String(word)) => Ok(word),
        _ => Err(DatabaseError::Unreadable("an error's code")),
    }
}

fn item_error(row: &Row) -> Result<ItemError, DatabaseError> {
    let Json(key) = row.try_get("key")?;
    Ok(ItemError {
        item_index: count(row, "item_index")?,
        byte_offset: count(row, "byte_offset")?,
        code: word(row, "code")?,
        field: row.try_get::<_, Option<String>>("field")?.map(Into::into),
        detail: row.try_get::<_, String>("detail")?.into(),
        key,
    })
}
