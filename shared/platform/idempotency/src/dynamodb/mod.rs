//! Idempotency records in DynamoDB: the protocol's writes as conditional writes, and items as
//! records.

use std::collections::HashMap;
use std::fmt::Display;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure};
use jiff::Timestamp;

use crate::claim::ClaimRequest;
use crate::error::StoreError;
use crate::execution::Volume;
use crate::protocol::{Record, Token, Transition};

mod expression;
mod item;

pub(crate) use item::record;

use expression::{Expression, doubt_noted, expression};

type Item = HashMap<String, AttributeValue>;

/// Initial capacity of a map of attribute values: more than any write of a record needs.
const MOST_ATTRIBUTES: usize = 28;

/// Attributes that a write stores besides those of the protocol: about the request at a claim or
/// takeover, and about the duration, the volume and the error at the end of an attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Detail<'a> {
    Request(&'a ClaimRequest<'a>),
    Took { took: Duration, volume: Option<Volume> },
    Failed { took: Duration, volume: Option<Volume>, error: &'a str, in_doubt: u64 },
    None,
}

/// Makes a conditional write. Returns the existing record as an inner error if it fails the write's
/// condition.
pub(crate) async fn write(
    dynamodb: &Client,
    table: &str,
    pk: &str,
    transition: &Transition,
    detail: Detail<'_>,
) -> Result<Result<(), Record>, StoreError> {
    if let (Transition::Claim { .. }, Some(record)) = (transition, transition.apply(None)) {
        return put(dynamodb, table, pk, &record, detail).await;
    }
    match update(dynamodb, table, pk, expression(transition, detail)).await? {
        Ok(()) => Ok(Ok(())),
        Err(found) => in_the_way(found).map(Err),
    }
}

/// Makes a conditional update. Returns the existing item, if any, as an inner error if the
/// condition fails.
async fn update(
    dynamodb: &Client,
    table: &str,
    pk: &str,
    expression: Expression,
) -> Result<Result<(), Option<Item>>, StoreError> {
    let update = dynamodb
        .update_item()
        .table_name(table)
        .key("pk", text(pk))
        .update_expression(expression.update())
        .condition_expression(expression.condition)
        .set_expression_attribute_names(Some(expression.names))
        .set_expression_attribute_values(Some(expression.values))
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    match update.send().await {
        Ok(_) => Ok(Ok(())),
        Err(SdkError::ServiceError(error)) if error.err().is_conditional_check_failed_exception() => {
            match error.into_err() {
                UpdateItemError::ConditionalCheckFailedException(failed) => Ok(Err(failed.item)),
                other => Err(StoreError::unavailable(other)),
            }
        }
        Err(error) => Err(StoreError::unavailable(error)),
    }
}

/// Reads a record with strong consistency; `None` if it does not exist.
pub(crate) async fn read(dynamodb: &Client, table: &str, pk: &str) -> Result<Option<Record>, StoreError> {
    let get = dynamodb.get_item().table_name(table).key("pk", text(pk)).consistent_read(true);
    let item = get.send().await.map_err(StoreError::unavailable)?.item;
    item.map(record).transpose()
}

/// Sets `doubtNotedAt` on a prepared record, because it is unknown whether the effect of its
/// response is final. The protocol ignores this attribute. Returns false if the execution with this
/// token does not own the prepared record any more.
pub(crate) async fn note_doubt(
    dynamodb: &Client,
    table: &str,
    pk: &str,
    token: &Token,
    now: Timestamp,
) -> Result<bool, StoreError> {
    Ok(update(dynamodb, table, pk, doubt_noted(token, now)).await?.is_ok())
}

async fn put(
    dynamodb: &Client,
    table: &str,
    pk: &str,
    record: &Record,
    detail: Detail<'_>,
) -> Result<Result<(), Record>, StoreError> {
    let mut item = Item::with_capacity(MOST_ATTRIBUTES);
    item.extend([
        ("pk".to_owned(), text(pk)),
        ("requestHash".to_owned(), text(&record.request_hash)),
        ("status".to_owned(), text(record.status.as_str())),
        ("owner".to_owned(), text(&record.owner)),
        ("attempt".to_owned(), number(record.attempt)),
        ("leaseExpiresAt".to_owned(), number(record.lease_expires_at)),
        // By this attribute, a filter of the table's stream recognizes a claim over an expired
        // record.
        ("checkpoint".to_owned(), number(record.progress.done)),
        ("possibleDuplicates".to_owned(), number(record.progress.repeated)),
        ("createdAt".to_owned(), iso(record.created_at)),
        ("updatedAt".to_owned(), iso(record.updated_at)),
        ("expiresAt".to_owned(), iso(record.expires_at)),
        ("ttl".to_owned(), ttl(record.expires_at)),
    ]);
    if let Detail::Request(request) = detail {
        item.extend([
            ("operationType".to_owned(), text(request.operation.as_str())),
            ("idempotencyKey".to_owned(), text(request.key.as_str())),
            ("tenantId".to_owned(), text(request.tenant)),
            ("traceId".to_owned(), text(request.trace_id)),
        ]);
        if !request.key_name.is_empty() {
            item.insert("keyName".to_owned(), text(request.key_name));
        }
        // An index has no empty keys.
        if !request.target.is_empty() {
            item.insert("target".to_owned(), text(request.target));
        }
        let rights = request.rights.map(|rights| ("requestRights".to_owned(), text(rights.as_str())));
        item.extend(rights);
    }
    let put = dynamodb
        .put_item()
        .table_name(table)
        .set_item(Some(item))
        .condition_expression("attribute_not_exists(pk) OR (expiresAt <= :now AND leaseExpiresAt <= :nowMs)")
        .expression_attribute_values(":now", iso(record.created_at))
        .expression_attribute_values(":nowMs", number(record.created_at.as_millisecond()))
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    match put.send().await {
        Ok(_) => Ok(Ok(())),
        Err(SdkError::ServiceError(error)) if error.err().is_conditional_check_failed_exception() => {
            match error.into_err() {
                PutItemError::ConditionalCheckFailedException(failed) => in_the_way(failed.item).map(Err),
                other => Err(StoreError::unavailable(other)),
            }
        }
        Err(error) => Err(StoreError::unavailable(error)),
    }
}

fn in_the_way(item: Option<Item>) -> Result<Record, StoreError> {
    record(item.ok_or_else(|| StoreError::unreadable("a failed condition came without its record"))?)
}

pub(crate) fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

pub(crate) fn number(value: impl Display) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

/// Formats a time as ISO 8601, always with milliseconds, so that the texts sort like the times.
fn iso(time: Timestamp) -> AttributeValue {
    AttributeValue::S(format!("{time:.3}"))
}

/// Converts an expiry time to DynamoDB's TTL: whole seconds since 1970, always after the exact
/// time.
pub(crate) fn ttl(expires_at: Timestamp) -> AttributeValue {
    number(expires_at.as_second() + 1)
}

#[cfg(test)]
mod tests;
