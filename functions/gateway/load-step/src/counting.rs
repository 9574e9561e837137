//! Count of the ended load tests of a tenant, which is part of the tenant's recorded usage.

use load_test::TestStatus;
use load_test::store::TestRecord;
use usage::{EndedTest, EndedTests};

use crate::{LoadStep, LoadStepError};

impl LoadStep {
    /// Adds a load test that has ended in the state `status` to the usage of its tenant. A test
    /// counts once, however often the call is repeated. Does nothing for a test that has not ended.
    pub(crate) async fn count_ended(
        &self,
        record: &TestRecord,
        status: TestStatus,
    ) -> Result<(), LoadStepError> {
        let Some(state) = state(status) else { return Ok(()) };
        let id = record.test_id.to_string();
        let TestRecord { tenant, key_name, created_at, .. } = record;
        let test = EndedTest { tenant, key_name, id: &id, created_at: *created_at, state };
        Ok(self.usage.count_test(&test).await?)
    }
}

/// Returns the counts that one test in this state adds to its tenant's ended tests; `None` if the
/// state is not final.
fn state(status: TestStatus) -> Option<EndedTests> {
    let none = EndedTests::default();
    match status {
        TestStatus::Completed => Some(EndedTests { completed: 1, ..none }),
        TestStatus::Stopped => Some(EndedTests { stopped: 1, ..none }),
        TestStatus::Failed => Some(EndedTests { failed: 1, ..none }),
        TestStatus::Pending | TestStatus::Running | TestStatus::Stopping => None,
    }
}
