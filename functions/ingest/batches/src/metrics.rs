//! Metrics of the ingest's database, and of Kafka if chunks go through it. The API's `GET /metrics`
//! invokes this function for them, since both may be reachable from this one only.

use std::error::Error;
use std::time::Duration;

use api::Reply;
use catalog::{DatabaseError, IngestMetrics};
use events::kafka::{PartitionLag, TopicWatch};
use ingestion::batch::BatchStatus;
use runtime::metrics::{
    BATCH_DURATION, BATCHES, BATCHES_UNDER_WAY, CHUNKS_PENDING, ITEM_ERRORS, ITEMS, KAFKA_LAG,
    OLDEST_BATCH_AGE, OLDEST_CHUNK_AGE, OLDEST_EVENT_AGE, Scrape, UP,
};
use serde_json::json;

use crate::Batches;

/// Time limit for reading the metrics of the database, and also for those of Kafka, which are read
/// at the same time. The API function that invokes this one for `GET /metrics` waits only a little
/// longer.
const TIMEOUT: Duration = Duration::from_millis(1200);

/// Statuses for which the metrics show the number of unfinished batches, even if it is 0.
const UNDER_WAY: [BatchStatus; 3] = [BatchStatus::Received, BatchStatus::Chunking, BatchStatus::Processing];
/// Statuses for which the metrics count finished batches. `EXPIRED` is missing: a batch whose
/// payload never came is not in the database.
const FINAL: [BatchStatus; 3] = [BatchStatus::Completed, BatchStatus::PartialFail, BatchStatus::Failed];
const OUTCOMES: [&str; 5] = ["inserted", "updated", "unchanged", "stale", "failed"];
/// Upper bounds, in seconds, of the histogram of times from a batch's receipt to its end. The
/// database counts with the same bounds.
const BOUNDS: [f64; 12] =
    [1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 900.0, 1800.0, 3600.0, 14_400.0, 86_400.0];

impl Batches {
    /// Returns the ingest's metrics as JSON, or 503 if the database fails or does not respond in
    /// time.
    pub(crate) async fn metrics(&self) -> Reply {
        let kafka = async {
            match &self.kafka {
                Some(kafka) => lag(kafka).await,
                None => Scrape::default(),
            }
        };
        let (asked, kafka) = tokio::join!(tokio::time::timeout(TIMEOUT, self.database.metrics()), kafka);
        match asked.unwrap_or(Err(DatabaseError::TimedOut)) {
            Ok(metrics) => {
                let mut scrape = scrape(&metrics);
                scrape.extend(kafka);
                Reply::json(200, &json!(scrape))
            }
            Err(error) => {
                let error: &(dyn std::error::Error + 'static) = &error;
                tracing::error!(event_type = "metrics.failed", error, "cannot read the metrics: {error}");
                Reply::json(503, &json!({"status": "unavailable"}))
            }
        }
    }
}

/// Reads the consumer lag of the Kafka topic of chunks as metrics. If the cluster does not respond,
/// the metrics only show that Kafka is down.
async fn lag(kafka: &TopicWatch) -> Scrape {
    // Boxed: the futures of the client are large.
    let asked = tokio::time::timeout(TIMEOUT, Box::pin(kafka.lag())).await;
    let found: Result<_, Box<dyn Error + Send + Sync>> = match asked {
        Ok(found) => found.map_err(Into::into),
        Err(_) => Err("it did not answer in time".into()),
    };
    if let Err(error) = &found {
        let error: &(dyn Error + 'static) = &**error;
        tracing::warn!(
            event_type = "metrics.part_failed",
            part = "kafka",
            error,
            "the part kafka of the metrics cannot be read: {error}"
        );
    }
    scrape_of_kafka(found.ok().as_deref())
}

/// Converts the consumer lag of each partition to metrics. `None`, for a lag that could not be
/// read, reports Kafka as down.
fn scrape_of_kafka(lag: Option<&[PartitionLag]>) -> Scrape {
    let mut scrape = Scrape::default();
    for PartitionLag { partition, records } in lag.into_iter().flatten() {
        scrape.put(KAFKA_LAG, &[partition.to_string().as_str()], records);
    }
    scrape.put(UP, &["kafka"], u8::from(lag.is_some()));
    scrape
}

fn scrape(metrics: &IngestMetrics) -> Scrape {
    let mut scrape = Scrape::default();
    for status in UNDER_WAY.map(BatchStatus::as_str) {
        let batches =
            metrics.under_way.iter().find(|(of, _)| of == status).map_or(0, |(_, batches)| *batches);
        scrape.put(BATCHES_UNDER_WAY, &[status], batches);
    }
    scrape.put(OLDEST_BATCH_AGE, &[], metrics.oldest_batch.as_secs_f64());
    scrape.put(CHUNKS_PENDING, &[], metrics.chunks_pending);
    scrape.put(OLDEST_CHUNK_AGE, &[], metrics.oldest_chunk.as_secs_f64());
    scrape.put(OLDEST_EVENT_AGE, &[], metrics.oldest_event.as_secs_f64());
    let known = |metric: &str, label: &str| {
        let found = counted(metrics, metric).find(|(of, _)| *of == label);
        found.map_or(0, |(_, value)| value)
    };
    for status in FINAL.map(BatchStatus::as_str) {
        scrape.put(BATCHES, &[status], known("batches", status));
    }
    for outcome in OUTCOMES {
        scrape.put(ITEMS, &[outcome], known("items", outcome));
    }
    for (code, items) in counted(metrics, "item_errors") {
        scrape.put(ITEM_ERRORS, &[code], items);
    }
    let mut times = [0_u64; BOUNDS.len() + 1];
    for (bound, batches) in counted(metrics, "batch_duration") {
        // A version with further bounds counts these times up to the next one of this version.
        let bound: f64 = bound.parse().unwrap_or(f64::INFINITY);
        if let Some(times) = times.get_mut(BOUNDS.partition_point(|own| *own < bound)) {
            *times = times.saturating_add(batches);
        }
    }
    let sum = Duration::from_millis(known("batch_milliseconds", "")).as_secs_f64();
    scrape.put_histogram(BATCH_DURATION, &BOUNDS, &times, sum);
    scrape
}

/// Returns the label and the value of each counter that the database has for a metric.
fn counted<'a>(metrics: &'a IngestMetrics, metric: &str) -> impl Iterator<Item = (&'a str, u64)> {
    let of_metric = metrics.counted.iter().filter(move |counted| counted.metric == metric);
    of_metric.map(|counted| (counted.label.as_str(), counted.value))
}

#[cfg(test)]
mod tests {
    use catalog::Counted;

    use super::*;

    #[test]
    fn counters_become_metrics_and_those_without_a_value_are_zero() {
        let counted = |metric: &str, label: &str, value| Counted {
            metric: metric.to_owned(),
            label: label.to_owned(),
            value,
        };
        let metrics = IngestMetrics {
            under_way: vec![("PROCESSING".to_owned(), 2)],
            oldest_chunk: Duration::from_millis(1500),
            chunks_pending: 7,
            counted: vec![
                counted("batches", "COMPLETED", 5),
                counted("items", "inserted", 40),
                counted("item_errors", "CNPJ_INVALID", 3),
                counted("batch_duration", "5", 4),
                counted("batch_duration", "100", 1),
                counted("batch_duration", "inf", 1),
                counted("batch_milliseconds", "", 90_500),
            ],
            ..IngestMetrics::default()
        };
        let text = scrape(&metrics).text();
        for line in [
            "integrahub_batches_under_way{status=\"PROCESSING\"} 2",
            "integrahub_batches_under_way{status=\"RECEIVED\"} 0",
            "integrahub_oldest_chunk_age_seconds 1.5",
            "integrahub_oldest_event_age_seconds 0",
            "integrahub_chunks_pending 7",
            "integrahub_batches_total{status=\"COMPLETED\"} 5",
            "integrahub_batches_total{status=\"FAILED\"} 0",
            "integrahub_items_total{outcome=\"inserted\"} 40",
            "integrahub_items_total{outcome=\"stale\"} 0",
            "integrahub_item_errors_total{code=\"CNPJ_INVALID\"} 3",
            "integrahub_batch_duration_seconds_bucket{le=\"1\"} 0",
            "integrahub_batch_duration_seconds_bucket{le=\"5\"} 4",
            "integrahub_batch_duration_seconds_bucket{le=\"120\"} 5",
            "integrahub_batch_duration_seconds_bucket{le=\"+Inf\"} 6",
            "integrahub_batch_duration_seconds_sum 90.5",
            "integrahub_batch_duration_seconds_count 6",
        ] {
            assert!(text.lines().any(|own| own == line), "{line} is missing in\n{text}");
        }
    }

    #[test]
    fn the_lag_of_kafka_is_a_part_of_its_own() {
        let of = |partition, records| PartitionLag { partition, records };
        let text = scrape_of_kafka(Some(&[of(0, 3), of(1, 0)])).text();
        for line in [
            "integrahub_kafka_lag_records{partition=\"0\"} 3",
            "integrahub_kafka_lag_records{partition=\"1\"} 0",
            "integrahub_up{part=\"kafka\"} 1",
        ] {
            assert!(text.lines().any(|own| own == line), "{line} is missing in\n{text}");
        }
        let away = scrape_of_kafka(None).text();
        assert!(away.contains("integrahub_up{part=\"kafka\"} 0\n") && !away.contains("lag"), "{away}");
    }

    #[test]
    fn the_database_counts_by_the_same_bounds_and_the_same_final_statuses() {
        let sql = include_str!("../../../../shared/ingest/catalog/migrations/V15__metrics.sql");
        let bounds: Vec<_> = BOUNDS.iter().map(f64::to_string).collect();
        assert!(sql.contains(&format!("ARRAY[{}]::double precision[]", bounds.join(", "))));
        assert!(sql.contains(&format!("ARRAY['{}', 'inf']", bounds.join("', '"))));
        for status in FINAL {
            assert!(status.is_final() && sql.contains(status.as_str()), "{status}");
        }
        assert!(UNDER_WAY.iter().all(|status| !status.is_final()));
    }
}
