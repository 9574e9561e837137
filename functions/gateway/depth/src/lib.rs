//! `POST /queue/depth`: returns the number of messages on a queue, and of the programs that have it
//! open.

use access::Scope;
use api::{Problem, Route};
use front::{Action, KeyRule, Operation, Plan, QueueRule, TargetRequest};
use orders::Read;
use serde::Deserialize;

/// The body of a request.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct DepthRequest(TargetRequest);

impl Operation for DepthRequest {
    type Work = Action;

    const ROUTE: Route = Route::post("/queue/depth");
    const SCOPES: &'static [Scope] = &[Scope::MqRead];
    const KEY: KeyRule = KeyRule::Ignored;
    const QUEUE: QueueRule = QueueRule::Required;

    fn plan(self) -> Result<Plan, Problem> {
        Ok(Plan::read(self.0.into_named()?, Read::Depth))
    }
}
