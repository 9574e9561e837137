//! Beginning of a batch: its row is created, and its payload is to be cut into chunks, or cannot
//! be.

use std::borrow::Cow;

use ingestion::Cnpj;
use ingestion::batch::{BatchEvent, BatchStatus, Deactivation};
use ingestion::chunk::{ChunkReady, Generation, Plan};
use ingestion::payload::{LoadType, PayloadMetadata};
use ingestion::product::CnpjAccess;
use serde::{Deserialize, Serialize};
use tokio_postgres::Row;
use tokio_postgres::types::Json;
use uuid::Uuid;

use crate::connection::{Connection, Params, Session};
use crate::database::Database;
use crate::error::DatabaseError;
use crate::locked_batch::{LockedBatch, generation, lock};
use crate::outbox;
use crate::plan::pin;
use crate::pruning::fail_too_old;
use crate::rows::{bigint, cnpj};

/// Accepted batch, with all values for its row in the database, since the row may not exist yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchRow {
    /// Metadata of the S3 object with the payload.
    pub metadata: PayloadMetadata,
    /// Location of the payload, as `s3://bucket/key`.
    pub payload_uri: String,
    /// Bytes of the decoded payload; `None` if they were not known when the batch was accepted.
    pub payload_bytes: Option<u64>,
    /// Establishments that the batch was allowed to load when it was accepted.
    pub cnpjs: CnpjAccess,
}

/// Work that remains for the chunker after it began with a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are described where their types are")]
pub enum ChunkingOutcome {
    /// The payload has to be cut into chunks by this plan, which is now fixed for this generation
    /// (round of processing) of the batch.
    Chunk { plan: Plan, generation: Generation },
    /// The payload was cut into chunks before. The chunks in `pending` are not written yet, and
    /// perhaps no message about them was ever sent.
    Sealed { generation: Generation, pending: Vec<ChunkReady> },
    /// The batch is final in this state, so no work remains.
    Final(BatchStatus),
    /// The batch was received before the start of the history of loads (the period for which
    /// batches are retained), so no work remains for the chunker. If the payload was never cut,
    /// this call has failed the batch. If the batch has pending chunks,
    /// [`end_too_old`](Database::end_too_old) ends it.
    TooOld(BatchStatus),
}

/// Reason why a whole batch failed, as it is stored with the batch and shown to its sender.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PayloadFailure {
    /// Code of the failure for programs, such as [`GIVEN_UP`](Self::GIVEN_UP).
    pub code: Cow<'static, str>,
    /// Explanation of the failure for the sender, in one sentence.
    pub detail: String,
    /// Offset in the decoded payload at which the failure was found; `None` if the failure has no
    /// single position.
    pub byte_offset: Option<u64>,
}

impl PayloadFailure {
    /// Code of a batch whose processing failed too often, although its payload may be sound. The
    /// chunker still continues such a batch if an attempt is in progress, or if it gets the
    /// notification about the payload again.
    pub const GIVEN_UP: &str = "GIVEN_UP";
    /// Code of a batch that was not processed in time: it was received before the start of the
    /// history of loads, which is the period for which batches are retained.
    pub const TOO_OLD: &str = "TOO_OLD";

    /// Returns the failure with code [`TOO_OLD`](Self::TOO_OLD).
    pub(crate) fn too_old() -> Self {
        Self {
            code: Self::TOO_OLD.into(),
            detail:
                "it was not processed while the history of loads reached back to it; what was written stays, \
                and a new batch can bring the rest"
                    .to_owned(),
            byte_offset: None,
        }
    }
}

/// Chunker's processing of a payload that turned out to be unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedChunking {
    /// Generation (round of processing) of the batch when the chunker began.
    pub generation: Generation,
    /// Number of items in error that the chunker found but, as there were too many, did not record.
    pub errors_omitted: u64,
}

/// Builds the SQL that inserts a batch's row, followed by the clause `$conflict`.
macro_rules! insert {
    ($conflict:literal) => {
        concat!(
            "INSERT INTO batches (batch_id, tenant_id, load_type, media_type, idempotency_key, trace_id, ",
            "received_at, allowed_cnpjs, payload_uri, payload_checksum, status, deactivation, source, ",
            "payload_bytes) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
            $conflict
        )
    };
}
/// Inserts a batch's row unless it exists. The conflict clause names no unique constraint: if it
/// named one of the table's two, concurrent inserts of the same batch could deadlock, each waiting
/// in another index.
const INSERT_IF_ABSENT: &str = insert!(" ON CONFLICT DO NOTHING");
/// Inserts a batch's row; fails if a constraint is violated.
const INSERT: &str = insert!("");
const ALLOWED: &str = "SELECT allowed_cnpjs FROM batches WHERE batch_id = $1 AND tenant_id = $2";
const CHUNKING: &str = "UPDATE batches SET status = $2, started_at = COALESCE(started_at, now()), \
     moved_at = now(), finished_at = NULL, error = NULL, \
     objects_let_go = false WHERE batch_id = $1";
const FAIL: &str = "UPDATE batches SET status = $2, error = $3, errors_omitted = $4, finished_at = now() \
     WHERE batch_id = $1";
const PENDING: &str = "SELECT batch_id, generation, chunk_index, chunk_uri, items, first_cnpj FROM batch_chunks \
     WHERE batch_id = $1 AND status = 'PENDING' ORDER BY chunk_index";

impl Database {
    /// Begins to cut a batch's payload: creates the batch's row if it is missing, and fixes `plan`
    /// for the batch unless it has a current plan already. Idempotent by the batch's id.
    ///
    /// # Errors
    /// If the database fails, or has another batch of the same tenant with the same idempotency
    /// key.
    pub async fn begin_chunking(
        &self,
        batch: &BatchRow,
        plan: Plan,
    ) -> Result<ChunkingOutcome, DatabaseError> {
        self.with_connection(async |connection| begin(connection, batch, plan).await).await
    }

    /// Returns the establishments that a tenant's batch was allowed to load when it was accepted;
    /// `None` if the database does not have the batch.
    pub async fn allowed_cnpjs(
        &self,
        tenant_id: Uuid,
        batch_id: Uuid,
    ) -> Result<Option<CnpjAccess>, DatabaseError> {
        self.read(ALLOWED, &[&batch_id, &tenant_id]).await?.first().map(access).transpose()
    }

    /// Fails a batch whose payload cannot be read, and returns its state afterwards. No product
    /// changes. `chunking` is the chunker's processing that found the payload unusable; `None` if
    /// the batch is given up without such a finding. A batch whose chunks are known does not
    /// change, since its payload was read before. A batch in a later generation than `chunking`
    /// does not change either, since that generation may use the payload.
    ///
    /// # Errors
    /// Same as [`begin_chunking`](Self::begin_chunking).
    pub async fn fail_payload(
        &self,
        batch: &BatchRow,
        failure: &PayloadFailure,
        chunking: Option<FailedChunking>,
    ) -> Result<BatchStatus, DatabaseError> {
        self.with_connection(async |connection| fail(connection, batch, failure, chunking).await).await
    }

    /// Fails a batch whose payload no longer exists, and returns its states before and after the
    /// call; `None` if the database does not have the batch. A batch whose chunks are known does
    /// not change, since its payload was read before. Idempotent by the batch's id.
    pub async fn fail_without_payload(
        &self,
        batch_id: Uuid,
        failure: &PayloadFailure,
    ) -> Result<Option<[BatchStatus; 2]>, DatabaseError> {
        let failed = self.with_connection(async |connection| {
            let mut session = connection.begin().await?;
            let found = lock(&mut session, batch_id).await?;
            let status = fail_found(&mut session, &found, failure, 0).await?;
            session.commit().await?;
            Ok([found.status, status])
        });
        match failed.await {
            Ok(states) => Ok(Some(states)),
            Err(DatabaseError::UnknownBatch(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

async fn begin(
    connection: &mut Connection,
    batch: &BatchRow,
    plan: Plan,
) -> Result<ChunkingOutcome, DatabaseError> {
    let mut session = connection.begin().await?;
    let found = find_or_insert(&mut session, batch).await?;
    if found.is_too_old {
        let status = fail_too_old(&mut session, &found).await?;
        session.commit().await?;
        return Ok(ChunkingOutcome::TooOld(status));
    }
    let begun = match found.for_the_chunker().after(BatchEvent::ChunkingBegan) {
        Ok(status) => {
            let (plan, generation) = pin(&mut session, &found, plan).await?;
            session.execute(CHUNKING, &[&batch.metadata.batch_id, &status.as_str()]).await?;
            ChunkingOutcome::Chunk { plan, generation }
        }
        Err(_) if found.status.is_final() => ChunkingOutcome::Final(found.status),
        Err(_) => {
            let rows = session.query(PENDING, &[&batch.metadata.batch_id]).await?;
            let pending = rows.iter().map(pending_chunk).collect::<Result<_, _>>()?;
            ChunkingOutcome::Sealed { generation: found.generation, pending }
        }
    };
    session.commit().await?;
    Ok(begun)
}

async fn fail(
    connection: &mut Connection,
    batch: &BatchRow,
    failure: &PayloadFailure,
    chunking: Option<FailedChunking>,
) -> Result<BatchStatus, DatabaseError> {
    let mut session = connection.begin().await?;
    let found = find_or_insert(&mut session, batch).await?;
    if chunking.is_some_and(|chunking| chunking.generation < found.generation) {
        return Ok(found.status);
    }
    let errors_omitted = chunking.map_or(0, |chunking| chunking.errors_omitted);
    let status = fail_found(&mut session, &found, failure, errors_omitted).await?;
    session.commit().await?;
    Ok(status)
}

async fn fail_found(
    session: &mut Session<'_>,
    found: &LockedBatch,
    failure: &PayloadFailure,
    errors_omitted: u64,
) -> Result<BatchStatus, DatabaseError> {
    if found.is_too_old {
        return fail_too_old(session, found).await;
    }
    let Ok(status) = found.for_the_chunker().after(BatchEvent::PayloadFailed) else {
        return Ok(found.status);
    };
    let row: Params<'_> = &[&found.batch_id, &status.as_str(), &Json(failure), &bigint(errors_omitted)?];
    session.execute(FAIL, row).await?;
    // A batch that is given up again has not changed, so it gets no second event.
    if !found.is_given_up || failure.code != PayloadFailure::GIVEN_UP {
        outbox::ended(session, found.batch_id).await?;
    }
    Ok(status)
}

async fn find_or_insert(session: &mut Session<'_>, batch: &BatchRow) -> Result<LockedBatch, DatabaseError> {
    let metadata = &batch.metadata;
    let allowed: Option<Vec<&str>> = match &batch.cnpjs {
        CnpjAccess::Any => None,
        CnpjAccess::Only(cnpjs) => Some(cnpjs.iter().map(Cnpj::as_str).collect()),
    };
    let deactivation = match metadata.load_type {
        LoadType::Delta => Deactivation::NotApplicable,
        LoadType::Full => Deactivation::Pending,
    };
    let deactivation = Json(deactivation);
    let received = BatchStatus::Received.as_str();
    let (load_type, media_type) = (metadata.load_type.as_str(), metadata.media_type.as_str());
    let source = metadata.source.as_ref().map(Json);
    let payload_bytes = batch.payload_bytes.map(bigint).transpose()?;
    let row: Params<'_> = &[
        &metadata.batch_id,
        &metadata.tenant_id,
        &load_type,
        &media_type,
        &metadata.idempotency_key,
        &metadata.trace_id,
        &metadata.received_at,
        &allowed,
        &batch.payload_uri,
        &metadata.checksum,
        &received,
        &deactivation,
        &source,
        &payload_bytes,
    ];
    session.execute(INSERT_IF_ABSENT, row).await?;
    let found = match lock(session, metadata.batch_id).await {
        // Another batch has the key, unless it was deleted meanwhile.
        Err(DatabaseError::UnknownBatch(_)) => {
            session.execute(INSERT, row).await?;
            lock(session, metadata.batch_id).await
        }
        found => found,
    };
    let mut found = found?;
    found.status = found.status.after(BatchEvent::PayloadArrived)?;
    Ok(found)
}

fn access(row: &Row) -> Result<CnpjAccess, DatabaseError> {
    let Some(cnpjs) = row.try_get::<_, Option<Vec<String>>>("allowed_cnpjs")? else {
        return Ok(CnpjAccess::Any);
    };
    let cnpjs = cnpjs.iter().map(|cnpj| cnpj.parse()).collect::<Result<_, _>>();
    Ok(CnpjAccess::Only(cnpjs.map_err(|_| DatabaseError::Unreadable("allowed_cnpjs"))?))
}

fn pending_chunk(row: &Row) -> Result<ChunkReady, DatabaseError> {
    Ok(ChunkReady {
        batch_id: row.try_get("batch_id")?,
        generation: generation(row, "generation")?,
        chunk_index: row.try_get::<_, i32>("chunk_index")?.try_into()?,
        chunk_uri: row.try_get("chunk_uri")?,
        items: row.try_get::<_, i64>("items")?.try_into()?,
        cnpj: cnpj(row, "first_cnpj")?,
    })
}
