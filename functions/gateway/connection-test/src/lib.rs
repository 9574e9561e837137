//! `POST /connections/test`: opens a new connection to a broker, and reports step by step whether
//! the broker can be reached and used.

use access::Scope;
use api::{Problem, Route};
use front::{Action, KeyRule, Operation, Plan, QueueRule, TargetRequest};
use orders::Read;
use serde::Deserialize;

/// JSON body of a request to test the connection to a broker. If it names no queue, the test skips
/// its last step, `openQueue`.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct ConnectionTestRequest(TargetRequest);

impl Operation for ConnectionTestRequest {
    type Work = Action;

    const ROUTE: Route = Route::post("/connections/test");
    const SCOPES: &'static [Scope] = &[Scope::MqRead];
    const KEY: KeyRule = KeyRule::Ignored;
    const QUEUE: QueueRule = QueueRule::Optional;

    fn plan(self) -> Result<Plan, Problem> {
        Ok(Plan::read(self.0.into_named()?, Read::Test))
    }
}
