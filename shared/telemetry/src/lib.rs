//! Logs in one JSON envelope, metrics in CloudWatch's embedded metric format, and the names of
//! both.

mod envelope;
pub mod metrics;

pub use envelope::Envelope;

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry};

/// Libraries whose own events say nothing that ours do not, unless something is wrong. `lapin` is
/// silent: it logs returned messages with their bodies.
const QUIET: &str = "aws_config=warn,aws_smithy_runtime=warn,aws_smithy_http_client=warn,aws_runtime=warn,\
                     hyper=warn,hyper_util=warn,lambda_runtime=warn,lambda_runtime_api_client=warn,lapin=off,\
                     aws_smithy_runtime_api=warn,rustls=warn,h2=warn";

/// Sends every event to standard output, one JSON object a line. `level` is what `LOG_LEVEL` says;
/// an unknown level is `info`.
pub fn init(level: &str) {
    let level: tracing::Level = level.parse().unwrap_or(tracing::Level::INFO);
    let filter = EnvFilter::new(format!("{level},{QUIET}"));
    // A second initialization, as in tests of one process, keeps the first.
    let _ = Registry::default().with(filter).with(Envelope::stdout()).try_init();
}
