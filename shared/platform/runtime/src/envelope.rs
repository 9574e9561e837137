//! JSON envelope of every log line: `timestamp`, `level`, `event_type`, `message`, `context`,
//! `correlation_id`.
//!
//! The fields of an event and of the spans around it form `context`, except `event_type` and
//! `correlation_id`, which stand beside it. If several fields have the same name, the innermost
//! value wins. Ids (see [`IDS`]) that the message does not contain are appended to the message, so
//! that it reads well alone.
//!
//! The span of Lambda's runtime around an invocation gives every line the ids of AWS and X-Ray.

use std::fmt::{self, Debug};
use std::io::Write;

use api::Traceparent;
use jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use crate::json_line;

/// Names of the log fields whose values are appended to the message of a line, unless it contains
/// them. The trace id is appended too.
const IDS: [&str; 4] = ["tenant", "batch_id", "chunk_id", "idempotency_key"];

/// Tracing layer that writes each event as one line of JSON to a writer that `make_writer` returns.
#[derive(Clone, Copy)]
pub struct Envelope<W> {
    make_writer: W,
}

impl Envelope<fn() -> std::io::Stdout> {
    /// Creates a layer that writes to standard output, which Lambda sends to CloudWatch Logs.
    #[must_use]
    pub fn stdout() -> Self {
        Self { make_writer: std::io::stdout }
    }
}

impl<W> Envelope<W> {
    /// Creates a layer that calls `make_writer` for each line, and writes the line to the result.
    pub fn to(make_writer: W) -> Self {
        Self { make_writer }
    }
}

impl<W> Debug for Envelope<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Envelope").finish_non_exhaustive()
    }
}

/// Fields of a tracing event or span by name.
#[derive(Default)]
struct Fields(Vec<(&'static str, Value)>);

impl Fields {
    fn get_mut(&mut self, name: &str) -> Option<&mut Value> {
        self.0.iter_mut().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        let (name, value) = (name_of(field), value.into());
        match self.get_mut(name) {
            Some(known) => *known = value,
            None => self.0.push((name, value)),
        }
    }

    fn take(&mut self, name: &str) -> Option<Value> {
        let index = self.0.iter().position(|(known, _)| *known == name)?;
        Some(self.0.swap_remove(index).1)
    }
}

/// References to the fields of an event and of its spans, by name. Writing a line copies no field.
struct Visible<'a>(Vec<(&'static str, &'a Value)>);

impl<'a> Visible<'a> {
    /// Collects the fields of an event and of its spans, from the innermost to the outermost. If a
    /// name occurs twice, the first field is kept.
    fn of(event: &'a Fields, spans: impl Iterator<Item = &'a Fields>) -> Self {
        let mut visible = Self(event.0.iter().map(|(name, value)| (*name, value)).collect());
        for (name, value) in spans.flat_map(|span| &span.0) {
            if visible.get(name).is_none() {
                visible.0.push((*name, value));
            }
        }
        visible
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    fn take(&mut self, name: &str) -> Option<&'a Value> {
        let index = self.0.iter().position(|(known, _)| *known == name)?;
        Some(self.0.swap_remove(index).1)
    }
}

impl Serialize for Visible<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// Returns the name of a field in snake case. Only Lambda's runtime names its fields in camel case.
fn name_of(field: &Field) -> &'static str {
    match field.name() {
        "requestId" => "aws_request_id",
        "xrayTraceId" => "xray_trace_id",
        name => name,
    }
}

/// Appends the ids of [`IDS`] and the trace id to a message that does not contain them.
fn with_ids(message: Value, fields: &Visible<'_>, correlation_id: &Value) -> Value {
    let Value::String(mut text) = message else { return message };
    let of_work = IDS.into_iter().filter_map(|name| Some((name, fields.get(name)?.as_str()?)));
    let mut before = " [";
    for (name, id) in of_work.chain(correlation_id.as_str().map(|id| ("trace", id))) {
        if !id.is_empty() && !names(&text, id) {
            text.extend([before, name, "=", id]);
            before = " ";
        }
    }
    if before == " " {
        text.push(']');
    }
    Value::String(text)
}

/// True if `text` contains `id` as a whole word: not for the id `7` in `chunk 17`.
fn names(text: &str, id: &str) -> bool {
    let mut parts = text.split(id).peekable();
    while let (Some(before), Some(after)) = (parts.next(), parts.peek()) {
        if !before.ends_with(char::is_alphanumeric) && !after.starts_with(char::is_alphanumeric) {
            return true;
        }
    }
    false
}

/// Line of the log: the JSON envelope of an event.
#[derive(Serialize)]
struct Line<'a> {
    timestamp: String,
    level: String,
    event_type: &'a Value,
    message: Value,
    context: &'a Visible<'a>,
    correlation_id: &'a Value,
    /// Trace id of the client, in the member that tracing tools read. It is set, like `span_id`, if
    /// the correlation id is a W3C trace context.
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    span_id: Option<&'a str>,
}

impl<S, W, O> Layer<S> for Envelope<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: Fn() -> O + 'static,
    O: Write,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut own = Fields::default();
        event.record(&mut own);
        let message = own.take("message").unwrap_or_default();
        let spans: Vec<_> = context.event_scope(event).into_iter().flatten().collect();
        let extensions: Vec<_> = spans.iter().map(SpanRef::extensions).collect();
        let of_spans = extensions.iter().filter_map(|extensions| extensions.get::<Fields>());
        let mut fields = Visible::of(&own, of_spans);
        let metadata = event.metadata();
        let (target, none) = (Value::from(metadata.target()), Value::Null);
        let event_type = fields.take("event_type").unwrap_or(&target);
        let correlation_id = fields.take("correlation_id").unwrap_or(&none);
        let trace = correlation_id.as_str().and_then(Traceparent::parse);
        let line = Line {
            timestamp: format!("{:.3}", Timestamp::now()),
            level: metadata.level().as_str().to_ascii_lowercase(),
            event_type,
            message: with_ids(message, &fields, correlation_id),
            context: &fields,
            correlation_id,
            trace_id: trace.map(|trace| trace.trace_id),
            span_id: trace.map(|trace| trace.span_id),
        };
        json_line::write(&line, (self.make_writer)());
    }
}

/// Joins the texts of an error and of its sources with colons. A source that the error's own text
/// already ends with is skipped.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut chain = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !chain.ends_with(&text) {
            chain.push_str(": ");
            chain.push_str(&text);
        }
        source = cause.source();
    }
    chain
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.put(field, chain(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, format!("{value:?}"));
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::json;
    use test_support::log::Sink;
    use tracing_subscriber::layer::SubscriberExt as _;

    pub(crate) fn logged(emit: impl FnOnce()) -> Value {
        let sink = Sink::default();
        let writer = sink.clone();
        let subscriber = tracing_subscriber::registry().with(Envelope::to(move || writer.clone()));
        tracing::subscriber::with_default(subscriber, emit);
        serde_json::from_str(&sink.text()).unwrap()
    }

    #[test]
    fn event_and_span_fields_form_the_context() {
        let line = logged(|| {
            let span = tracing::info_span!(
                "request",
                correlation_id = "trace-1",
                tenant = "t",
                status = tracing::field::Empty
            );
            let _entered = span.enter();
            span.record("status", 201);
            tracing::warn!(event_type = "connection.failed", port = 5672, "no connection to {}", "rabbit");
        });
        assert_eq!(line["level"], "warn");
        assert_eq!(line["event_type"], "connection.failed");
        assert_eq!(line["message"], "no connection to rabbit [tenant=t trace=trace-1]");
        assert!(line.get("trace_id").is_none());
        assert_eq!(line["correlation_id"], "trace-1");
        assert_eq!(line["context"], json!({"tenant": "t", "status": 201, "port": 5672}));
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'));
    }

    #[test]
    fn the_text_names_the_ids_that_it_does_not_contain() {
        let line = logged(|| {
            let (tenant, key) = ("t-1", "key-7");
            let span = tracing::info_span!(
                "record",
                tenant,
                idempotency_key = key,
                batch_id = tracing::field::Empty
            );
            let _entered = span.enter();
            span.record("batch_id", tracing::field::display("b-2"));
            tracing::info!(chunk_id = "c-3", "wrote chunk c-3 of {tenant}");
        });
        assert_eq!(line["message"], "wrote chunk c-3 of t-1 [batch_id=b-2 idempotency_key=key-7]");
        assert_eq!(logged(|| tracing::info!("alone"))["message"], "alone");
        let part = logged(|| tracing::info!(chunk_id = "7", "wrote chunk 17"));
        assert_eq!(part["message"], "wrote chunk 17 [chunk_id=7]");
    }

    #[test]
    fn trace_and_span_of_a_trace_context_have_fields_of_their_own() {
        let context = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let line = logged(|| tracing::info!(correlation_id = context, "done"));
        assert_eq!(line["correlation_id"], context);
        assert_eq!(line["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(line["span_id"], "00f067aa0ba902b7");
    }

    #[test]
    fn the_innermost_value_of_a_name_wins() {
        let line = logged(|| {
            let outer = tracing::info_span!("outer", correlation_id = "outer", tenant = "t", port = 1);
            let _outer = outer.enter();
            let inner = tracing::info_span!("inner", correlation_id = "inner", port = 2);
            let _inner = inner.enter();
            inner.record("port", 3);
            tracing::info!(tenant = "u", "nested");
        });
        assert_eq!(line["correlation_id"], "inner");
        assert_eq!(line["context"], json!({"tenant": "u", "port": 3}));
    }

    #[test]
    fn an_error_is_logged_with_each_cause_once() {
        #[derive(Debug)]
        struct Outer(std::num::ParseIntError, bool);
        impl fmt::Display for Outer {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                if self.1 { write!(f, "no port: {}", self.0) } else { f.write_str("no port") }
            }
        }
        impl std::error::Error for Outer {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                Some(&self.0)
            }
        }
        for repeats in [false, true] {
            let error = Outer("x".parse::<u16>().unwrap_err(), repeats);
            let line = logged(|| tracing::error!(error = &error as &dyn std::error::Error, "failed"));
            assert_eq!(line["context"]["error"], "no port: invalid digit found in string");
        }
    }
}
