//! Handling of one HTTP request: its trace id, log span, response, audit event and metrics.

use std::time::{Duration, Instant};

use api::{Problem, Query, Reason, Reply, Route, TraceId, Traceparent, respond};
use http::HeaderMap;
use idempotency::{IdempotencyKey, KeyForm};
use lambda_http::{Body, Request, Response};
use runtime::metrics;
use serde_json::{Map, Value};
use tracing::Instrument as _;

/// Name of the response header that marks a response which was read from an idempotency record.
pub(crate) const REPLAY: &str = "idempotent-replay";

/// Rule of a route for the header `Idempotency-Key`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keyed {
    /// Requests need a key of this form. Responses repeat the key, and have a digest of their
    /// content.
    Yes(KeyForm),
    /// The header is ignored, and no idempotency record is written.
    No,
}

/// Lets `answer` respond to a request, in a span with the trace id, the idempotency key and the
/// operation (method and path of the route). Authentication fills the span's fields `tenant`,
/// `key_name` and `key_id`. `answer` fills those of the target, `tags` and `batch_id`, when it
/// knows them. `service` is the name of the function, for metrics.
///
/// The line `request.completed` at the end has all of these fields: it is the request's audit event
/// (docs/audit.md).
pub async fn serve(
    service: &str,
    route: Route,
    keyed: Keyed,
    headers: &HeaderMap,
    answer: impl AsyncFnOnce(&TraceId) -> Result<Reply, Problem>,
) -> Response<Body> {
    let trace_id = TraceId::of(headers);
    let key = match keyed {
        Keyed::Yes(form) => IdempotencyKey::of(headers, form).ok(),
        Keyed::No => None,
    };
    // A context beside another trace id goes no further than these lines.
    let context = Traceparent::of(headers).filter(|context| context.text != trace_id.as_str());
    let span = tracing::error_span!(
        "request",
        correlation_id = %trace_id,
        traceparent = context.map(|context| context.text),
        operation = %route,
        idempotency_key = key.as_ref().map(IdempotencyKey::as_str),
        tenant = tracing::field::Empty,
        key_name = tracing::field::Empty,
        key_id = tracing::field::Empty,
        target_ref = tracing::field::Empty,
        queue_manager = tracing::field::Empty,
        queue = tracing::field::Empty,
        further_queues = tracing::field::Empty,
        conn_name = tracing::field::Empty,
        mq_target = tracing::field::Empty,
        batch_id = tracing::field::Empty,
        tags = tracing::field::Empty,
    );
    async {
        let started = Instant::now();
        // Boxed: the compiler cannot lay out a deeper nest of futures.
        let answer = Box::pin(answer(&trace_id)).await;
        account(service, &answer, started.elapsed());
        let mut reply = answer.unwrap_or_else(|problem| problem.to_reply(&trace_id));
        if keyed != Keyed::No {
            reply.set_header("content-digest", reply.content_digest());
        }
        if let Some(key) = &key {
            reply.set_header(IdempotencyKey::HEADER, key.as_sent());
        }
        respond(reply, &trace_id).map(Body::Text)
    }
    .instrument(span)
    .await
}

/// Writes the audit event of a request and counts the request in the metrics of the function
/// `service`, once its response is ready, `took` after its receipt.
fn account(service: &str, answer: &Result<Reply, Problem>, took: Duration) {
    let (status, reason, action) = match answer {
        Ok(reply) => (reply.status, reason_of(reply), None),
        Err(Problem { reason, .. }) => {
            (reason.status(), Some(reason.as_str().to_owned()), Some(reason.action()))
        }
    };
    let replay = answer.as_ref().is_ok_and(|reply| reply.headers.contains_key(REPLAY));
    log_completed(status, replay, (reason.as_deref(), action), took);
    let mut counted = vec![metrics::REQUESTS];
    if status >= 500 {
        counted.push(metrics::REQUESTS_FAILED);
    }
    if reason.as_deref() == Some(Reason::StoreUnavailable.as_str()) {
        counted.push(metrics::STORE_UNAVAILABLE);
    }
    let properties = Map::from_iter([
        ("status".to_owned(), Value::from(status)),
        ("reason".to_owned(), Value::from(reason)),
    ]);
    metrics::count(service, &counted, properties);
}

/// Logs the end of a request: its status, whether it was a replay, the reason of a problem and what
/// to do about it, and how long it `took`. This line is the request's audit event, so no
/// `LOG_LEVEL` suppresses it.
pub fn log_completed(
    status: u16,
    replay: bool,
    (reason, action): (Option<&str>, Option<&str>),
    took: Duration,
) {
    let outcome = match status {
        _ if replay => "replayed",
        ..400 => "done",
        400..500 => "refused",
        500.. => "failed",
    };
    let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    tracing::info!(
        target: runtime::AUDIT,
        event_type = "request.completed",
        status,
        outcome,
        replay,
        reason,
        action,
        duration_ms,
        "answered with {status}"
    );
}

/// Returns the member `reason` of a reply that is a problem from another function; `None` for any
/// other reply.
fn reason_of(reply: &Reply) -> Option<String> {
    if reply.status < 400 {
        return None;
    }
    let body: Value = serde_json::from_str(&reply.body).ok()?;
    body.get("reason")?.as_str().map(str::to_owned)
}

/// Checks the path, method and query of a request whose route takes no query parameters. API
/// Gateway has checked path and method too, unless the function was invoked directly.
///
/// # Errors
/// 404 for another path, and the errors of [`check_method()`].
pub fn check_route(route: Route, request: &Request) -> Result<(), Problem> {
    if request.uri().path() != route.path {
        return Err(Problem::new(Reason::RouteNotFound, "there is nothing at this path"));
    }
    check_method(route, request)
}

/// Checks the method and query of a request whose path was matched already, and whose route takes
/// no query parameters.
///
/// # Errors
/// 405 for another method. 400 for any query parameter, whose sender would expect an effect.
pub fn check_method(route: Route, request: &Request) -> Result<(), Problem> {
    if request.method() != route.method {
        let detail = format!("this path takes {} only", route.method);
        return Err(Problem::new(Reason::MethodNotAllowed, detail).header("allow", route.method));
    }
    Query::parse(request.uri().query().unwrap_or_default(), &[]).map(|_| ())
}

#[cfg(test)]
mod tests {
    use runtime::Envelope;
    use serde_json::json;
    use test_support::log::Sink;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    fn logged(answer: &Result<Reply, Problem>) -> Value {
        let sink = Sink::default();
        let writer = sink.clone();
        let subscriber = tracing_subscriber::registry().with(Envelope::to(move || writer.clone()));
        tracing::subscriber::with_default(subscriber, || account("tested", answer, Duration::ZERO));
        let mut lines = sink.lines();
        assert_eq!(lines.len(), 1, "{lines:?}");
        lines.remove(0)["context"].take()
    }

    #[test]
    fn a_request_that_failed_is_logged_with_what_to_do() {
        let problem = Problem::new(Reason::QueueFull, "the queue is full");
        let line = logged(&Err(problem));
        let action = Reason::QueueFull.action();
        let expected = json!({
            "status": 502, "outcome": "failed", "replay": false, "reason": "QUEUE_FULL", "action": action,
            "duration_ms": 0,
        });
        assert_eq!(line, expected);
        let line = logged(&Ok(Reply::json(200, &json!({}))));
        assert_eq!(line, json!({"status": 200, "outcome": "done", "replay": false, "duration_ms": 0}));
    }

    #[test]
    fn an_audit_event_tells_refusals_replays_and_failures_apart() {
        let outcome = |answer| {
            let line = logged(&answer);
            (line["outcome"].clone(), line["reason"].clone(), line["replay"].clone())
        };
        let refused = outcome(Err(Problem::new(Reason::TargetNotAllowed, "not that queue")));
        assert_eq!(refused, (json!("refused"), json!("TARGET_NOT_ALLOWED"), json!(false)));
        // A problem that the function behind this one found.
        let problem = Problem::new(Reason::BrokerTimeout, "too slow").to_reply(&TraceId::new());
        assert_eq!(outcome(Ok(problem.clone())), (json!("failed"), json!("BROKER_TIMEOUT"), json!(false)));
        for mut replayed in [Reply::json(201, &json!({})), problem] {
            let reason = reason_of(&replayed).map_or(Value::Null, Value::from);
            replayed.set_header(REPLAY, "true");
            assert_eq!(outcome(Ok(replayed)), (json!("replayed"), reason, json!(true)));
        }
    }
}
