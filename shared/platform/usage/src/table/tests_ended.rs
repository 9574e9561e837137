//! Counting of load tests that ended, each of them once.

use aws_sdk_dynamodb::types::{Put, TransactWriteItem};
use jiff::Timestamp;

use super::update::addition;
use super::{UsageTable, key_of, number};
use crate::chunk::Delta;
use crate::counts::{Counts, EndedTests};
use crate::error::UsageError;
use crate::hour::Hour;
use crate::key::{self, Key};

/// Name of the operation in the usage lines that count ended load tests. The requests that start
/// load tests are counted under the same name.
const OPERATION: &str = "load_test";

/// Load test that has ended, with all that is needed to count it as usage.
#[derive(Clone, Copy, Debug)]
pub struct EndedTest<'a> {
    /// Id of the tenant that owns the load test.
    pub tenant: &'a str,
    /// Name of the API key or token that started the load test; empty if it was not recorded.
    pub key_name: &'a str,
    /// Id of the load test.
    pub id: &'a str,
    /// Time at which the load test was accepted. The test is counted on this day.
    pub created_at: Timestamp,
    /// Final state of the load test, as counters: 1 for this state, and 0 for the others.
    pub state: EndedTests,
}

impl EndedTest<'_> {
    /// Builds the transaction that counts the load test, and adds an item which records by the
    /// test's id that it is counted. The transaction fails if that item exists.
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
    /// Counts a load test that has ended. A repeated call changes nothing. Only the counters of the
    /// day include it, because those of the hour are published long before a load test ends.
    ///
    /// # Errors
    /// If the table is unavailable. A repeated call then counts the load test if it is not counted.
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
