//! `GET /tests`: the tenant's tests, the newest first.

use api::{ListOf, Problem, Query, Reply, invalid_parameter};
use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use crate::LoadTests;
use crate::problems::from_store;
use crate::view::{ListedTest, json};

/// Maximum number of load tests on one page.
const MAX: u16 = 100;
/// Number of load tests on a page if the request has no `limit`.
const DEFAULT: u16 = 20;

/// Response to `GET /tests`: one page of the list of the tenant's load tests, as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    tests: Vec<ListedTest>,
    next_cursor: Option<String>,
}

impl LoadTests {
    pub(crate) async fn list(
        &self,
        tenant: &str,
        query: &Query<'_>,
        now: Timestamp,
    ) -> Result<Reply, Problem> {
        let limit = query.limit(DEFAULT, 1..=MAX)?;
        let list = ListOf::new(tenant, &["tests"]);
        let before = match query.value("cursor")? {
            None => None,
            Some(cursor) => {
                let position = list.position(cursor);
                Some(Uuid::from_bytes(position.ok_or_else(|| {
                    invalid_parameter("cursor", "must be the nextCursor of a page of this list")
                })?))
            }
        };
        // One test more than wanted shows whether there is another page.
        let wanted = u32::from(limit).saturating_add(1);
        let found = self.store.list(tenant, wanted, before).await;
        let mut records = found.map_err(|error| from_store(&error))?;
        let has_more = records.len() > usize::from(limit);
        records.truncate(usize::from(limit));
        self.close_overdue(&records, now).await;
        let last = records.last().filter(|_| has_more);
        let next_cursor = last.map(|record| list.cursor(record.test_id.into_bytes()));
        Ok(json(&Page { tests: records.iter().map(ListedTest::of).collect(), next_cursor }))
    }
}
