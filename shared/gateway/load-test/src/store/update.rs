//! Conditional updates of DynamoDB items.

use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure;

use crate::store::{Item, TestStoreError};

/// Result of a conditional update of a DynamoDB item.
#[derive(Debug)]
pub(crate) enum Updated {
    /// The condition held, and the item was updated. The value has the attributes that the request
    /// asked DynamoDB to return.
    Done(Item),
    /// The condition failed, and nothing was updated. The value is the existing item; `None` if
    /// there is no such item.
    Refused(Option<Item>),
}

/// Sends a conditional update. A condition that does not hold is a result and not an error.
pub(crate) async fn send(update: UpdateItemFluentBuilder) -> Result<Updated, TestStoreError> {
    let update = update.return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    match update.send().await {
        Ok(done) => Ok(Updated::Done(done.attributes.unwrap_or_default())),
        Err(SdkError::ServiceError(answer)) => match answer.into_err() {
            UpdateItemError::ConditionalCheckFailedException(failed) => {
                Ok(Updated::Refused(failed.item.filter(|item| !item.is_empty())))
            }
            error => Err(TestStoreError::unavailable(error)),
        },
        Err(error) => Err(TestStoreError::unavailable(error)),
    }
}
