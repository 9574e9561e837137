//! Sample load test for the unit tests of several modules.

use load_test::{LoadTest, LoadTestRequest};
use serde_json::{Value, from_value, json};

/// Creates a load test of one minute; `members` are added to the request or replace its members.
pub(crate) fn test(members: Value) -> LoadTest {
    let mut body = json!({"targetRef": "t", "durationSeconds": 60});
    let Value::Object(members) = members else { panic!("members") };
    body.as_object_mut().unwrap().extend(members);
    from_value::<LoadTestRequest>(body).unwrap().into_parts().unwrap().2
}
