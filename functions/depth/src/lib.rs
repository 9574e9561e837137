//! `POST /queue/depth`: how many messages are on a queue, and who has it open.

use api::auth::Scope;
use api::{Problem, Route};
use gateway::{KeyRule, Operation, Plan, QueueRule, Work};
use mq::TargetSpec;
use serde::Deserialize;

/// The body of a request.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DepthRequest {
    target: Option<TargetSpec>,
    target_ref: Option<String>,
}

impl Operation for DepthRequest {
    const ROUTE: Route = Route::post("/queue/depth");
    const SCOPES: &'static [Scope] = &[Scope::MqRead];
    const KEY: KeyRule = KeyRule::Ignored;
    const QUEUE: QueueRule = QueueRule::Required;

    fn plan(self) -> Result<Plan, Problem> {
        Ok(Plan::read(self.target_ref, self.target, |target| Work::Depth { target }))
    }
}
