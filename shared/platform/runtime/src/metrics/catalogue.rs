//! The catalogue: every metric that the deployment publishes.
//!
//! Log lines in the embedded metric format and `GET /metrics` are made from it.
//! `deploy/metrics.json` has the same table for checks of the template and for `docs/metrics.md`; a
//! test compares them.

use super::metric::{EmfUnit, Metric, counter, gauge, histogram};

/// Functions that serve HTTP requests by `endpoint::serve`, as values of the dimension `service`.
const HTTP: &[&str] = &[
    "batches",
    "connection-test",
    "consume",
    "depth",
    "load-tests",
    "move-messages",
    "produce",
    "product-ingest",
];
/// Functions that have an idempotency store, as values of the dimension `service`.
const RECORDS: &[&str] = &[
    "batches",
    "consume",
    "drop-intake",
    "load-tests",
    "move-messages",
    "mq-access",
    "produce",
    "product-ingest",
];
const BATCHES_FUNCTION: &[&str] = &["batches"];
const CHUNKER: &[&str] = &["chunker"];
const DEAD_LETTER: &[&str] = &["dead-letter"];
const DROP_INTAKE: &[&str] = &["drop-intake"];
const METERING: &[&str] = &["metering"];
const RECONCILE: &[&str] = &["reconcile"];
const UPSERT: &[&str] = &["upsert"];

/// Defines a constant for each metric of the catalogue, and the list of all metrics.
macro_rules! catalogue {
    ($($name:ident: $metric:expr, $help:literal;)+) => {
        $(
            #[doc = $help]
            pub const $name: Metric = $metric.help($help);
        )+

        /// All metrics, in the order of `GET /metrics`.
        pub const ALL: &[Metric] = &[$($name),+];

        /// Names of the constants in [`ALL`], in the same order.
        #[cfg(test)]
        const CONSTANTS: &[&str] = &[$(stringify!($name)),+];
    };
}

catalogue! {
    // Requests.
    REQUESTS: counter("integrahub_requests_total").emitted("Requests", EmfUnit::Count, HTTP),
        "Requests to an HTTP function, whatever the response.";
    REQUESTS_FAILED:
        counter("integrahub_requests_failed_total").emitted("RequestsFailed", EmfUnit::Count, HTTP),
        "Requests that were answered with a status of 500 or above.";
    STORE_UNAVAILABLE: counter("integrahub_requests_without_store_total")
            .emitted("StoreUnavailable", EmfUnit::Count, HTTP),
        "Requests that were answered with 503, because a store did not respond.";
    // Idempotency.
    IDEMPOTENCY_CLAIMS: counter("integrahub_idempotency_claims_total")
            .emitted("IdempotencyClaims", EmfUnit::Count, RECORDS),
        "New records: requests that were executed for the first time.";
    IDEMPOTENT_REPLAYS: counter("integrahub_idempotency_replays_total")
            .emitted("IdempotentReplays", EmfUnit::Count, RECORDS),
        "Responses that were sent again.";
    IDEMPOTENCY_CONFLICTS: counter("integrahub_idempotency_conflicts_total")
            .emitted("IdempotencyConflicts", EmfUnit::Count, RECORDS),
        "Keys that were used with another body.";
    IDEMPOTENCY_KEY_REUSE_ABUSE: counter("integrahub_idempotency_key_reuse_abuse_total")
            .emitted("IdempotencyKeyReuseAbuse", EmfUnit::Count, RECORDS),
        "Conflicts that were refused because there were too many.";
    IDEMPOTENCY_IN_PROGRESS: counter("integrahub_idempotency_in_progress_total")
            .emitted("IdempotencyInProgress", EmfUnit::Count, RECORDS),
        "Requests that were refused because the same one was being executed.";
    IDEMPOTENCY_TAKEOVERS: counter("integrahub_idempotency_takeovers_total")
            .emitted("IdempotencyTakeovers", EmfUnit::Count, RECORDS),
        "Executions that failed or outlived their lease, and were repeated or resumed.";
    IDEMPOTENCY_IN_DOUBT: counter("integrahub_idempotency_in_doubt_total")
            .emitted("IdempotencyInDoubt", EmfUnit::Count, RECORDS),
        "Responses of an execution that died between storing its result and recording that it was done.";
    IDEMPOTENCY_FENCED: counter("integrahub_idempotency_fenced_total")
            .emitted("IdempotencyFenced", EmfUnit::Count, RECORDS),
        "Writes that came too late and changed nothing.";
    IDEMPOTENCY_UNREADABLE: counter("integrahub_idempotency_unreadable_total")
            .emitted("IdempotencyUnreadable", EmfUnit::Count, RECORDS),
        "Malformed records, and results that are missing or altered.";
    // Dropped objects.
    DROPS_ACCEPTED:
        counter("integrahub_drops_accepted_total").emitted("DropsAccepted", EmfUnit::Count, DROP_INTAKE),
        "Objects that were dropped into S3 and became a batch.";
    DROPS_REFUSED:
        counter("integrahub_drops_refused_total").emitted("DropsRefused", EmfUnit::Count, DROP_INTAKE),
        "Objects that were dropped into S3 and refused.";
    DROPS_FOUND: counter("integrahub_drops_found_total").emitted("DropsFound", EmfUnit::Count, RECONCILE),
        "Dropped objects whose notification was lost and sent again.";
    // Payloads and chunks.
    PAYLOADS_CUT: counter("integrahub_payloads_cut_total").emitted("PayloadsCut", EmfUnit::Count, CHUNKER),
        "Payloads that were cut into chunks.";
    PAYLOADS_FAILED:
        counter("integrahub_payloads_failed_total").emitted("PayloadsFailed", EmfUnit::Count, CHUNKER),
        "Payloads that failed as a whole.";
    ITEMS_PARSED: counter("integrahub_payload_items_total").emitted("ItemsParsed", EmfUnit::Count, CHUNKER),
        "Items of payloads, those in error included.";
    ITEMS_IN_ERROR:
        counter("integrahub_payload_items_in_error_total").emitted("ItemsInError", EmfUnit::Count, CHUNKER),
        "Items that are in no chunk.";
    ITEMS_PARTIAL:
        counter("integrahub_payload_items_partial_total").emitted("ItemsPartial", EmfUnit::Count, CHUNKER),
        "Items that lack members which other items of their payload have.";
    CHUNKING_TIME: histogram("integrahub_payload_duration_seconds")
            .emitted("ChunkingTime", EmfUnit::Milliseconds, CHUNKER),
        "Time that cutting a payload took.";
    CHUNKS_WRITTEN:
        counter("integrahub_chunks_written_total").emitted("ChunksWritten", EmfUnit::Count, UPSERT),
        "Chunks that were committed.";
    ITEMS_INSERTED:
        counter("integrahub_chunk_items_inserted_total").emitted("ItemsInserted", EmfUnit::Count, UPSERT),
        "Items that made a new row.";
    ITEMS_UPDATED:
        counter("integrahub_chunk_items_updated_total").emitted("ItemsUpdated", EmfUnit::Count, UPSERT),
        "Items that changed a row.";
    ITEMS_UNCHANGED:
        counter("integrahub_chunk_items_unchanged_total").emitted("ItemsUnchanged", EmfUnit::Count, UPSERT),
        "Items whose row already had the same content.";
    ITEMS_STALE:
        counter("integrahub_chunk_items_stale_total").emitted("ItemsStale", EmfUnit::Count, UPSERT),
        "Items whose row already had a later version.";
    ITEMS_REJECTED:
        counter("integrahub_chunk_items_rejected_total").emitted("ItemsRejected", EmfUnit::Count, UPSERT),
        "Items that PostgreSQL rejected.";
    WRITING_TIME: histogram("integrahub_chunk_duration_seconds")
            .emitted("WritingTime", EmfUnit::Milliseconds, UPSERT),
        "Time that writing a chunk took.";
    CHUNKS_GIVEN_UP:
        counter("integrahub_chunks_given_up_total").emitted("ChunksGivenUp", EmfUnit::Count, DEAD_LETTER),
        "Chunks whose processing failed too often.";
    BATCHES_GIVEN_UP:
        counter("integrahub_batches_given_up_total").emitted("BatchesGivenUp", EmfUnit::Count, DEAD_LETTER),
        "Batches that failed because their payload could not be cut in time.";
    MESSAGES_UNHANDLED: counter("integrahub_messages_unhandled_total")
            .emitted("MessagesUnhandled", EmfUnit::Count, DEAD_LETTER),
        "Messages that no function could handle.";
    BATCHES_REPLAYED:
        counter("integrahub_batches_replayed_total").emitted("BatchesReplayed", EmfUnit::Count, BATCHES_FUNCTION),
        "New generations of batches.";
    // What `reconcile` finds.
    OBJECTS_FOUND:
        counter("integrahub_objects_found_total").emitted("ObjectsFound", EmfUnit::Count, RECONCILE),
        "Payloads without a batch, whose notification was sent again.";
    OBJECTS_FOREIGN:
        counter("integrahub_objects_foreign_total").emitted("ObjectsForeign", EmfUnit::Count, RECONCILE),
        "Objects under `incoming/` that are not payloads.";
    BATCHES_RESTARTED: counter("integrahub_batches_restarted_total")
            .emitted("BatchesRestarted", EmfUnit::Count, RECONCILE),
        "Stalled batches whose notification was sent again.";
    BATCHES_FINALIZED: counter("integrahub_batches_finalized_total")
            .emitted("BatchesFinalized", EmfUnit::Count, RECONCILE),
        "Batches whose chunks were all done, and that `reconcile` finalized.";
    BATCHES_RELEASED:
        counter("integrahub_batches_released_total").emitted("BatchesReleased", EmfUnit::Count, RECONCILE),
        "Final batches whose objects `reconcile` released.";
    BATCHES_STUCK: gauge("integrahub_batches_stuck").emitted("BatchesStuck", EmfUnit::Count, RECONCILE),
        "Batches for which a restart does not help, as of now.";
    UPLOADS_EXPIRED:
        counter("integrahub_uploads_expired_total").emitted("UploadsExpired", EmfUnit::Count, RECONCILE),
        "Uploads whose payload never came.";
    UPLOADS_FOUND:
        counter("integrahub_uploads_found_total").emitted("UploadsFound", EmfUnit::Count, RECONCILE),
        "Uploads whose payload came without a notification.";
    BATCHES_TOO_OLD:
        counter("integrahub_batches_too_old_total").emitted("BatchesTooOld", EmfUnit::Count, RECONCILE),
        "Batches that were ended in progress, since they are older than the history of loads.";
    BATCHES_PRUNED:
        counter("integrahub_batches_pruned_total").emitted("BatchesPruned", EmfUnit::Count, RECONCILE),
        "Batches that were deleted because the history does not reach back to them.";
    ROWS_PRUNED: counter("integrahub_rows_pruned_total").emitted("RowsPruned", EmfUnit::Count, RECONCILE),
        "Rows that were deleted with these batches.";
    PRUNING_BEHIND: gauge("integrahub_pruning_behind_seconds")
            .emitted("PruningBehindMinutes", EmfUnit::Count, RECONCILE),
        "Time that the next batch to delete has been waiting.";
    EVENTS_REPUBLISHED: counter("integrahub_events_republished_total")
            .emitted("EventsRepublished", EmfUnit::Count, RECONCILE),
        "Events that stayed in the outbox, and that `reconcile` published.";
    EVENTS_BEHIND:
        gauge("integrahub_events_behind_seconds").emitted("EventsBehindMinutes", EmfUnit::Count, RECONCILE),
        "Time that the oldest event has been waiting to be published.";
    RECONCILE_FAILURES: counter("integrahub_reconcile_failures_total")
            .emitted("ReconcileFailures", EmfUnit::Count, RECONCILE),
        "Checks of `reconcile` that failed.";
    // Usage.
    USAGE_LAG:
        gauge("integrahub_usage_lag_seconds").emitted("UsageLag", EmfUnit::Milliseconds, METERING),
        "Age of the time up to which every change of the idempotency table is counted.";
    USAGE_GAPS: counter("integrahub_usage_gaps_total").emitted("UsageGaps", EmfUnit::Count, METERING),
        "Times that were found in which changes may be lost before they were counted.";
    USAGE_CORRECTED:
        counter("integrahub_usage_corrected_total").emitted("UsageCorrected", EmfUnit::Count, METERING),
        "Requests that a recount found and the counters lacked.";
    BUDGETS_REACHED:
        counter("integrahub_budgets_reached_total").emitted("BudgetReached", EmfUnit::Count, METERING),
        "Percentages of budgets that tenants reached.";
    // The state of the ingest, from PostgreSQL.
    BATCHES: counter("integrahub_batches_total").scraped(&["status"]),
        "Batches that became final, by status. A batch that was replayed counts again.";
    BATCH_DURATION: histogram("integrahub_batch_duration_seconds").scraped(&[]),
        "Time from receipt, or from the start of a replay, until the batch was final.";
    ITEMS: counter("integrahub_items_total").scraped(&["outcome"]),
        "Items of final batches, by what became of them.";
    ITEM_ERRORS: counter("integrahub_item_errors_total").scraped(&["code"]),
        "Items in error of final batches, by code. Those that the report of a batch does not list have the code `NOT_LISTED`.";
    BATCHES_UNDER_WAY: gauge("integrahub_batches_under_way").scraped(&["status"]),
        "Batches that are not final, by their status.";
    OLDEST_BATCH_AGE: gauge("integrahub_oldest_batch_age_seconds").scraped(&[]),
        "Age of the oldest batch that is not final; 0 without one.";
    CHUNKS_PENDING: gauge("integrahub_chunks_pending").scraped(&[]),
        "Chunks that are not written yet.";
    OLDEST_CHUNK_AGE: gauge("integrahub_oldest_chunk_age_seconds")
            .emitted("ChunksBehindMinutes", EmfUnit::Count, RECONCILE)
            .scraped(&[]),
        "Time that the oldest chunk has been waiting to be written; 0 without one.";
    OLDEST_EVENT_AGE: gauge("integrahub_oldest_event_age_seconds").scraped(&[]),
        "Time that the oldest event has been waiting to be published; 0 without one.";
    // Kafka, where chunks go through it.
    KAFKA_LAG: gauge("integrahub_kafka_lag_records").scraped(&["partition"]),
        "Records of a partition of the topic of chunks that `upsert` has neither written nor parked. Only with Kafka.";
    // Requests that have a record, from the counters of usage.
    OPERATIONS: counter("integrahub_operations_total").scraped(&["operation", "outcome"]),
        "Requests with a record that ended, by operation. Those that failed are `failed`, although a retry may have done them later.";
    OPERATION_MESSAGES: counter("integrahub_operation_messages_total").scraped(&["operation", "target"]),
        "Messages that were put, got or moved, by operation and queue. Queues beyond the first 500 count as `other`.";
    OPERATION_BYTES: counter("integrahub_operation_bytes_total").scraped(&["operation", "target"]),
        "Bytes of these messages.";
    USAGE_READ_UNTIL: gauge("integrahub_usage_read_until_timestamp_seconds").scraped(&[]),
        "Time up to which requests are counted, in seconds since 1970.";
    // Queues.
    QUEUE_MESSAGES: gauge("integrahub_queue_messages").scraped(&["queue", "state"]),
        "Messages in a queue of the deployment, as SQS estimates them.";
    // The snapshot itself.
    UP: gauge("integrahub_up").scraped(&["part"]),
        "State of a part of the snapshot: 1 if it could be read, or else 0, with older figures or none.";
    SNAPSHOT_AGE: gauge("integrahub_snapshot_age_seconds").scraped(&[]),
        "Age of the snapshot that this response was made of.";
    BUILD_INFO: gauge("integrahub_build_info").scraped(&["commit", "version"]),
        "Version and commit of the function that responded; always 1.";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use super::super::Kind;
    use super::*;

    const FILE: &str = include_str!("../../../../../deploy/metrics.json");

    /// Builds the expected content of `deploy/metrics.json` from the catalogue.
    fn document() -> Value {
        let entry = |(metric, constant): (&Metric, &&str)| {
            let emf = metric
                .emf
                .map(|emf| json!({"name": emf.name, "unit": emf.unit.as_str(), "services": emf.services}));
            json!({
                "constant": constant,
                "name": metric.name,
                "kind": metric.kind.as_str(),
                "unit": metric.unit(),
                "help": metric.help,
                "labels": metric.labels,
                "scraped": metric.is_scraped,
                "emf": emf,
            })
        };
        ALL.iter().zip(CONSTANTS).map(entry).collect()
    }

    #[test]
    fn the_file_for_the_deployment_has_the_same_metrics() {
        let file: Vec<Value> = serde_json::from_str(FILE).unwrap();
        let Value::Array(metrics) = document() else { panic!("no list") };
        for (metric, line) in metrics.iter().zip(&file) {
            assert_eq!(metric, line, "deploy/metrics.json must have this line:\n{metric}");
        }
        assert_eq!(file.len(), metrics.len());
    }

    #[test]
    fn names_follow_the_conventions_of_prometheus() {
        for metric in ALL {
            let name = metric.name;
            assert!(name.starts_with("integrahub_"), "{name}");
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
            assert_eq!(name.ends_with("_total"), metric.kind == Kind::Counter, "{name}");
            assert_eq!(metric.kind == Kind::Histogram, name.ends_with("_duration_seconds"), "{name}");
            // Other metrics have a family by these names if there is a histogram.
            assert!(!["_bucket", "_count", "_sum"].iter().any(|suffix| name.ends_with(suffix)), "{name}");
            assert!(metric.help.ends_with('.') && metric.help.len() <= 200, "{name}");
            assert!(metric.labels.is_sorted() && !metric.labels.contains(&"le"), "{name}");
        }
    }

    #[test]
    fn each_metric_is_published_once_under_a_name() {
        let names: BTreeSet<_> = ALL.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), ALL.len());
        let emitted: Vec<_> = ALL.iter().filter_map(|metric| metric.emf).collect();
        let emitted_names: BTreeSet<_> = emitted.iter().map(|emf| emf.name).collect();
        assert_eq!(emitted_names.len(), emitted.len());
        for metric in ALL {
            assert!(metric.is_scraped || metric.emf.is_some(), "{} is published nowhere", metric.name);
            assert!(metric.is_scraped || metric.labels.is_empty(), "{} has labels nowhere", metric.name);
            assert!(metric.emf.is_none_or(|emf| !emf.services.is_empty()), "{}", metric.name);
        }
    }
}
