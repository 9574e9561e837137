//! `POST /messages/produce`: puts messages on a queue. `POST /messages/bodies`: returns a signed
//! URL to upload a message body that is too large for a request.

mod request;

use std::collections::HashSet;

use access::Scope;
use api::{Problem, Reason, Route};
use front::{
    Action, Gateway, KeyRule, NamedTarget, Operation, Plan, QueueRule, Reports, TIME_BUDGET, UPLOADED_BODY,
};
use idempotency::OperationType;
use lambda_http::{Body, Request, Response};
use mq::{ExplicitMessage, ProduceCommand, ProduceSource, ReportPlace, RoutingKey, Tags};
use orders::Change;

pub use request::ProduceRequest;

/// Operation type of a produce, in idempotency records.
const PRODUCE: OperationType = OperationType::named("PRODUCE");

/// Responds to a produce request, or to a request for the signed upload URL of a message body.
pub async fn handle(gateway: &Gateway, request: Request) -> Response<Body> {
    if request.uri().path() == UPLOADED_BODY.path {
        gateway.announce_body(request).await
    } else {
        gateway.handle::<ProduceRequest>(request).await
    }
}

impl Operation for ProduceRequest {
    type Work = Action;

    const ROUTE: Route = Route::post("/messages/produce");
    const SCOPES: &'static [Scope] = &[Scope::MqWrite];
    const KEY: KeyRule = KeyRule::Required;
    const QUEUE: QueueRule = QueueRule::OrExchange;
    const MAX_BODY: usize = api::body::MAX_JSON;

    fn plan(mut self) -> Result<Plan, Problem> {
        let tags = std::mem::take(&mut self.tags);
        let (target_ref, target, command) = self.into_parts()?;
        check_tags(&tags, &command)?;
        check_time_budget(&command)?;
        let named = NamedTarget {
            routing_keys: routing_keys(&command),
            all_have_routing_keys: all_have_routing_keys(&command),
            ..NamedTarget::in_members(target_ref, target)
        };
        let reports = reports(&command);
        Ok(Plan { reports, tags, ..Plan::change(named, PRODUCE, Change::Produce(command)) })
    }
}

/// Returns the reply queues for IBM MQ's reports that messages of the produce ask for, without
/// duplicates, each with the JSON Pointer to the object that names it.
fn reports(command: &ProduceCommand) -> Vec<Reports> {
    let all = &command.props.properties;
    let ProduceSource::Explicit { messages } = &command.source else {
        let place = ReportPlace::of(all, None);
        return place.map(|place| Reports { pointer: "/mqProps".to_owned(), place }).into_iter().collect();
    };
    let mut seen = HashSet::new();
    let places = messages.iter().enumerate().filter_map(|(index, message)| {
        let own = message.own.as_deref();
        let place = ReportPlace::of(all, own)?;
        let is_own = own.is_some_and(|own| own.properties.reply_to.is_some());
        let pointer = if is_own { format!("/messages/{index}") } else { "/mqProps".to_owned() };
        Some(Reports { pointer, place })
    });
    places.filter(|Reports { place, .. }| seen.insert(place.clone())).collect()
}

/// Returns the routing keys that messages set for themselves, without duplicates, each with the
/// index of the first message that has it.
fn routing_keys(command: &ProduceCommand) -> Vec<(usize, RoutingKey)> {
    let ProduceSource::Explicit { messages } = &command.source else { return Vec::new() };
    let own = |message: &ExplicitMessage| message.own.as_ref()?.routing_key.clone();
    let mut seen = HashSet::new();
    let keys = messages.iter().enumerate().filter_map(|(index, message)| Some((index, own(message)?)));
    keys.filter(|(_, key)| seen.insert(key.as_str().to_owned())).collect()
}

/// True if each message sets its own routing key, so that the target's routing key is not used.
fn all_have_routing_keys(command: &ProduceCommand) -> bool {
    let ProduceSource::Explicit { messages } = &command.source else { return false };
    messages.iter().all(|message| message.own.as_ref().is_some_and(|own| own.routing_key.is_some()))
}

/// Refuses a request with tags if the caller's own headers use a name that the gateway needs for
/// tags, or leave no room for the headers of the tags.
fn check_tags(tags: &Tags, command: &ProduceCommand) -> Result<(), Problem> {
    let refused = |(pointer, detail): (String, &str)| Problem::violation(pointer, detail);
    tags.check(&command.headers, "/headers").map_err(refused)?;
    let ProduceSource::Explicit { messages } = &command.source else { return Ok(()) };
    if tags.is_empty() {
        return Ok(());
    }
    messages.iter().enumerate().try_for_each(|(index, message)| {
        tags.check(&message.headers, &format!("/messages/{index}/headers")).map_err(refused)
    })
}

/// Refuses a produce whose rate limit stretches it beyond the time that a request may take,
/// [`TIME_BUDGET`].
fn check_time_budget(command: &ProduceCommand) -> Result<(), Problem> {
    let Some(rate) = command.rate_limit_per_sec else {
        return Ok(());
    };
    let seconds = command.source.count().saturating_sub(1) / u64::from(rate.get());
    if seconds < TIME_BUDGET.as_secs() {
        return Ok(());
    }
    let detail = format!(
        "{} messages at {} a second take about {seconds} s, and one request may take {} s; send fewer at a time",
        command.source.count(),
        rate.get(),
        TIME_BUDGET.as_secs(),
    );
    Err(Problem::new(Reason::ExceedsTimeBudget, detail))
}
