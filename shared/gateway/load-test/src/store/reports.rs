//! Reports of load tests, as JSON objects in S3.

use objects::ObjectError;
use uuid::Uuid;

use crate::Report;
use crate::store::{TestStore, TestStoreError};

/// Maximum number of bytes of a stored report that is read: 64 MiB. The report of a test of a week,
/// with figures of each second, takes about 15 MB.
const MOST_REPORT: usize = 64 * 1024 * 1024;

impl TestStore {
    /// Stores the report of a test under its tenant and id. It replaces an earlier report.
    ///
    /// # Errors
    /// If the report cannot be encoded, or the bucket does not store it.
    pub async fn store_report(
        &self,
        tenant: &str,
        test_id: Uuid,
        report: &Report,
    ) -> Result<(), TestStoreError> {
        let json = serde_json::to_vec(report).map_err(TestStoreError::unencodable)?;
        Ok(self.objects.put_as(&report_key(tenant, test_id), "application/json", json).await?)
    }

    /// Reads the report of a test; `None` if no report is stored.
    ///
    /// # Errors
    /// If the bucket does not respond, or the report is malformed.
    pub async fn report(&self, tenant: &str, test_id: Uuid) -> Result<Option<Report>, TestStoreError> {
        match self.objects.get(&report_key(tenant, test_id), MOST_REPORT).await {
            Ok(json) => {
                let report = attempt::malformed::from_slice(&json).map_err(TestStoreError::unreadable)?;
                Ok(Some(report))
            }
            Err(ObjectError::Missing { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns the S3 key of a test's report.
pub(crate) fn report_key(tenant: &str, test_id: Uuid) -> String {
    format!("tests/{tenant}/{test_id}/report.json")
}
