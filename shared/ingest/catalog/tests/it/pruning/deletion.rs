//! Tests of the deletion of old batches: which rows are deleted, when, and at which cost.

use std::time::Duration;

use catalog::ReplayOutcome;
use ingestion::Viewer;
use ingestion::chunk::Generation;

use super::{replay, rows_of, shown};
use crate::support::{Load, TENANT, at, database_test};

#[test]
fn a_batch_is_deleted_with_all_that_belongs_to_it_and_no_other_is() {
    database_test(async |test| {
        let database = test.open();
        let old = Load::full(10).keys(0..6).keys(6..9).error(Some(20));
        old.run(&database).await;
        assert!(matches!(replay(&database, &old).await, ReplayOutcome::Begun(_)));
        for chunk in &old.chunks {
            database.write_chunk(&chunk.clone().of_generation(Generation::FIRST.next())).await.unwrap();
        }
        let young = Load::delta(20).keys(0..3).error(None);
        young.run(&database).await;
        let (before, products) = (rows_of(test, &young).await, test.products().await);
        test.keep_since(20).await;
        let pruned = test.prune().await;
        // The batch, two chunks, two establishments and one item in error; its replay goes with it.
        assert_eq!((pruned.batches, pruned.rows), (1, 6));
        assert_eq!((rows_of(test, &old).await, rows_of(test, &young).await), (0, before));
        assert_eq!(test.products().await, products);
        assert_eq!(shown(&database, &old).await, None);
        assert_eq!(replay(&database, &old).await, ReplayOutcome::Unknown);
        assert!(matches!(replay(&database, &young).await, ReplayOutcome::Begun(_)));
    });
}

#[test]
fn what_ended_late_or_not_at_all_is_kept() {
    database_test(async |test| {
        let database = test.open();
        let (late, under_way) = (Load::delta(10).keys(0..3), Load::delta(10).keys(0..3));
        late.run(&database).await;
        under_way.prepare(&database).await;
        test.keep_since(20).await;
        // Its end was now, which is after the test's time.
        assert_eq!(database.prune().await.unwrap(), catalog::Pruned::default());
        assert!(shown(&database, &late).await.is_some());
        test.prune().await;
        assert_eq!(shown(&database, &late).await, None);
        assert!(shown(&database, &under_way).await.is_some());
    });
}

/// Checks that a batch is kept until its objects in S3 are released, which is when they get the tag
/// that lets them expire. Only the batch's rows name the objects that still lack the tag.
#[test]
fn a_batch_is_kept_until_its_objects_are_released() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::delta(10).keys(0..3);
        load.run(&database).await;
        test.keep_since(20).await;
        test.execute("UPDATE batches SET finished_at = received_at").await;
        assert_eq!(database.prune().await.unwrap(), catalog::Pruned::default());
        assert!(database.pruning_behind(Duration::ZERO).await.unwrap() > Duration::ZERO, "it is noticed");
        let unreleased = database.select_unreleased(Duration::ZERO, 10).await.unwrap();
        assert_eq!(unreleased.iter().map(|batch| batch.batch_id).collect::<Vec<_>>(), [load.id()]);
        assert!(database.note_released(load.id(), Generation::FIRST).await.unwrap());
        assert_eq!(database.prune().await.unwrap().batches, 1);
    });
}

#[test]
fn nothing_is_deleted_in_the_first_ten_minutes() {
    database_test(async |test| {
        let database = test.open();
        Load::delta(10).keys(0..3).run(&database).await;
        test.execute(
            "UPDATE batches SET finished_at = now() - interval '2 d', received_at = now() - interval '2 d', \
                 objects_let_go = true",
        )
        .await;
        let day = Duration::from_hours(24);
        let announced = "UPDATE batch_history SET announced_at = announced_at - interval '599 s'";
        assert!(!database.advance_history(day).await.unwrap(), "the migration was a moment ago");
        test.execute(announced).await;
        test.execute("UPDATE batch_history SET announced_at = announced_at - interval '1 s'").await;
        assert!(database.advance_history(day).await.unwrap());
        for _ in 0..2 {
            assert_eq!(database.prune().await.unwrap().rows, 0);
            assert!(!database.advance_history(day / 2).await.unwrap());
            test.execute(announced).await;
            test.execute(
                "UPDATE batch_history SET announced_at = greatest(announced_at, now() - interval '590 s')",
            )
            .await;
        }
        test.execute("UPDATE batch_history SET announced_at = announced_at - interval '10 s'").await;
        let behind = database.pruning_behind(day).await.unwrap().as_secs();
        assert!((86_400..86_460).contains(&behind), "{behind} s behind");
        assert_eq!(database.prune().await.unwrap().batches, 1);
        assert_eq!(database.pruning_behind(day).await.unwrap(), Duration::ZERO);
        // A history whose setting is longer again becomes longer only with time.
        let since = "SELECT extract(epoch FROM kept_since)::bigint FROM batch_history";
        let before = test.number(since).await;
        assert!(!database.advance_history(day * 2).await.unwrap());
        assert_eq!(test.number(since).await, before);
    });
}

#[test]
fn each_statement_deletes_a_bounded_number_of_rows() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::delta(10).keys(0..3);
        load.run(&database).await;
        let id = load.id();
        let mut notes = "CREATE TABLE deletions (what text, rows bigint); CREATE FUNCTION note() RETURNS trigger \
             LANGUAGE plpgsql AS 'BEGIN INSERT INTO deletions SELECT TG_TABLE_NAME, count(*) FROM gone; RETURN NULL; END';"
            .to_owned();
        for table in ["batches", "batch_chunks", "batch_cnpjs", "batch_item_errors"] {
            notes += &format!(
                "CREATE TRIGGER note AFTER DELETE ON {table} REFERENCING OLD TABLE AS gone \
                 FOR EACH STATEMENT EXECUTE FUNCTION note();"
            );
        }
        test.execute(&notes).await;
        test.execute(&format!(
            "INSERT INTO batch_chunks (chunk_id, batch_id, generation, chunk_index, chunk_uri, first_cnpj, items, status, key_hashes) \
                 SELECT gen_random_uuid(), '{id}', 1, n, 's3://b/k', '11222333000181', 1, 'DONE', ARRAY[n] FROM generate_series(1, 1200) n; \
             INSERT INTO batch_cnpjs (batch_id, cnpj, received_at) \
                 SELECT '{id}', lpad(n::text, 14, '0'), '{}' FROM generate_series(1, 12000) n; \
             INSERT INTO batch_item_errors (batch_id, item_index, byte_offset, code, detail, key) \
                 SELECT '{id}', n, 0, 'CNPJ_INVALID', '', '{{}}' FROM generate_series(1, 10000) n",
            at(10)
        ))
        .await;
        test.keep_since(20).await;
        test.execute("UPDATE batches SET finished_at = received_at, objects_let_go = true").await;
        // From the first slice on, the batch is shown to nobody.
        assert!(shown(&database, &load).await.is_some());
        assert!(database.prune().await.unwrap().is_more);
        assert_eq!(shown(&database, &load).await, None);
        let viewer = Viewer::whole(TENANT);
        assert_eq!(database.item_errors(&viewer, id, None, 10).await.unwrap(), None);
        assert_eq!(database.batches(&viewer, &catalog::BatchFilter::default(), 10, None).await.unwrap(), []);
        test.prune().await;
        assert_eq!(rows_of(test, &load).await, 0);
        let most = test
            .rows("SELECT what, max(rows), sum(rows)::bigint FROM deletions GROUP BY what ORDER BY what")
            .await;
        let most: Vec<(String, i64, i64)> =
            most.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
        let of = |what: &str, most, all| (what.to_owned(), most, all);
        let expected = [
            of("batch_chunks", 500, 1201),
            of("batch_cnpjs", 5000, 12_002),
            of("batch_item_errors", 5000, 10_000),
            of("batches", 1, 1),
        ];
        assert_eq!(most, expected);
    });
}

/// Checks that the query for batches to delete does not read the batches that are kept.
#[test]
fn many_batches_that_are_kept_cost_nothing() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::delta(10).keys(0..3);
        load.run(&database).await;
        test.keep_since(20).await;
        test.execute(&format!(
            "UPDATE batches SET finished_at = received_at, objects_let_go = true; \
             INSERT INTO batches (batch_id, tenant_id, load_type, media_type, idempotency_key, trace_id, received_at, payload_uri, \
                 status, deactivation, finished_at) SELECT gen_random_uuid(), gen_random_uuid(), 'delta', 'application/json', n::text, \
                 'trace', '{0}'::timestamptz + n * interval '1 s', 's3://payloads/x', 'COMPLETED', '{{\"state\": \"not_applicable\"}}', \
                 '{0}'::timestamptz + n * interval '1 s' FROM generate_series(1, 20000) n; \
             INSERT INTO batch_item_errors (batch_id, item_index, byte_offset, code, detail, key) \
                 SELECT batch_id, 1, 0, 'CNPJ_INVALID', '', '{{}}' FROM batches; \
             INSERT INTO batch_cnpjs (batch_id, cnpj, received_at) SELECT batch_id, '00000000000000', received_at FROM batches; \
             INSERT INTO batch_chunks (chunk_id, batch_id, generation, chunk_index, chunk_uri, first_cnpj, items) \
                 SELECT gen_random_uuid(), batch_id, 1, 7, 's3://b/k', '11222333000181', 1 FROM batches; \
             ANALYZE batches, batch_chunks, batch_cnpjs, batch_item_errors",
            at(20)
        ))
        .await;
        let tables = "('batches', 'batch_chunks', 'batch_cnpjs', 'batch_item_errors', 'batch_replays')";
        let scans =
            format!("SELECT sum(seq_tup_read)::bigint FROM pg_stat_user_tables WHERE relname IN {tables}");
        let settled = async || {
            // A session tells of what it read when it ends, at the latest.
            test.execute("SELECT pg_stat_clear_snapshot()").await;
            test.number(&scans).await
        };
        let pid = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'integrahub'";
        let closed = async || {
            while test.number(pid).await > 0 {
                test.execute("SELECT pg_stat_clear_snapshot()").await;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        drop(database);
        closed().await;
        let before = settled().await;
        let database = test.open();
        assert_eq!(database.prune().await.unwrap().batches, 1);
        assert_eq!(database.prune().await.unwrap(), catalog::Pruned::default());
        assert!(database.end_too_old(10).await.unwrap().is_empty());
        database.pruning_behind(Duration::from_secs(1)).await.unwrap();
        drop(database);
        closed().await;
        assert_eq!(settled().await, before, "rows were read one after the other");
        assert_eq!(test.number("SELECT count(*) FROM batches").await, 20_000);
    });
}
