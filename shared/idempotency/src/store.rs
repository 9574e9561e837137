//! The records in DynamoDB. Every write is conditional, and its doc comment says on what.

use std::collections::HashMap;
use std::time::Duration;

use api::Reply;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{DisplayErrorContext, SdkError};
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure};
use jiff::Timestamp;
use uuid::Uuid;

use crate::claim::{ClaimRequest, Claimed, decide};
use crate::execution::{Execution, Outcome};
use crate::record::{Record, Status};

/// How often a lost race is looked at again before the answer is "in progress".
const RACES: usize = 3;

/// The store did not answer, or holds something that is not a record. What was asked was not done, as far as is known.
#[derive(Debug, thiserror::Error)]
#[error("the idempotency store is unavailable: {0}")]
pub struct StoreError(String);

/// Whether a finishing write found its record still its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    Written,
    /// Another execution owns the record by now; nothing was written.
    Superseded,
}

/// The table of records.
#[derive(Clone, Debug)]
pub struct Store {
    dynamodb: Client,
    table: String,
}

impl Store {
    pub fn new(dynamodb: Client, table: String) -> Self {
        Self { dynamodb, table }
    }

    /// Claims the right to execute, by `<operation>#<tenant>#<key>`: one put, on the condition that there is no record, or an
    /// expired one whose lease is over. Where the condition fails, the record that comes back decides; a takeover is
    /// a second write, on the condition that its owner and attempt are still those.
    ///
    /// # Errors
    /// When the store cannot be reached; then nothing may be executed.
    pub async fn claim(&self, request: &ClaimRequest<'_>) -> Result<Claimed, StoreError> {
        let owner = Uuid::now_v7().to_string();
        let mut in_the_way = match self.put(request, &owner).await? {
            Ok(execution) => return Ok(Claimed::Execute(execution)),
            Err(record) => record,
        };
        for _ in 0..RACES {
            if in_the_way.owner == owner {
                // The first write was done and only its answer lost: nothing has run yet.
                let attempt = in_the_way.attempt;
                return Ok(Claimed::Execute(claimed(request, &owner, attempt, in_the_way.updated_at, None)));
            }
            match decide(&in_the_way, request.fingerprint, Timestamp::now()) {
                Some(claimed) => return Ok(claimed),
                None => match self.take_over(request, &in_the_way, &owner).await? {
                    Ok(claimed) => return Ok(claimed),
                    Err(record) => in_the_way = record,
                },
            }
        }
        Ok(Claimed::InProgress { retry_after: Duration::from_secs(1) })
    }

    async fn put(
        &self,
        request: &ClaimRequest<'_>,
        owner: &str,
    ) -> Result<Result<Execution, Record>, StoreError> {
        let now = now();
        let execution = claimed(request, owner, 1, now, None);
        let expires_at = now + request.retention.max(Execution::lease());
        let put = self
            .dynamodb
            .put_item()
            .table_name(&self.table)
            .item("pk", text(&execution.pk))
            .item("operationType", text(request.operation.as_str()))
            .item("idempotencyKey", text(request.key.as_str()))
            .item("tenantId", text(request.tenant))
            .item("target", text(request.target))
            .item("traceId", text(request.trace_id))
            .item("requestHash", text(request.fingerprint.as_str()))
            .item("status", text(Status::InProgress.as_str()))
            .item("owner", text(owner))
            .item("attempt", number(1))
            .item("leaseExpiresAt", number(lease_end(now)))
            .item("createdAt", iso(now))
            .item("updatedAt", iso(now))
            .item("expiresAt", iso(expires_at))
            .item("ttl", ttl(expires_at))
            .condition_expression(
                "attribute_not_exists(pk) OR (expiresAt <= :now AND leaseExpiresAt <= :nowMs)",
            )
            .expression_attribute_values(":now", iso(now))
            .expression_attribute_values(":nowMs", number(now.as_millisecond()))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        match put.send().await {
            Ok(_) => Ok(Ok(execution)),
            Err(SdkError::ServiceError(error)) if error.err().is_conditional_check_failed_exception() => {
                match error.into_err() {
                    PutItemError::ConditionalCheckFailedException(failed) => record(failed.item).map(Err),
                    other => Err(StoreError(DisplayErrorContext(other).to_string())),
                }
            }
            Err(error) => Err(StoreError(DisplayErrorContext(error).to_string())),
        }
    }

    /// Takes an execution over, on the condition that the record's owner, attempt and status are still those of
    /// `previous`. Keeps its checkpoint, its creation time and, where it was prepared, its reply.
    async fn take_over(
        &self,
        request: &ClaimRequest<'_>,
        previous: &Record,
        owner: &str,
    ) -> Result<Result<Claimed, Record>, StoreError> {
        let now = now();
        let status = if previous.status == Status::Prepared { Status::Prepared } else { Status::InProgress };
        let expires_at = now + request.retention.max(Execution::lease());
        let update = self
            .update(&request.pk())
            .update_expression(
                "SET #status = :status, #owner = :owner, attempt = :attempt, leaseExpiresAt = :lease, \
                 traceId = :traceId, updatedAt = :now, expiresAt = :expiresAt, #ttl = :ttl REMOVE errorMessage",
            )
            .condition_expression("#owner = :oldOwner AND attempt = :oldAttempt AND #status = :oldStatus")
            .expression_attribute_names("#owner", "owner")
            .expression_attribute_names("#ttl", "ttl")
            .expression_attribute_values(":status", text(status.as_str()))
            .expression_attribute_values(":owner", text(owner))
            .expression_attribute_values(":attempt", number(i64::from(previous.attempt) + 1))
            .expression_attribute_values(":lease", number(lease_end(now)))
            .expression_attribute_values(":traceId", text(request.trace_id))
            .expression_attribute_values(":now", iso(now))
            .expression_attribute_values(":expiresAt", iso(expires_at))
            .expression_attribute_values(":ttl", ttl(expires_at))
            .expression_attribute_values(":oldOwner", text(&previous.owner))
            .expression_attribute_values(":oldAttempt", number(previous.attempt.into()))
            .expression_attribute_values(":oldStatus", text(previous.status.as_str()));
        if let Some(record) = Self::conditional(update).await? {
            return Ok(Err(record));
        }
        let attempt = previous.attempt.saturating_add(1);
        let execution = claimed(request, owner, attempt, now, Some(previous));
        Ok(Ok(match (status, previous.reply()) {
            (Status::Prepared, Some(reply)) => Claimed::InDoubt { execution, reply },
            _ => Claimed::Execute(execution),
        }))
    }

    /// Stores the reply before the broker is told to commit, on the condition that the record is still in progress
    /// under the execution's owner and attempt.
    ///
    /// # Errors
    /// When the store cannot be reached; whether the reply was stored is not known then.
    pub async fn prepare(&self, execution: &Execution, reply: &Reply) -> Result<Finished, StoreError> {
        let update = self.of_execution(execution, Status::Prepared).update_expression(
            "SET #status = :status, updatedAt = :now, httpStatus = :httpStatus, responseHeaders = :headers, \
                 responsePayload = :payload, responseDigest = :digest",
        );
        self.settle(execution, Status::Prepared, with_reply(update, reply)).await
    }

    /// Ends the execution, on the condition that the record is in progress or prepared under its owner and attempt. From then on
    /// the retention counts.
    ///
    /// # Errors
    /// When the store cannot be reached; the record is then left to its lease.
    pub async fn finish(&self, execution: &Execution, outcome: &Outcome) -> Result<Finished, StoreError> {
        let now = now();
        let expires_at = now + Duration::from_secs(execution.retention_seconds);
        let duration = now.as_millisecond().saturating_sub(execution.claimed_at.as_millisecond());
        let end = "SET #status = :status, updatedAt = :now, leaseExpiresAt = :ended, expiresAt = :expiresAt, \
                           #ttl = :ttl, durationMs = :duration";
        let ended = |status| {
            self.of_execution(execution, status)
                .expression_attribute_names("#ttl", "ttl")
                .expression_attribute_values(":ended", number(0))
                .expression_attribute_values(":expiresAt", iso(expires_at))
                .expression_attribute_values(":ttl", ttl(expires_at))
                .expression_attribute_values(":duration", number(duration))
        };
        match outcome {
            Outcome::Completed(reply) => {
                let update = ended(Status::Completed).update_expression(format!(
                    "{end}, httpStatus = :httpStatus, responseHeaders = :headers, responsePayload = :payload, \
                     responseDigest = :digest REMOVE errorMessage"
                ));
                self.settle(execution, Status::Completed, with_reply(update, reply)).await
            }
            Outcome::Failed { error, checkpoint, in_doubt } => {
                let update = ended(Status::Failed)
                    .update_expression(format!(
                        "{end}, errorMessage = :error, checkpoint = :checkpoint, inDoubt = :inDoubt"
                    ))
                    .expression_attribute_values(":error", text(error))
                    .expression_attribute_values(":checkpoint", AttributeValue::N(checkpoint.to_string()))
                    .expression_attribute_values(":inDoubt", AttributeValue::N(in_doubt.to_string()));
                self.settle(execution, Status::Failed, update).await
            }
        }
    }

    fn update(&self, pk: &str) -> UpdateItemFluentBuilder {
        self.dynamodb
            .update_item()
            .table_name(&self.table)
            .key("pk", text(pk))
            .expression_attribute_names("#status", "status")
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
    }

    /// An update that only the execution's own, unfinished record takes.
    fn of_execution(&self, execution: &Execution, status: Status) -> UpdateItemFluentBuilder {
        self.update(&execution.pk)
            .condition_expression(
                "#owner = :owner AND attempt = :attempt AND #status IN (:inProgress, :prepared)",
            )
            .expression_attribute_names("#owner", "owner")
            .expression_attribute_values(":owner", text(&execution.owner))
            .expression_attribute_values(":attempt", number(execution.attempt.into()))
            .expression_attribute_values(":inProgress", text(Status::InProgress.as_str()))
            .expression_attribute_values(":prepared", text(Status::Prepared.as_str()))
            .expression_attribute_values(":status", text(status.as_str()))
            .expression_attribute_values(":now", iso(now()))
    }

    /// Sends a write of the execution's own. One that finds itself already done lost only its answer.
    async fn settle(
        &self,
        execution: &Execution,
        status: Status,
        update: UpdateItemFluentBuilder,
    ) -> Result<Finished, StoreError> {
        Ok(match Self::conditional(update).await? {
            None => Finished::Written,
            Some(found)
                if found.owner == execution.owner
                    && found.attempt == execution.attempt
                    && found.status == status =>
            {
                Finished::Written
            }
            Some(_) => Finished::Superseded,
        })
    }

    /// Sends a conditional update; returns the record that its condition met where it failed.
    async fn conditional(update: UpdateItemFluentBuilder) -> Result<Option<Record>, StoreError> {
        match update.send().await {
            Ok(_) => Ok(None),
            Err(SdkError::ServiceError(error)) if error.err().is_conditional_check_failed_exception() => {
                match error.into_err() {
                    UpdateItemError::ConditionalCheckFailedException(failed) => record(failed.item).map(Some),
                    other => Err(StoreError(DisplayErrorContext(other).to_string())),
                }
            }
            Err(error) => Err(StoreError(DisplayErrorContext(error).to_string())),
        }
    }

    /// Reads a record that need not exist.
    ///
    /// # Errors
    /// When the store cannot be reached.
    pub async fn probe(&self) -> Result<(), StoreError> {
        let probe = self.dynamodb.get_item().table_name(&self.table).key("pk", text("PROBE#"));
        probe.send().await.map(|_| ()).map_err(|error| StoreError(DisplayErrorContext(error).to_string()))
    }
}

fn claimed(
    request: &ClaimRequest<'_>,
    owner: &str,
    attempt: u32,
    now: Timestamp,
    previous: Option<&Record>,
) -> Execution {
    Execution {
        pk: request.pk(),
        owner: owner.to_owned(),
        attempt,
        start_before: (now + Execution::START_WITHIN).as_millisecond(),
        retention_seconds: request.retention.as_secs(),
        tenant: request.tenant.to_owned(),
        idempotency_key: request.key.as_str().to_owned(),
        fingerprint: request.fingerprint.clone(),
        created_at: previous.map_or(now, |record| record.created_at),
        claimed_at: now,
        checkpoint: previous.and_then(|record| record.checkpoint).unwrap_or_default(),
        in_doubt: previous.map(Record::doubt).unwrap_or_default(),
    }
}

fn with_reply(update: UpdateItemFluentBuilder, reply: &Reply) -> UpdateItemFluentBuilder {
    let headers: HashMap<_, _> =
        reply.headers.iter().map(|(name, value)| (name.clone(), text(value))).collect();
    update
        .expression_attribute_values(":httpStatus", number(reply.status.into()))
        .expression_attribute_values(":headers", AttributeValue::M(headers))
        .expression_attribute_values(":payload", text(&reply.body))
        .expression_attribute_values(":digest", text(&reply.content_digest()))
}

fn record(item: Option<HashMap<String, AttributeValue>>) -> Result<Record, StoreError> {
    let item = item.ok_or_else(|| StoreError("a failed condition came without its record".to_owned()))?;
    serde_dynamo::from_item(item).map_err(|error| StoreError(format!("a record has another form: {error}")))
}

fn lease_end(now: Timestamp) -> i64 {
    (now + Execution::lease()).as_millisecond()
}

/// Records keep milliseconds; what derives from a time must not see more of it the first time than later.
fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
}

fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

fn number(value: i64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

/// ISO 8601 with milliseconds always, so that times compare as text.
fn iso(time: Timestamp) -> AttributeValue {
    AttributeValue::S(format!("{time:.3}"))
}

/// DynamoDB's TTL, in whole seconds, never before the expiry.
fn ttl(expires_at: Timestamp) -> AttributeValue {
    number(expires_at.as_second() + 1)
}
