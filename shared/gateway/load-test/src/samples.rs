//! Sample load tests for the unit tests of several modules.

use serde_json::Value;

use crate::{Limits, LoadTest, LoadTestRequest, RequestError};

pub(crate) const LIMITS: Limits = Limits {
    workers: 50,
    hours: 8,
    messages: 10_000_000,
    retained: 1_000_000,
    retained_bytes: 1_073_741_824,
};

/// Parses a request to start a load test, and checks the test against [`LIMITS`]. Panics if a
/// member has a wrong form.
pub(crate) fn checked(body: Value) -> Result<LoadTest, RequestError> {
    let request: LoadTestRequest = api::json::read(body).unwrap();
    request.into_parts().and_then(|(_, _, test)| test.within(&LIMITS))
}

/// Parses a request to start a load test. Panics unless the request is valid and within [`LIMITS`].
pub(crate) fn accepted(body: Value) -> LoadTest {
    checked(body).unwrap()
}
