//! Table of the rate limiter's buckets: in DynamoDB, or in memory for tests.

mod item;
#[cfg(test)]
pub(crate) mod memory;

use std::error::Error;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{DisplayErrorContext, SdkError};
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure};

use crate::limits::bucket::Bucket;
use crate::limits::gcra::Write;
use crate::limits::share::DrawOutcome;

/// Time limit of a write that takes units from a bucket, while the request waits. The first call of
/// a new environment often takes several hundred milliseconds, because it connects.
pub const TIMEOUT: Duration = Duration::from_secs(1);

/// Table of the rate limiter's buckets.
#[derive(Clone, Debug)]
pub(crate) enum Table {
    DynamoDb {
        client: Client,
        name: String,
    },
    /// In-memory table for tests, which applies the same conditions to writes as DynamoDB.
    #[cfg(test)]
    Memory(memory::Memory),
}

/// Error of a failed call to the table, as text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unavailable(String);

impl Table {
    /// Takes units from a bucket by a conditional write. If DynamoDB's response is lost, the units
    /// may be taken twice. Half of them then remain unused, but no request is admitted beyond the
    /// limit.
    pub(crate) async fn write(&self, pk: &str, write: &Write) -> Result<DrawOutcome, Unavailable> {
        match self {
            Self::DynamoDb { client, name } => {
                let update = update(client, name, pk, write);
                tokio::time::timeout(TIMEOUT, update).await.map_err(|late| unavailable(&late))?
            }
            #[cfg(test)]
            Self::Memory(memory) => memory.write(pk, write),
        }
    }

    /// Reads a bucket; `None` if it has no item, because no units were taken for a long time.
    pub(crate) async fn read(&self, pk: &str) -> Result<Option<Bucket>, Unavailable> {
        match self {
            Self::DynamoDb { client, name } => {
                let get = client.get_item().table_name(name).key("pk", text(pk));
                let output = get.send().await.map_err(|error| Unavailable(context(error)))?;
                output.item.as_ref().map(item::bucket).transpose().map_err(|error| unavailable(&error))
            }
            #[cfg(test)]
            Self::Memory(memory) => memory.read(pk),
        }
    }
}

async fn update(client: &Client, table: &str, pk: &str, write: &Write) -> Result<DrawOutcome, Unavailable> {
    let update = client
        .update_item()
        .table_name(table)
        .key("pk", text(pk))
        .update_expression(item::update(write))
        .condition_expression(item::condition(write))
        .set_expression_attribute_values(Some(item::values(write)))
        .return_values(ReturnValue::AllNew)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    let found = match update.send().await {
        Ok(output) => {
            let item = output.attributes.ok_or(item::ItemError).map_err(|error| unavailable(&error))?;
            item::bucket(&item).map(DrawOutcome::Made)
        }
        Err(SdkError::ServiceError(error)) if error.err().is_conditional_check_failed_exception() => {
            match error.into_err() {
                UpdateItemError::ConditionalCheckFailedException(failed) => {
                    failed.item.as_ref().map(item::bucket).transpose().map(DrawOutcome::Refused)
                }
                other => return Err(Unavailable(context(other))),
            }
        }
        Err(error) => return Err(Unavailable(context(error))),
    };
    found.map_err(|error| unavailable(&error))
}

fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

fn context(error: impl Error) -> String {
    DisplayErrorContext(error).to_string()
}

fn unavailable(error: &dyn Error) -> Unavailable {
    Unavailable(error.to_string())
}
