//! Body of the request to start a load test (`POST /tests`), and the work for which it asks.

use access::Scope;
use api::{Fault, Problem, Reason, Route};
use front::{KeyRule, NamedTarget, Operation, OtherQueues, Plan, QueueRule, Reports, Work};
use idempotency::OperationType;
use load_test::{LoadTest, LoadTestRequest, Queues, RequestError, RequestErrorKind};
use mq::ReportPlace;
use serde::Deserialize;

use crate::route::{SCOPES, TESTS};

/// Operation type that idempotency records have for the start of a load test.
pub(crate) const START: OperationType = OperationType::named("LOAD_TEST");

/// Body of the request that starts a load test.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct StartRequest(LoadTestRequest);

/// Load test that a request asks to start. The deployment's limits are checked only after the
/// idempotency key is claimed, so that a retry for a test that was accepted under other limits gets
/// the same response as before.
#[derive(Clone, Debug, PartialEq)]
pub struct NewTest(pub LoadTest);

impl Work for NewTest {
    fn scope(&self) -> Scope {
        Scope::MqAdmin
    }

    fn recorded_as(&self) -> Option<OperationType> {
        Some(START)
    }
}

impl Operation for StartRequest {
    type Work = NewTest;

    const ROUTE: Route = Route::post(TESTS);
    const SCOPES: &'static [Scope] = SCOPES;
    const KEY: KeyRule = KeyRule::Required;
    const QUEUE: QueueRule = QueueRule::Required;

    fn plan(self) -> Result<Plan<NewTest>, Problem> {
        let tags = self.0.tags().clone();
        let parts = self.0.into_parts();
        let (target_ref, target, test) = parts.map_err(|error| from_request(&error))?;
        if let Some(producers) = &test.producers {
            let checked = tags.check(&producers.headers, "/producers/headers");
            checked.map_err(|(pointer, detail)| Problem::violation(pointer, detail))?;
        }
        let (further, reports) = (further(&test.queues), reports(&test));
        let named = NamedTarget::in_members(target_ref, target);
        Ok(Plan { further, reports, tags, ..Plan::new(named, NewTest(test)) })
    }
}

/// Returns the queues that a load test uses in place of the target's queue.
fn further(queues: &Queues) -> OtherQueues {
    match queues {
        Queues::OfTarget => OtherQueues::None,
        Queues::One(_) | Queues::Numbered(_) => {
            let names = (0..queues.count()).filter_map(|number| queues.of_worker(number));
            OtherQueues::InPlace(names.collect())
        }
    }
}

/// Returns the reply queue, to which the broker sends the reports (such as confirmations of
/// delivery) that a load test's messages request; empty if they request none.
fn reports(test: &LoadTest) -> Vec<Reports> {
    let properties = test.producers.as_ref().map(|producers| &producers.mq_props.properties);
    let place = properties.and_then(|properties| ReportPlace::of(properties, None));
    let pointer = "/producers/mqProps".to_owned();
    place.map(|place| Reports { pointer, place }).into_iter().collect()
}

/// Builds the problem for a request whose members contradict each other, or that exceeds a limit of
/// the deployment.
pub(crate) fn from_request(error: &RequestError) -> Problem {
    let reason = match error.kind {
        RequestErrorKind::Contradiction => Reason::SchemaViolation,
        RequestErrorKind::BeyondLimit => Reason::ExceedsTestLimit,
    };
    let fault = Fault { pointer: error.pointer.clone(), detail: error.detail.clone() };
    Problem::faulty(reason, vec![fault])
}

#[cfg(test)]
mod tests {
    use mq::QueueName;
    use serde_json::{Value, json};

    use super::*;

    fn plan(members: &Value) -> Result<Plan<NewTest>, Problem> {
        let body = json!({"targetRef": "local", "producers": {}, "consumers": {}, "durationSeconds": 60});
        let (Value::Object(mut all), Value::Object(members)) = (body, members) else { panic!("objects") };
        all.extend(members.clone());
        api::json::read::<StartRequest>(Value::Object(all))?.plan()
    }

    fn name(text: &str) -> QueueName {
        text.to_owned().try_into().unwrap()
    }

    #[test]
    fn a_test_uses_its_own_queues_in_place_of_the_target_s() {
        let further = |members| plan(&members).unwrap().further;
        assert_eq!(further(json!({})), OtherQueues::None);
        assert_eq!(further(json!({"queues": "Q"})), OtherQueues::InPlace(vec![name("Q")]));
        let workers = json!({"count": 3});
        let queues = json!({"pattern": "q-%d", "from": 8, "to": 10});
        let numbered = json!({"queues": queues, "producers": workers, "consumers": workers});
        let names = ["q-8", "q-9", "q-10"].map(name).to_vec();
        assert_eq!(further(numbered), OtherQueues::InPlace(names));
    }

    #[test]
    fn a_start_is_recorded_and_needs_the_scope_for_tests() {
        let NewTest(test) = plan(&json!({})).unwrap().action;
        let work = NewTest(test);
        assert_eq!((work.scope(), work.recorded_as()), (Scope::MqAdmin, Some(START)));
    }

    #[test]
    fn messages_that_ask_for_reports_name_where_they_go() {
        let mq_props = json!({"report": 256, "replyTo": "REPLIES"});
        let members = json!({"producers": {"count": 1, "ratePerSec": 1, "mqProps": mq_props}});
        let reports = plan(&members).unwrap().reports;
        let places: Vec<_> =
            reports.iter().map(|reports| (reports.pointer.as_str(), &*reports.place.queue)).collect();
        assert_eq!(places, [("/producers/mqProps", "REPLIES")]);
        assert!(plan(&json!({})).unwrap().reports.is_empty());
    }
}
