//! Load tests that ended, each counted once.

use aws_sdk_dynamodb::types::{Put, TransactWriteItem};
use jiff::Timestamp;

use super::update::addition;
use super::{UsageTable, key_of, number};
use crate::chunk::Delta;
use crate::counts::{Counts, EndedTests};
use crate::error::UsageError;
use crate::hour::Hour;
use crate::key::{self, Key};

/// Operation of the requests that start a load test, whose lines have its end too.
const OPERATION: &str = "load_test";

/// A load test that ended.
#[derive(Clone, Copy, Debug)]
pub struct EndedTest<'a> {
    /// Id of the tenant whose load test ended.
    pub tenant: &'a str,
    /// Name of the API key or token that started the test; empty if it was not recorded.
    pub key_name: &'a str,
    /// Id of the load test.
    pub id: &'a str,
    /// Time at which the test was accepted. It counts on that day.
    pub created_at: Timestamp,
    /// State in which the test ended, as a count of 1.
    pub state: EndedTests,
}

impl EndedTest<'_> {
    /// Builds the writes that count the test, unless the note is there that it is counted.
    fn writes(&self, table: &str) -> Result<Vec<TransactWriteItem>, UsageError> {
        let key = Key::of_day(Hour::of(self.created_at).day(), self.tenant, OPERATION, self.key_name);
        let mut note = key_of(&key::test_pk(self.id), key::ENDED);
        note.extend(key.ttl.map(|ttl| ("ttl".to_owned(), number(ttl))));
        let put = Put::builder()
            .table_name(table)
            .set_item(Some(note))
            .condition_expression("attribute_not_exists(pk)")
            .build()
            .map_err(UsageError::unavailable)?;
        let counts = Counts { tests: self.state, ..Counts::default() };
        let added = addition(&key, Delta::adding(&counts)).write(table, None)?;
        Ok(vec![TransactWriteItem::builder().put(put).build(), added])
    }
}

impl UsageTable {
    /// Counts a load test that ended, by its id: a repeated call changes nothing. No hour includes
    /// it, because the hour of the test's start is published long before its end.
    ///
    /// # Errors
    /// If the table is unavailable. A further call counts the test if this one did not.
    pub async fn count_test(&self, test: &EndedTest<'_>) -> Result<(), UsageError> {
        self.transact(test.writes(&self.table)?).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_counted_once_on_the_day_of_its_start() {
        let test = EndedTest {
            tenant: "acme",
            key_name: "till 1",
            id: "019a0b5e",
            created_at: "2026-11-27T23:59:59Z".parse().unwrap(),
            state: EndedTests { stopped: 1, ..EndedTests::default() },
        };
        let writes = test.writes("usage").unwrap();
        let note = writes[0].put().unwrap();
        assert_eq!(note.condition_expression(), Some("attribute_not_exists(pk)"));
        assert_eq!(note.item()["pk"].as_s().unwrap(), "TEST#019a0b5e");
        let added = writes[1].update().unwrap();
        assert_eq!(added.key()["pk"].as_s().unwrap(), "DAY#2026-11-27");
        assert_eq!(added.key()["sk"].as_s().unwrap(), "acme#load_test#till 1");
        assert_eq!(added.update_expression(), "ADD #testsStopped :testsStopped SET #ttl = :ttl");
        assert_eq!(
            (writes.len(), &note.item()["ttl"]),
            (2, &added.expression_attribute_values().unwrap()[":ttl"])
        );
    }
}
