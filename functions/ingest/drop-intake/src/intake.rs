//! Decision about a dropped object: it is accepted as a batch, refused, or ignored.

use std::time::Duration;

use batch_items::Stored;
use idempotency::{ClaimRequest, Delivery, Execution, Fingerprint, IdempotencyKey, KeyForm, OperationType};
use ingestion::Viewer;
use ingestion::drops::{DropKey, DropKeyError, StateToTag, is_left_alone, received, result_key};
use ingestion::payload::{self, AcceptedBatch, PayloadMetadata, PayloadNotice, Source};
use ingestion::product::CnpjAccess;
use jiff::Timestamp;
use objects::{CopyOf, ObjectError, Objects, Version};
use runtime::metrics;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::refusal::Refusal;
use crate::{DropIntake, IntakeError};

/// Operation type of dropped objects in idempotency records.
const DROP: OperationType = OperationType::named("DROP");

/// Retention of a dropped object's idempotency record: a hundred years, as for the keys of other
/// batches, so that a version is never loaded again as another batch.
const RETENTION: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Size of the largest object that S3 copies in one request: 5 GB (Amazon S3 User Guide, "Copying
/// objects").
const MAX_COPY: u64 = 5_000_000_000;

/// Time within which a dropped object must be copied as the payload of its batch. Later, the batch
/// is shown as expired, like an unused upload, until an attempt makes the copy.
const ARRIVES_WITHIN: Duration = Duration::from_mins(15);

/// Version of a dropped object that may become a batch, with the tenant and the type of load that
/// its key names.
struct DroppedVersion {
    name: DropKey,
    source: Source,
    version: Version,
}

impl DropIntake {
    pub(crate) async fn process(&self, notice: &PayloadNotice) -> Result<(), IntakeError> {
        let PayloadNotice { bucket, key, version_id } = notice;
        let dropped = self.dropped_in(bucket)?;
        let name = match DropKey::read(key) {
            Ok(name) => Ok(name),
            Err(DropKeyError::Unknown(unknown)) => Err(Refusal::Key(unknown)),
            Err(DropKeyError::Ignored) => {
                tracing::info!(
                    event_type = "drop.ignored",
                    "object `{key}` is ignored: a marker, an unfinished file, or not a file of a drop"
                );
                return Ok(());
            }
        };
        let version = match dropped.version(key, version_id.as_deref()).await {
            Err(ObjectError::Missing { .. }) => {
                tracing::info!(event_type = "drop.gone", "object `{key}` was deleted before it was read");
                return Ok(());
            }
            version => version?,
        };
        if is_left_alone(key, version.length) {
            tracing::info!(
                event_type = "drop.ignored",
                "object `{key}` is ignored: it has no bytes and is not a catalogue"
            );
            return Ok(());
        }
        let source = Source {
            bucket: bucket.clone(),
            key: key.clone(),
            etag: version.etag.clone(),
            version_id: version.id.clone(),
        };
        let name = match name {
            Ok(name) => name,
            Err(refusal) => return self.refuse(&source, &version, refusal).await,
        };
        tracing::Span::current().record("tenant", tracing::field::display(name.tenant_id));
        self.decide_once(&DroppedVersion { name, source, version }).await
    }

    /// Returns the establishments that the object may load, by its tenant's grant, or the reason to
    /// refuse it.
    async fn access_of(&self, found: &DroppedVersion) -> Result<Result<CnpjAccess, Refusal>, IntakeError> {
        let DroppedVersion { name, source, version } = found;
        if version.length == 0 {
            return Ok(Err(Refusal::Empty));
        }
        let largest = self.max_bytes.min(MAX_COPY);
        if version.length > largest {
            return Ok(Err(Refusal::TooLarge(largest)));
        }
        match self.access.drop_grant(&name.tenant_id.to_string()).await? {
            None => Ok(Err(Refusal::NotAllowed)),
            Some(grant)
                if source.bucket != self.objects.bucket() && !grant.buckets.contains(&source.bucket) =>
            {
                Ok(Err(Refusal::OtherBucket))
            }
            Some(grant) => {
                let viewer = Viewer::limited(name.tenant_id, grant.establishments.only());
                Ok(Ok(viewer.map_err(IntakeError::Cnpjs)?.cnpjs().clone()))
            }
        }
    }

    /// Accepts or refuses the object, once for each of its versions: a completed decision stays,
    /// even if the tenant's grant changes later.
    async fn decide_once(&self, found: &DroppedVersion) -> Result<(), IntakeError> {
        let DroppedVersion { name, source, version } = found;
        let key = ingestion::drops::idempotency_key(source, version.modified_at);
        let key = IdempotencyKey::parse_canonical(&key, KeyForm::Text).map_err(|_| IntakeError::Conflict)?;
        let (tenant, trace_id) = (name.tenant_id.to_string(), Uuid::new_v4().to_string());
        tracing::Span::current().record("correlation_id", &trace_id).record("idempotency_key", key.as_str());
        let claim = ClaimRequest {
            operation: DROP,
            tenant: &tenant,
            key: &key,
            fingerprint: &Fingerprint::of(&json!({
                "load_type": name.load_type, "media_type": name.media_type, "etag": source.etag,
            }))?,
            // There is no caller: the establishments of the version are decided once, within the
            // record.
            rights: None,
            target: "",
            key_name: "",
            trace_id: &trace_id,
            retention: RETENTION,
        };
        let decided = self.records.once(&claim, async |execution| {
            let (cnpjs, received_at) = match self.begun(found, execution).await? {
                Some(begun) => (begun.cnpjs, begun.metadata.received_at),
                None => match self.access_of(found).await? {
                    Ok(cnpjs) => (cnpjs, self.received_at(found, execution).await?),
                    Err(refusal) => return self.refuse(source, version, refusal).await,
                },
            };
            self.take(found, cnpjs, received_at, execution).await?;
            metrics::count(self.service, &[metrics::DROPS_ACCEPTED], Map::new());
            Ok(())
        });
        if decided.await? == Delivery::Duplicate {
            tracing::info!(
                event_type = "drop.known",
                "this version of object `{}` was accepted or refused before",
                source.key
            );
        }
        Ok(())
    }

    /// Returns the batch whose DynamoDB item an earlier attempt at the same version has already
    /// written; `None` if no attempt has.
    async fn begun(
        &self,
        found: &DroppedVersion,
        execution: &Execution,
    ) -> Result<Option<AcceptedBatch>, IntakeError> {
        if execution.earlier_attempts() == 0 {
            return Ok(None);
        }
        let DroppedVersion { name, version, .. } = found;
        let viewer = Viewer::whole(name.tenant_id);
        for time in [execution.created_at, written_at(version, execution)] {
            if let Some(batch) = self.accepted.get(&viewer, batch_id(name.tenant_id, execution, time)).await?
            {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }

    /// Makes the batch of a dropped object's version: writes the batch's DynamoDB item, the
    /// object's result file and its tags, and copies the object as the batch's payload. Every
    /// attempt stores the same batch, apart from the trace id.
    async fn take(
        &self,
        found: &DroppedVersion,
        cnpjs: CnpjAccess,
        received_at: Timestamp,
        execution: &Execution,
    ) -> Result<(), IntakeError> {
        let DroppedVersion { name, source, version } = found;
        let batch_id = batch_id(name.tenant_id, execution, received_at);
        tracing::Span::current().record("batch_id", tracing::field::display(batch_id));
        let metadata = PayloadMetadata {
            batch_id,
            tenant_id: name.tenant_id,
            load_type: name.load_type,
            media_type: name.media_type,
            idempotency_key: execution.idempotency_key.clone(),
            received_at,
            checksum: None,
            trace_id: execution.trace_id.clone(),
            partial: self.partial,
            source: Some(source.clone()),
        };
        let batch = AcceptedBatch {
            metadata,
            payload_bytes: None,
            cnpjs,
            upload_expires_at: Some(Timestamp::now() + ARRIVES_WITHIN),
        };
        match self.accepted.put(&batch).await? {
            // An earlier attempt died after the copy.
            Stored::Arrived | Stored::Gone => return Ok(()),
            Stored::Written => {}
        }
        // Result and tags come before the copy, so that they cannot replace those of a final batch.
        self.write_result(source, version, &received(source, batch_id)).await?;
        let tags = ingestion::drops::tags(source, version.modified_at, StateToTag::Accepted(batch_id));
        let dropped = self.dropped_in(&source.bucket)?;
        dropped.tag_as(&source.key, source.version_id.as_deref(), &tags).await?;
        let copy = CopyOf {
            bucket: &source.bucket,
            encoded_key: &payload::encoded_key(&source.key),
            version,
            key: &batch.metadata.key(),
            content_type: name.media_type.as_str(),
            metadata: batch.metadata.to_map(),
        };
        self.copier.copy(copy).await?;
        self.accepted.note_arrival(name.tenant_id, batch_id).await?;
        tracing::info!(
            event_type = "drop.accepted",
            bytes = version.length,
            "object `{}` is accepted as batch {batch_id}: {} bytes",
            source.key,
            version.length
        );
        Ok(())
    }

    /// Returns the batch's time of receipt, by which the newest data are recognized: the time of
    /// the claim on the version's idempotency key. If the bucket keeps versions and this version is
    /// no longer the newest, returns the time at which it was written, because the newer version
    /// may have been claimed already. Later attempts keep the time of the first attempt that wrote
    /// the batch.
    async fn received_at(
        &self,
        found: &DroppedVersion,
        execution: &Execution,
    ) -> Result<Timestamp, IntakeError> {
        let DroppedVersion { source, version, .. } = found;
        let is_newest =
            version.id.is_none() || is_newest(&self.dropped_in(&source.bucket)?, source, version).await?;
        Ok(if is_newest { execution.created_at } else { written_at(version, execution) })
    }

    /// Returns the client for a bucket in which objects are dropped.
    ///
    /// # Errors
    /// If the deployment does not accept objects from the bucket.
    pub(crate) fn dropped_in(&self, bucket: &str) -> Result<Objects, IntakeError> {
        let is_known = bucket == self.objects.bucket() || Some(bucket) == self.drop_bucket.as_deref();
        is_known
            .then(|| self.objects.in_bucket(bucket))
            .ok_or_else(|| IntakeError::OtherBucket(bucket.to_owned()))
    }

    /// Writes the result file beside a dropped object for one of its versions. The result of a
    /// newer version must stay, so the write fails if the file changed since this call read it. A
    /// version that is no longer the newest gets no result; in a bucket that does not keep
    /// versions, the call then fails.
    pub(crate) async fn write_result(
        &self,
        source: &Source,
        version: &Version,
        result: &Value,
    ) -> Result<(), IntakeError> {
        let dropped = self.dropped_in(&source.bucket)?;
        let key = result_key(&source.key);
        let there = dropped.etag(&key).await?;
        if !is_newest(&dropped, source, version).await? {
            if version.id.is_some() {
                return Ok(());
            }
            return Err(ObjectError::Replaced { key: source.key.clone() }.into());
        }
        let result = result.to_string().into_bytes();
        Ok(dropped.put_over(&key, there, "application/json", result).await?)
    }
}

/// Returns the time at which S3 wrote the version, or the time of the claim on its idempotency key
/// if that is earlier. A later version of the object is written and claimed after that time.
fn written_at(version: &Version, execution: &Execution) -> Timestamp {
    version.modified_at.min(execution.created_at)
}

/// Derives the batch id of a dropped version from the claim on its idempotency key and the batch's
/// time of receipt.
fn batch_id(tenant_id: Uuid, execution: &Execution, received_at: Timestamp) -> Uuid {
    let Execution { idempotency_key, fingerprint, .. } = execution;
    payload::batch_id(tenant_id, idempotency_key, fingerprint.as_str(), received_at)
}

/// True if this version is still the current one: not replaced, and not deleted.
async fn is_newest(dropped: &Objects, source: &Source, version: &Version) -> Result<bool, ObjectError> {
    match dropped.version(&source.key, None).await {
        Ok(there) => Ok(there == *version),
        Err(ObjectError::Missing { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
