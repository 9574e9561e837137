//! `POST /queue/depth`: returns how many messages a queue has and how many programs have it open,
//! for one queue, or for up to 100 queues of one virtual host or queue manager. `GET /targets`:
//! lists the tenant's target profiles.

use access::Scope;
use api::{Problem, Route};
use front::{Action, Gateway, KeyRule, Operation, OtherQueues, Plan, QueueRule, QueuesRequest, TARGETS};
use lambda_http::{Body, Request, Response};
use orders::Read;
use serde::Deserialize;

/// Responds to a depth request, or to a request for the list of target profiles.
pub async fn handle(gateway: &Gateway, request: Request) -> Response<Body> {
    if request.uri().path() == TARGETS.path {
        gateway.front.targets(request).await
    } else {
        gateway.handle::<DepthRequest>(request).await
    }
}

/// Body of a request to measure the depth of one or several queues, as JSON.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct DepthRequest(QueuesRequest);

impl Operation for DepthRequest {
    type Work = Action;

    const ROUTE: Route = Route::post("/queue/depth");
    const SCOPES: &'static [Scope] = &[Scope::MqRead];
    const KEY: KeyRule = KeyRule::Ignored;
    const QUEUE: QueueRule = QueueRule::Required;

    fn plan(mut self) -> Result<Plan, Problem> {
        let queues = self.0.queues.take();
        let named = self.0.into_named()?;
        Ok(match queues {
            None => Plan::read(named, Read::Depth),
            Some(queues) => {
                let queues = queues.into_vec();
                let read = Read::Depths(queues.clone());
                Plan { further: OtherQueues::Listed(queues), ..Plan::read(named, read) }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use mq::QueueName;
    use serde_json::{Value, json};

    use super::*;

    fn plan(body: Value) -> Result<Plan, Problem> {
        api::json::read::<DepthRequest>(body)?.plan()
    }

    #[test]
    fn one_queue_is_the_target_s_and_several_are_in_its_place() {
        let one = plan(json!({"targetRef": "local", "queues": null})).unwrap();
        assert_eq!((one.action, one.further), (Action::Read(Read::Depth), OtherQueues::None));
        let names = ["A", "B"].map(|name| QueueName::try_from(name.to_owned()).unwrap()).to_vec();
        for body in [
            json!({"targetRef": "local", "queues": ["A", "B"]}),
            json!({"queueManager": "QM1", "connName": "h:1", "queues": ["A", "B"]}),
        ] {
            let several = plan(body).unwrap();
            assert_eq!(several.action, Action::Read(Read::Depths(names.clone())));
            assert_eq!(several.further, OtherQueues::Listed(names.clone()));
        }
    }

    #[test]
    fn at_most_a_hundred_queues_are_measured_at_once() {
        let names = |count: usize| (0..count).map(|number| format!("Q.{number}")).collect::<Vec<_>>();
        assert!(plan(json!({"targetRef": "local", "queues": names(100)})).is_ok());
        for queues in [json!([]), json!(names(101)), json!(["a", ""])] {
            let problem = plan(json!({"targetRef": "local", "queues": queues})).unwrap_err();
            assert!(problem.faults[0].pointer.starts_with("/queues"), "{problem:?}");
        }
    }
}
