//! Metrics in CloudWatch's embedded metric format: log lines that CloudWatch turns into metrics
//! without a call.
//!
//! Every dimension is a metric of its own and paid for, so there are two: `stack`, without which
//! the alarms of two deployments in an account would raise each other, and `service`. Tenant, key
//! and target are properties, which can be searched and cost nothing.

use std::sync::LazyLock;

use jiff::Timestamp;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::json_line;

const NAMESPACE: &str = "IntegraHub";
/// Name of the deployment that this function belongs to.
static STACK: LazyLock<String> =
    LazyLock::new(|| std::env::var("STACK_NAME").unwrap_or_else(|_| "local".to_owned()));

// Names of metrics. Each is a count, unless its description has a unit.

/// Requests to an HTTP endpoint, whatever the response.
pub const REQUESTS: &str = "Requests";
/// New records: requests that were executed for the first time.
pub const IDEMPOTENCY_CLAIMS: &str = "IdempotencyClaims";
/// Responses that were sent again.
pub const IDEMPOTENT_REPLAYS: &str = "IdempotentReplays";
/// Keys that were used with another body.
pub const IDEMPOTENCY_CONFLICTS: &str = "IdempotencyConflicts";
/// Conflicts that were refused because there were too many.
pub const IDEMPOTENCY_KEY_REUSE_ABUSE: &str = "IdempotencyKeyReuseAbuse";
/// Requests that were refused because the same one was being executed.
pub const IDEMPOTENCY_IN_PROGRESS: &str = "IdempotencyInProgress";
/// Executions that failed or outlived their lease, and were repeated or resumed.
pub const IDEMPOTENCY_TAKEOVERS: &str = "IdempotencyTakeovers";
/// Responses of an execution that died between storing its result and recording that it was done.
pub const IDEMPOTENCY_IN_DOUBT: &str = "IdempotencyInDoubt";
/// Writes that came too late and changed nothing.
pub const IDEMPOTENCY_FENCED: &str = "IdempotencyFenced";
/// Malformed records, and results that are missing or altered.
pub const IDEMPOTENCY_UNREADABLE: &str = "IdempotencyUnreadable";

/// Objects that were dropped into S3 and became a batch.
pub const DROPS_ACCEPTED: &str = "DropsAccepted";
/// Objects that were dropped into S3 and refused.
pub const DROPS_REFUSED: &str = "DropsRefused";
/// Dropped objects whose notification was lost and sent again.
pub const DROPS_FOUND: &str = "DropsFound";

/// Payloads that were cut into chunks.
pub const PAYLOADS_CUT: &str = "PayloadsCut";
/// Payloads that failed as a whole.
pub const PAYLOADS_FAILED: &str = "PayloadsFailed";
/// Items of payloads, those in error included.
pub const ITEMS_PARSED: &str = "ItemsParsed";
/// Items that are in no chunk.
pub const ITEMS_IN_ERROR: &str = "ItemsInError";
/// Items that lack members which other items of their payload have.
pub const ITEMS_PARTIAL: &str = "ItemsPartial";
/// Time that cutting a payload took, in milliseconds.
pub const CHUNKING_TIME: &str = "ChunkingTime";
/// Chunks that were committed.
pub const CHUNKS_WRITTEN: &str = "ChunksWritten";
/// Items that made a new row.
pub const ITEMS_INSERTED: &str = "ItemsInserted";
/// Items that changed a row.
pub const ITEMS_UPDATED: &str = "ItemsUpdated";
/// Items whose row already had the same content.
pub const ITEMS_UNCHANGED: &str = "ItemsUnchanged";
/// Items whose row already had a later version.
pub const ITEMS_STALE: &str = "ItemsStale";
/// Items that PostgreSQL rejected.
pub const ITEMS_REJECTED: &str = "ItemsRejected";
/// New generations of batches.
pub const BATCHES_REPLAYED: &str = "BatchesReplayed";
/// Time that writing a chunk took, in milliseconds.
pub const WRITING_TIME: &str = "WritingTime";
/// Chunks whose processing failed too often.
pub const CHUNKS_GIVEN_UP: &str = "ChunksGivenUp";
/// Batches that failed because their payload could not be cut in time.
pub const BATCHES_GIVEN_UP: &str = "BatchesGivenUp";
/// Messages that no function could handle.
pub const MESSAGES_UNHANDLED: &str = "MessagesUnhandled";

/// Payloads without a batch, whose notification was sent again.
pub const OBJECTS_FOUND: &str = "ObjectsFound";
/// Objects under `incoming/` that are not payloads.
pub const OBJECTS_FOREIGN: &str = "ObjectsForeign";
/// Stalled batches whose notification was sent again.
pub const BATCHES_RESTARTED: &str = "BatchesRestarted";
/// Batches whose chunks were all done, and that `reconcile` finalized.
pub const BATCHES_FINALIZED: &str = "BatchesFinalized";
/// Final batches whose objects `reconcile` released.
pub const BATCHES_RELEASED: &str = "BatchesReleased";
/// Batches for which a restart does not help, as of now.
pub const BATCHES_STUCK: &str = "BatchesStuck";
/// Uploads whose payload never came.
pub const UPLOADS_EXPIRED: &str = "UploadsExpired";
/// Uploads whose payload came without a notification.
pub const UPLOADS_FOUND: &str = "UploadsFound";
/// Batches that were ended in progress, since they are older than the history of loads.
pub const BATCHES_TOO_OLD: &str = "BatchesTooOld";
/// Batches that were deleted because the history does not reach back to them.
pub const BATCHES_PRUNED: &str = "BatchesPruned";
/// Rows that were deleted with these batches.
pub const ROWS_PRUNED: &str = "RowsPruned";
/// Time that the next batch to delete has been waiting, in minutes.
pub const PRUNING_BEHIND: &str = "PruningBehindMinutes";
/// Events that stayed in the outbox, and that `reconcile` published.
pub const EVENTS_REPUBLISHED: &str = "EventsRepublished";
/// Time that the oldest event has been waiting to be published, in minutes.
pub const EVENTS_BEHIND: &str = "EventsBehindMinutes";
/// Checks of `reconcile` that failed.
pub const RECONCILE_FAILURES: &str = "ReconcileFailures";

/// A metric's value in its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// A number of occurrences.
    Count(u64),
    /// A duration.
    Milliseconds(u64),
}

impl Measure {
    /// Makes a measure of a duration in whole milliseconds.
    #[must_use]
    pub fn duration(duration: std::time::Duration) -> Self {
        Self::Milliseconds(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }

    const fn unit(self) -> &'static str {
        match self {
            Self::Count(_) => "Count",
            Self::Milliseconds(_) => "Milliseconds",
        }
    }

    const fn value(self) -> u64 {
        match self {
            Self::Count(value) | Self::Milliseconds(value) => value,
        }
    }
}

/// Writes measures as a log line, with `properties` beside them.
pub fn measure(service: &str, measures: &[(&str, Measure)], properties: Map<String, Value>) {
    let line = Line { stack: &STACK, service, measures, properties, now: Timestamp::now() };
    json_line::write(&line, std::io::stdout());
}

/// Counts one occurrence of each of `names`, with `properties` beside them.
pub fn count(service: &str, names: &[&str], properties: Map<String, Value>) {
    let counts: Vec<_> = names.iter().map(|name| (*name, Measure::Count(1))).collect();
    measure(service, &counts, properties);
}

/// A line of measures.
struct Line<'a> {
    stack: &'a str,
    service: &'a str,
    measures: &'a [(&'a str, Measure)],
    properties: Map<String, Value>,
    now: Timestamp,
}

/// Declaration of a line's metrics.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Directive<'a> {
    namespace: &'static str,
    dimensions: [[&'static str; 2]; 1],
    metrics: Vec<Metric<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Metric<'a> {
    name: &'a str,
    unit: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Declared<'a> {
    timestamp: i64,
    cloud_watch_metrics: [Directive<'a>; 1],
}

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { stack, service, measures, properties, now } = self;
        let metrics = measures.iter().map(|&(name, measure)| Metric { name, unit: measure.unit() });
        let directive = Directive {
            namespace: NAMESPACE,
            dimensions: [["stack", "service"]],
            metrics: metrics.collect(),
        };
        let declared = Declared { timestamp: now.as_millisecond(), cloud_watch_metrics: [directive] };
        let mut line = serializer.serialize_map(None)?;
        for (name, value) in properties {
            line.serialize_entry(name, value)?;
        }
        line.serialize_entry("stack", stack)?;
        line.serialize_entry("service", service)?;
        for (name, measure) in *measures {
            line.serialize_entry(name, &measure.value())?;
        }
        line.serialize_entry("_aws", &declared)?;
        line.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_declares_its_metrics_and_keeps_properties_out_of_the_dimensions() {
        let properties = Map::from_iter([("tenant".to_owned(), json!("t"))]);
        let measures = [
            (REQUESTS, Measure::Count(1)),
            (CHUNKING_TIME, Measure::duration(std::time::Duration::from_secs(2))),
        ];
        let (stack, service, now) = ("integrahub-dev", "produce", Timestamp::UNIX_EPOCH);
        let line = json!(Line { stack, service, measures: &measures, properties, now });
        assert_eq!(line["Requests"], 1);
        assert_eq!(line["tenant"], "t");
        let directive = &line["_aws"]["CloudWatchMetrics"][0];
        assert_eq!(directive["Dimensions"], json!([["stack", "service"]]));
        assert_eq!((&line["stack"], &line["service"]), (&json!("integrahub-dev"), &json!("produce")));
        assert_eq!(directive["Metrics"][1], json!({"Name": "ChunkingTime", "Unit": "Milliseconds"}));
        assert_eq!(line["ChunkingTime"], 2000);
    }
}
