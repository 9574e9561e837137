//! Changes of a stored load test after its creation, up to its end.

use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue};
use jiff::Timestamp;
use mq::RateLimit;
use uuid::Uuid;

use crate::store::item::{self, TestItem, number, text, time};
use crate::store::record::{Control, Failure, Run, RunEnd, TestRecord, TestRun};
use crate::store::update::{self, Updated};
use crate::store::{Item, RETENTION, TestStore, TestStoreError};
use crate::{IllegalTransition, TestEvent, TestStatus};

/// Maximum number of characters that are stored of the reason why a test failed. The reason may
/// contain a broker's text of any length.
const MOST_DETAIL: usize = 1_000;

/// Result of applying an event to a load test.
enum Changed {
    /// The event was applied, and the test is in the state that follows it. The value has all
    /// attributes of the test's item.
    To(Item),
    /// The test has ended in this state before, so nothing changed.
    Final(TestStatus),
}

impl TestStore {
    /// Records the beginning of a test's run, and returns the run as it is stored. A repeated call
    /// keeps the first start and rate. The test becomes RUNNING, unless it is STOPPING already.
    ///
    /// # Errors
    /// If the table does not respond, or if the test does not exist or has ended.
    pub async fn begin_run(
        &self,
        of: &TestRun,
        rate: Option<RateLimit>,
        started_at: Timestamp,
    ) -> Result<Run, TestStoreError> {
        let begun = Run { rate_per_sec: rate, started_at, ended_at: None, passed: None, retained: None };
        let set = |update: UpdateItemFluentBuilder, _: TestStatus| {
            update
                .update_expression("SET #status = :to, runs.#run = if_not_exists(runs.#run, :run)")
                .expression_attribute_names("#run", item::run_number(of.run))
                .expression_attribute_values(":run", item::run_value(&begun))
        };
        match self.change(&of.tenant, of.test_id, TestEvent::Began, set).await? {
            Changed::To(item) => {
                let stored = TestItem::read(item)?.run(of.run);
                stored.ok_or_else(|| TestStoreError::unreadable("the item lacks the run that began"))
            }
            Changed::Final(status) => Err(IllegalTransition { status, event: TestEvent::Began }.into()),
        }
    }

    /// Records that a caller asked to stop a test at the time `now`, and returns the test after
    /// that; `None` if there is no such test. A repeated call keeps the time of the first. A test
    /// that has ended is left unchanged.
    ///
    /// # Errors
    /// If the table does not respond, or the test cannot be read.
    pub async fn request_stop(
        &self,
        tenant: &str,
        test_id: Uuid,
        now: Timestamp,
    ) -> Result<Option<TestRecord>, TestStoreError> {
        let set = |update: UpdateItemFluentBuilder, _: TestStatus| {
            update
                .update_expression(
                    "SET #status = :to, stopRequestedAt = if_not_exists(stopRequestedAt, :now)",
                )
                .expression_attribute_values(":now", time(now))
        };
        match self.change(tenant, test_id, TestEvent::StopRequested, set).await {
            Ok(_) => self.get(tenant, test_id).await,
            Err(TestStoreError::Unknown(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Records the reason why a test fails: up to 1,000 characters of `detail`, with the time `at`.
    /// A repeated call keeps the first reason. A test that has ended is left unchanged.
    ///
    /// # Errors
    /// If the table does not respond, or there is no such test.
    pub async fn fail(
        &self,
        tenant: &str,
        test_id: Uuid,
        at: Timestamp,
        detail: &str,
    ) -> Result<(), TestStoreError> {
        let failure = Failure { at, detail: detail.chars().take(MOST_DETAIL).collect() };
        let update = self
            .update_test(tenant, test_id)
            .update_expression("SET failure = if_not_exists(failure, :failure)")
            .condition_expression("attribute_exists(pk) AND attribute_not_exists(endedAt)")
            .expression_attribute_values(":failure", item::failure_value(&failure));
        unless_unknown(test_id, &update::send(update).await?)
    }

    /// Records the end of a test's run. A repeated call keeps the first end. A run that never began
    /// is left unchanged.
    ///
    /// # Errors
    /// If the table does not respond, or there is no such test.
    pub async fn end_run(&self, of: &TestRun, end: RunEnd) -> Result<(), TestStoreError> {
        let RunEnd { passed, retained, ended_at } = end;
        let mut update = self
            .update_test(&of.tenant, of.test_id)
            .condition_expression("attribute_exists(runs.#run) AND attribute_not_exists(runs.#run.endedAt)")
            .expression_attribute_names("#run", item::run_number(of.run))
            .expression_attribute_values(":endedAt", time(ended_at));
        let mut set = "SET runs.#run.endedAt = :endedAt".to_owned();
        if let Some(retained) = retained {
            set.push_str(", runs.#run.retained = :retained");
            update = update.expression_attribute_values(":retained", number(retained));
        }
        if let Some(passed) = passed {
            set.push_str(", runs.#run.passed = :passed");
            update = update.expression_attribute_values(":passed", AttributeValue::Bool(passed));
        }
        let update = update.update_expression(set);
        unless_unknown(of.test_id, &update::send(update).await?)
    }

    /// Records the final state of a test whose report is stored, and returns this state. The write
    /// succeeds only if the test's state and failure are still as in `seen`, from which the report
    /// was made. Returns `None` if they have changed since, or if the test was deleted.
    ///
    /// `summary` is the first line of the report. `passed` is ignored for a stopped test. A test
    /// that has ended before is left unchanged. The test expires [`RETENTION`] after `ended_at`.
    ///
    /// # Errors
    /// If the table does not respond, or if the test is still PENDING and has not failed.
    pub async fn end(
        &self,
        tenant: &str,
        test_id: Uuid,
        seen: Control,
        ended_at: Timestamp,
        summary: &str,
        passed: Option<bool>,
    ) -> Result<Option<TestStatus>, TestStoreError> {
        let to = seen.status.after(TestEvent::ReportStored(seen.ending()))?;
        if seen.status.is_final() {
            return Ok(Some(to));
        }
        let failure = if seen.failed { "attribute_exists(failure)" } else { "attribute_not_exists(failure)" };
        let mut set =
            "SET #status = :to, endedAt = :endedAt, summary = :summary, expiresAt = :expiresAt".to_owned();
        let mut update = self
            .update_test(tenant, test_id)
            // The state says whether the test was stopped.
            .condition_expression(format!("#status = :seen AND {failure}"))
            .expression_attribute_names("#status", "status")
            .expression_attribute_values(":seen", text(seen.status))
            .expression_attribute_values(":to", text(to))
            .expression_attribute_values(":endedAt", time(ended_at))
            .expression_attribute_values(":summary", text(summary))
            .expression_attribute_values(":expiresAt", item::expiry(ended_at, RETENTION));
        if let Some(passed) = passed.filter(|_| to != TestStatus::Stopped) {
            set.push_str(", passed = :passed");
            update = update.expression_attribute_values(":passed", AttributeValue::Bool(passed));
        }
        match update::send(update.update_expression(set)).await? {
            Updated::Done(_) => Ok(Some(to)),
            Updated::Refused(None) => Ok(None),
            // The same end may have been written before, by a request whose answer was lost. One of
            // another close has a report of its own, even if the state is the same.
            Updated::Refused(Some(item)) => Ok(TestItem::read(item)?.has_ended(to, summary).then_some(to)),
        }
    }

    /// Applies an event to a test, and returns the result. If the test's state has changed since it
    /// was read, tries again with the newer state. `set` adds the update expression to the request;
    /// in it, `:to` stands for the next state.
    async fn change(
        &self,
        tenant: &str,
        test_id: Uuid,
        event: TestEvent,
        set: impl Fn(UpdateItemFluentBuilder, TestStatus) -> UpdateItemFluentBuilder,
    ) -> Result<Changed, TestStoreError> {
        let control = self.control(tenant, test_id).await?;
        let mut status = control.ok_or(TestStoreError::Unknown(test_id))?.status;
        loop {
            let next = status.after(event)?;
            if status.is_final() {
                return Ok(Changed::Final(status));
            }
            let update = self
                .update_test(tenant, test_id)
                .condition_expression("#status = :from")
                .expression_attribute_names("#status", "status")
                .expression_attribute_values(":from", text(status))
                .expression_attribute_values(":to", text(next))
                .return_values(ReturnValue::AllNew);
            match update::send(set(update, next)).await? {
                Updated::Done(item) => return Ok(Changed::To(item)),
                Updated::Refused(None) => return Err(TestStoreError::Unknown(test_id)),
                // Another call changed the state. States only go forward, so this ends.
                Updated::Refused(Some(item)) => status = item::control(item)?.status,
            }
        }
    }

    /// Creates a request that updates a test's item. The caller adds the update expression.
    pub(crate) fn update_test(&self, tenant: &str, test_id: Uuid) -> UpdateItemFluentBuilder {
        self.dynamodb.update_item().table_name(&self.table).set_key(Some(item::test_key(tenant, test_id)))
    }
}

/// Returns an error if an update was refused because the test does not exist.
fn unless_unknown(test_id: Uuid, updated: &Updated) -> Result<(), TestStoreError> {
    match updated {
        Updated::Done(_) | Updated::Refused(Some(_)) => Ok(()),
        Updated::Refused(None) => Err(TestStoreError::Unknown(test_id)),
    }
}
