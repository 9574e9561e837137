//! Claim of a step (a worker's attempt at one minute of the test) by the invocation that does its
//! work. A claim supersedes earlier attempts at the same minute.

use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure;
use futures_util::future::try_join_all;
use jiff::Timestamp;
use uuid::Uuid;

use super::Handled;
use super::earlier::Earlier;
use super::key::{StepKey, of_worker};
use crate::Step;
use crate::store::item::{named, number, text};
use crate::store::{TestStore, TestStoreError, expiry_of_open};

/// Number of items of a worker's earlier steps (attempts at a minute of the test) that one DynamoDB
/// request reads.
const PAGE: i32 = 8;

impl TestStore {
    /// Claims a step (one attempt of a lane to work in one minute of the test) for the calling
    /// invocation. Returns the number of messages that the worker sent or took before this step;
    /// `None` if another invocation has claimed the step, or if a later attempt exists. Earlier
    /// attempts at the same minute are superseded, even one that has not claimed its step yet: from
    /// now on the store refuses their counts.
    ///
    /// The worker's invocation for the previous minute may still be at work, so the number may
    /// grow. A worker that is limited to a number of messages calls [`handled`](Self::handled)
    /// again when its minute begins.
    ///
    /// # Errors
    /// If the table does not respond.
    pub async fn claim(
        &self,
        test_id: Uuid,
        run: u32,
        step: Step,
    ) -> Result<Option<Handled>, TestStoreError> {
        let lower = (0..step.attempt).map(|attempt| Step { attempt, ..step });
        try_join_all(lower.map(|lower| self.supersede(test_id, run, lower, step.attempt))).await?;
        let earlier = self.earlier(test_id, run, step).await?;
        if !self.put_claim(test_id, run, step, earlier.settled(step.window.number())).await? {
            return Ok(None);
        }
        Ok(Some(earlier.handled(step.window.number())))
    }

    /// Reads the number of messages that a worker sent or took before `step` (its attempt at a
    /// minute of the test), as far as its counts are stored.
    ///
    /// # Errors
    /// If the table does not respond.
    pub async fn handled(&self, test_id: Uuid, run: u32, step: Step) -> Result<Handled, TestStoreError> {
        Ok(self.earlier(test_id, run, step).await?.handled(step.window.number()))
    }

    /// Marks an earlier attempt at the same minute of the test as superseded by attempt `by`,
    /// whether or not the earlier attempt has claimed the minute.
    async fn supersede(&self, test_id: Uuid, run: u32, step: Step, by: u32) -> Result<(), TestStoreError> {
        let update = self
            .dynamodb
            .update_item()
            .table_name(&self.table)
            .set_key(Some(StepKey::of(test_id, run, step).item()))
            .update_expression(
                "SET supersededBy = if_not_exists(supersededBy, :by), \
                 expiresAt = if_not_exists(expiresAt, :expiresAt)",
            )
            .expression_attribute_values(":by", number(by))
            .expression_attribute_values(":expiresAt", expiry_of_open(Timestamp::now()));
        update.send().await.map(drop).map_err(TestStoreError::unavailable)
    }

    /// Creates the item of a step (an attempt at a minute of the test), which claims the step.
    /// `settled` is the number of messages that the worker handled in all minutes before the
    /// previous one. False if another call has created the item. If the SDK repeats this call after
    /// a lost response, the first write counts as this call's.
    async fn put_claim(
        &self,
        test_id: Uuid,
        run: u32,
        step: Step,
        settled: u64,
    ) -> Result<bool, TestStoreError> {
        let claimed_by = text(Uuid::new_v4());
        let mut item = StepKey::of(test_id, run, step).item();
        item.extend(named([
            ("claimedBy", claimed_by.clone()),
            ("handled", number(0)),
            ("settled", number(settled)),
            ("written", number(0)),
            ("expiresAt", expiry_of_open(Timestamp::now())),
        ]));
        let put = self
            .dynamodb
            .put_item()
            .table_name(&self.table)
            .set_item(Some(item))
            .condition_expression("attribute_not_exists(pk)")
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        match put.send().await {
            Ok(_) => Ok(true),
            Err(SdkError::ServiceError(answer)) => match answer.into_err() {
                PutItemError::ConditionalCheckFailedException(failed) => {
                    Ok(failed.item.is_some_and(|item| item.get("claimedBy") == Some(&claimed_by)))
                }
                error => Err(TestStoreError::unavailable(error)),
            },
            Err(error) => Err(TestStoreError::unavailable(error)),
        }
    }

    /// Reads the items of a worker's steps (attempts at a minute of the test) before `step`, from
    /// the newest back, until the number of messages that the worker handled in all of them is
    /// known.
    async fn earlier(&self, test_id: Uuid, run: u32, step: Step) -> Result<Earlier, TestStoreError> {
        let mut earlier = Earlier::default();
        let key = StepKey::of(test_id, run, step);
        let own = text(&key.sort);
        let query = self
            .dynamodb
            .query()
            .table_name(&self.table)
            .key_condition_expression("pk = :pk AND sk BETWEEN :first AND :own")
            .expression_attribute_values(":pk", text(&key.partition))
            .expression_attribute_values(":first", text(of_worker(run, step.lane.worker)))
            .expression_attribute_values(":own", own.clone())
            .projection_expression("sk, handled, settled")
            .consistent_read(true)
            .scan_index_forward(false)
            .limit(PAGE);
        let mut items = query.into_paginator().items().send();
        while let Some(item) = items.try_next().await.map_err(TestStoreError::unavailable)? {
            if item.get("sk") != Some(&own) && !earlier.read(&item) {
                break;
            }
        }
        Ok(earlier)
    }
}
