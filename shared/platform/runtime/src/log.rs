//! Initialization of the log: which events are logged, at which level, as lines of JSON.

use crate::Envelope;
use tracing_subscriber::Registry;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Maximum log levels of libraries whose events below a warning only repeat events of this system.
///
/// `aws_` stands for all crates of the SDK. `lapin` is off, because it logs returned messages with
/// their bodies. `lambda_runtime::layers::panic` is off, because it logs the debug form of an
/// invocation's error, which [`answered`](crate::answered) logs with its sources.
/// `lambda_runtime::layers::trace` has no events, but the span with the request id and the X-Ray
/// trace id, which every line needs at every level.
const QUIET: [(&str, LevelFilter); 10] = [
    ("aws_", LevelFilter::WARN),
    ("hyper", LevelFilter::WARN),
    ("hyper_util", LevelFilter::WARN),
    ("lambda_runtime", LevelFilter::WARN),
    ("lambda_runtime_api_client", LevelFilter::WARN),
    ("lambda_runtime::layers::panic", LevelFilter::OFF),
    ("lambda_runtime::layers::trace", LevelFilter::INFO),
    ("lapin", LevelFilter::OFF),
    ("rustls", LevelFilter::WARN),
    ("h2", LevelFilter::WARN),
];

/// Tracing target of audit events, which are logged whatever `LOG_LEVEL` is.
pub const AUDIT: &str = "audit_event";

/// Initializes the log: each event is a line of JSON on standard output. `level` is the value of
/// `LOG_LEVEL`; an unknown level counts as `info`.
pub fn init(level: &str) {
    let level: tracing::Level = level.parse().unwrap_or(tracing::Level::INFO);
    let filter = filter(level);
    // A second initialization, as in tests of one process, keeps the first.
    let _ = Registry::default().with(filter).with(Envelope::stdout()).try_init();
}

/// Builds the filter of events and spans. It decides by target and level alone, so the decision is
/// cached for each place in the code.
fn filter(level: tracing::Level) -> Targets {
    Targets::new().with_default(level).with_target(AUDIT, LevelFilter::INFO).with_targets(QUIET)
}

#[cfg(test)]
mod tests {
    use test_support::log::Sink;

    use super::*;

    /// Returns the log of the events that `emit` emits, filtered for this level.
    fn logged(level: tracing::Level, emit: impl FnOnce()) -> Sink {
        let sink = Sink::default();
        let writer = sink.clone();
        let layer = Envelope::to(move || writer.clone());
        let subscriber = Registry::default().with(filter(level)).with(layer);
        tracing::subscriber::with_default(subscriber, emit);
        sink
    }

    #[test]
    fn no_level_leaves_an_audit_event_out() {
        let sink = logged(tracing::Level::ERROR, || {
            let _entered = tracing::error_span!("request", tenant = "t").entered();
            tracing::info!("not logged");
            tracing::info!(target: AUDIT, event_type = "request.completed", "done");
        });
        let lines = sink.lines();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert_eq!(lines[0]["context"]["tenant"], "t");
    }

    #[test]
    fn every_line_of_an_invocation_has_the_ids_of_aws_and_x_ray() {
        let sink = logged(tracing::Level::ERROR, || {
            let mut context = lambda_runtime::Context::default();
            context.request_id = "7a9c".to_owned();
            context.xray_trace_id = Some("Root=1-5759e988-bd862e3fe1be46a994272793".to_owned());
            let _entered = lambda_runtime::layers::trace::request_span(&context).entered();
            let _inner = tracing::error_span!("request", tenant = "t").entered();
            tracing::error!("wrong");
        });
        let context = &sink.lines()[0]["context"];
        assert_eq!(context["aws_request_id"], "7a9c");
        assert_eq!(context["xray_trace_id"], "Root=1-5759e988-bd862e3fe1be46a994272793");
        assert_eq!(context["tenant"], "t");
    }

    #[test]
    fn at_the_level_debug_the_log_is_still_ours() {
        let sink = logged(tracing::Level::DEBUG, || {
            tracing::debug!(target: "aws_sdk_dynamodb::operation::get_item", "theirs");
            tracing::debug!(target: "aws_smithy_runtime::client::orchestrator", "theirs");
            tracing::error!(target: "lambda_runtime::layers::panic", "theirs");
            tracing::warn!(target: "aws_sdk_dynamodb", "a warning");
            tracing::debug!("ours");
        });
        let text = sink.text();
        assert!(!text.contains("theirs") && text.contains("a warning") && text.contains("ours"), "{text}");
    }
}
