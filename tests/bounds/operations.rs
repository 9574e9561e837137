//! Operations of the gateway with a JSON body, and their parsing without any I/O.

use api::{Problem, json};
use front::{NamedTarget, Operation, Plan};
use serde_json::Value;

/// Operation of the gateway, with the functions that parse its body.
pub(crate) struct Checked {
    pub(crate) path: &'static str,
    /// Parses a body, and returns the target that it names. Fails with the problem of a response if
    /// the body is refused.
    pub(crate) target: fn(&[u8]) -> Result<NamedTarget, Problem>,
    /// Returns serde's error message for a body that the operation's request type refuses.
    pub(crate) refusal: fn(Value) -> String,
}

pub(crate) fn plan<O: Operation>(body: &[u8]) -> Result<Plan<O::Work>, Problem> {
    json::read::<O>(json::parse(body)?)?.plan()
}

fn target<O: Operation>(body: &[u8]) -> Result<NamedTarget, Problem> {
    Ok(plan::<O>(body)?.named)
}

fn refusal<O: Operation>(body: Value) -> String {
    serde_json::from_value::<O>(body).err().map(|error| error.to_string()).unwrap_or_default()
}

const fn checked<O: Operation>() -> Checked {
    Checked { path: O::ROUTE.path, target: target::<O>, refusal: refusal::<O> }
}

pub(crate) const CONNECTION_TEST: Checked = checked::<connection_test::ConnectionTestRequest>();

/// All operations of the gateway with a JSON body. A test compares their paths with the contract's.
pub(crate) const OPERATIONS: [Checked; 6] = [
    checked::<produce::ProduceRequest>(),
    checked::<consume::ConsumeRequest>(),
    checked::<move_messages::MoveRequest>(),
    checked::<depth::DepthRequest>(),
    CONNECTION_TEST,
    checked::<load_tests::StartRequest>(),
];
