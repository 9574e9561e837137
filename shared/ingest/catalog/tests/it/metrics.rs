use std::time::Duration;

use catalog::{Database, IngestMetrics};
use ingestion::batch::BatchStatus;

use crate::support::{Load, TestDatabase, database_test};

/// Returns the value of the counter with this metric and label. Returns 0 if there is none.
fn counted(metrics: &IngestMetrics, metric: &str, label: &str) -> u64 {
    let of_metric = metrics.counted.iter().filter(|counted| counted.metric == metric);
    of_metric.filter(|counted| counted.label == label).map(|counted| counted.value).sum()
}

async fn additions(test: &TestDatabase) -> i64 {
    test.number("SELECT count(*) FROM metric_additions").await
}

async fn metrics(database: &Database) -> IngestMetrics {
    database.metrics().await.unwrap()
}

#[test]
fn without_batches_nothing_is_under_way() {
    database_test(async |test| {
        let database = test.open();
        assert_eq!(metrics(&database).await, IngestMetrics::default());
        assert_eq!(database.oldest_chunk().await.unwrap(), Duration::ZERO);
        assert!(!database.fold_counters().await.unwrap());
    });
}

#[test]
fn what_is_under_way_is_counted_until_it_is_final() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::delta(0).keys([1, 2]).keys([3, 4, 5]);
        load.prepare(&database).await;
        database.write_chunk(&load.chunks[0]).await.unwrap();
        test.execute(
            "UPDATE batches SET received_at = now() - interval '1 h', generation_began_at = now() - interval '1 h'; \
             UPDATE batch_chunks SET created_at = now() - interval '30 min'",
        )
        .await;
        let under_way = metrics(&database).await;
        assert_eq!(under_way.under_way, [("PROCESSING".to_owned(), 1)]);
        assert_eq!((under_way.chunks_pending, under_way.counted), (1, Vec::new()));
        assert!(under_way.oldest_batch >= Duration::from_hours(1), "{:?}", under_way.oldest_batch);
        let oldest = under_way.oldest_chunk;
        assert!(oldest >= Duration::from_mins(30) && oldest < Duration::from_hours(1), "{oldest:?}");
        assert!(database.oldest_chunk().await.unwrap() >= oldest);

        database.write_chunk(&load.chunks[1]).await.unwrap();
        let done = metrics(&database).await;
        assert_eq!((done.under_way, done.chunks_pending, done.oldest_batch), (vec![], 0, Duration::ZERO));
        assert_eq!(done.oldest_chunk, Duration::ZERO);
    });
}

#[test]
fn final_batches_are_counted_with_their_items_and_stay_so_when_they_are_deleted() {
    database_test(async |test| {
        let database = test.open();
        assert_eq!(Load::delta(1).keys([1, 2]).run(&database).await, BatchStatus::Completed);
        let second = Load::delta(2).keys([1, 2, 3]).error(Some(9)).error(None);
        assert_eq!(second.run(&database).await, BatchStatus::Completed);
        let before = metrics(&database).await;
        for (metric, label, value) in [
            ("batches", "COMPLETED", 2),
            ("batches", "PARTIAL_FAIL", 0),
            ("items", "inserted", 3),
            ("items", "unchanged", 2),
            ("items", "failed", 2),
            ("items", "updated", 0),
            ("item_errors", "FIELD_INVALID", 2),
            ("item_errors", "NOT_LISTED", 0),
        ] {
            assert_eq!(counted(&before, metric, label), value, "{metric} {label} of {before:?}");
        }
        let times = before.counted.iter().filter(|counted| counted.metric == "batch_duration");
        assert_eq!(times.map(|counted| counted.value).sum::<u64>(), 2, "{before:?}");

        assert!(additions(test).await > 0);
        assert!(!database.fold_counters().await.unwrap());
        assert_eq!((additions(test).await, metrics(&database).await), (0, before.clone()));
        test.execute("DELETE FROM products; DELETE FROM batches").await;
        Load::delta(3).keys([7]).run(&database).await;
        assert_eq!(counted(&metrics(&database).await, "batches", "COMPLETED"), 3);
        let other = test.open();
        let folds = tokio::join!(database.fold_counters(), other.fold_counters());
        assert!(folds.0.is_ok() && folds.1.is_ok(), "{folds:?}");
        let after = metrics(&database).await;
        assert_eq!((counted(&after, "batches", "COMPLETED"), counted(&after, "items", "inserted")), (3, 4));
    });
}

#[test]
fn a_time_is_counted_up_to_the_next_bound() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::delta(0).keys([1]);
        load.prepare(&database).await;
        test.execute("UPDATE batches SET received_at = now() - interval '20 s'").await;
        database.write_chunk(&load.chunks[0]).await.unwrap();
        let metrics = metrics(&database).await;
        assert_eq!(counted(&metrics, "batch_duration", "30"), 1, "{metrics:?}");
        let milliseconds = counted(&metrics, "batch_milliseconds", "");
        assert!((20_000..30_000).contains(&milliseconds), "{milliseconds}");
    });
}
