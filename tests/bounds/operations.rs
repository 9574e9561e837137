//! The operations of the gateway, from a request's bytes to what they would do.

use api::{Problem, json};
use front::{Operation, Plan};
use serde_json::Value;

/// An operation as far as its body decides.
pub(crate) struct Checked {
    pub(crate) path: &'static str,
    pub(crate) plan: fn(&[u8]) -> Result<Plan, Problem>,
    /// Serde's message for a body that is not the operation's.
    pub(crate) refusal: fn(Value) -> String,
}

fn plan<O: Operation>(body: &[u8]) -> Result<Plan, Problem> {
    json::read::<O>(json::parse(body)?)?.plan()
}

fn refusal<O: Operation>(body: Value) -> String {
    serde_json::from_value::<O>(body).err().map(|error| error.to_string()).unwrap_or_default()
}

const fn checked<O: Operation>() -> Checked {
    Checked { path: O::ROUTE.path, plan: plan::<O>, refusal: refusal::<O> }
}

pub(crate) const PRODUCE: Checked = checked::<produce::ProduceRequest>();
pub(crate) const CONNECTION_TEST: Checked = checked::<connection_test::ConnectionTestRequest>();

/// A test holds that they are those of the contract.
pub(crate) const OPERATIONS: [Checked; 5] = [
    PRODUCE,
    checked::<consume::ConsumeRequest>(),
    checked::<move_messages::MoveRequest>(),
    checked::<depth::DepthRequest>(),
    CONNECTION_TEST,
];
