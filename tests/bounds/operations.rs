//! The operations of the gateway, from a request's bytes to what they would do.

use api::{Problem, json};
use front::{NamedTarget, Operation, Plan};
use serde_json::Value;

/// An operation as far as its body decides.
pub(crate) struct Checked {
    pub(crate) path: &'static str,
    /// The target that a body names, if the body is the operation's.
    pub(crate) target: fn(&[u8]) -> Result<NamedTarget, Problem>,
    /// Serde's message for a body that is not the operation's.
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

/// A test holds that they are those of the contract.
pub(crate) const OPERATIONS: [Checked; 6] = [
    checked::<produce::ProduceRequest>(),
    checked::<consume::ConsumeRequest>(),
    checked::<move_messages::MoveRequest>(),
    checked::<depth::DepthRequest>(),
    CONNECTION_TEST,
    checked::<load_tests::StartRequest>(),
];
