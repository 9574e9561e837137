//! The end of the history of loads: what is too old is not processed, and is deleted.

use std::time::Duration;

use catalog::{Begun, Database, PayloadFailure, ReplayOutcome, ReplayRequest, SealOutcome, Written};
use ingestion::Viewer;
use ingestion::batch::{BatchStatus, Changes, NotReplayable, Replay, ReplayScope, SkipReason};
use ingestion::chunk::{Generation, Plan};
use uuid::Uuid;

use crate::support::{Item, Load, TENANT, TestDatabase, at, database_test, product};

const fn dated(key: u32, content: u32, updated_at: i64) -> Item {
    Item { key, content, updated_at: Some(updated_at) }
}

async fn changes(database: &Database, load: &Load) -> Changes {
    match database.write_chunk(&load.chunks[0]).await.unwrap() {
        Written::Done { result, .. } => result.changes(),
        other => panic!("{other:?}"),
    }
}

async fn replay(database: &Database, load: &Load) -> ReplayOutcome {
    let request = ReplayRequest {
        replay: Replay { scope: ReplayScope::All, confirm_deactivation: false },
        idempotency_key: Uuid::new_v4().to_string(),
        requested_at: at(0),
    };
    database.replay(&Viewer::whole(TENANT), load.id(), &request).await.unwrap()
}

async fn shown(database: &Database, load: &Load) -> Option<catalog::BatchView> {
    database.batch(&Viewer::whole(TENANT), load.id()).await.unwrap()
}

/// The rows that a batch has in each table.
async fn rows_of(test: &TestDatabase, load: &Load) -> i64 {
    let tables = ["batches", "batch_chunks", "batch_cnpjs", "batch_item_errors", "batch_replays"];
    let counts =
        tables.map(|table| format!("(SELECT count(*) FROM {table} WHERE batch_id = '{}')", load.id()));
    test.number(&format!("SELECT {}", counts.join(" + "))).await
}

const TITLES: &str = "SELECT string_agg(title, ', ' ORDER BY productid) AS titles FROM products";

async fn titles(test: &TestDatabase) -> String {
    test.rows(TITLES).await[0].get("titles")
}

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

#[test]
fn nothing_is_deleted_in_the_first_ten_minutes() {
    database_test(async |test| {
        let database = test.open();
        Load::delta(10).keys(0..3).run(&database).await;
        test.execute(
            "UPDATE batches SET finished_at = now() - interval '2 d', received_at = now() - interval '2 d'",
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
        // A history that is to be longer again gets so by and by.
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
        test.execute("UPDATE batches SET finished_at = received_at").await;
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

/// What is to be deleted is found without looking at what is kept.
#[test]
fn many_batches_that_are_kept_cost_nothing() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::delta(10).keys(0..3);
        load.run(&database).await;
        test.keep_since(20).await;
        test.execute(&format!(
            "UPDATE batches SET finished_at = received_at; \
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

#[test]
fn chunks_that_are_too_old_are_not_written_and_their_batch_ends() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::full(10).keys(0..3).keys(3..6).keys(6..9).keys(9..12);
        load.prepare(&database).await;
        let [done, failed, pending, _] = &load.chunks[..] else { panic!("four chunks") };
        database.write_chunk(done).await.unwrap();
        test.give_up(failed).await;
        let never = Load::delta(10).keys(20..23);
        test.keep_since(20).await;
        for chunk in [failed, pending, &never.chunks[0]] {
            assert_eq!(database.write_chunk(chunk).await.unwrap(), Written::TooOld);
        }
        assert!(matches!(database.write_chunk(done).await.unwrap(), Written::AlreadyDone { .. }));
        assert_eq!(test.number("SELECT count(*) FROM products").await, 3);

        let ended = database.end_too_old(10).await.unwrap();
        assert_eq!(ended.iter().map(|batch| batch.batch_id).collect::<Vec<_>>(), [load.id()]);
        assert_eq!(database.end_too_old(10).await.unwrap(), []);
        let batch = shown(&database, &load).await.unwrap();
        assert_eq!((batch.status, batch.chunks.done, batch.chunks.failed), (BatchStatus::PartialFail, 1, 3));
        assert_eq!(batch.error.unwrap().code, PayloadFailure::TOO_OLD);
        assert_eq!(batch.items_parsed, batch.items_processed + batch.items_failed);
        assert_eq!(replay(&database, &load).await, ReplayOutcome::NotReplayable(NotReplayable::TooOld));
        assert_eq!(database.write_chunk(pending).await.unwrap(), Written::TooOld);
    });
}

#[test]
fn of_many_chunks_those_that_wait_are_given_up_in_slices() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::delta(10).keys(0..3);
        load.prepare(&database).await;
        test.execute(&format!(
            "INSERT INTO batch_chunks (chunk_id, batch_id, generation, chunk_index, chunk_uri, first_cnpj, items) \
                 SELECT gen_random_uuid(), '{0}', 1, n, 's3://b/k', '11222333000181', 1 FROM generate_series(1, 2500) n; \
             UPDATE batches SET items_parsed = 2503, chunks_pending = 2501",
            load.id()
        ))
        .await;
        test.keep_since(20).await;
        database.end_too_old(1).await.unwrap();
        let batch = shown(&database, &load).await.unwrap();
        assert_eq!((batch.status, batch.chunks.failed, batch.chunks.pending), (BatchStatus::Failed, 2501, 0));
    });
}

#[test]
fn a_payload_that_is_too_old_fails_and_says_so() {
    database_test(async |test| {
        let database = test.open();
        let (fresh, begun, sealed, given_up, done) = (
            Load::delta(1),
            Load::delta(2),
            Load::delta(3).keys(0..3),
            Load::delta(4),
            Load::delta(5).keys(0..3),
        );
        let failure = |code: &'static str| PayloadFailure {
            code: code.into(),
            detail: "it did not work".to_owned(),
            byte_offset: None,
        };
        database.begin_chunking(&begun.batch, Plan::default()).await.unwrap();
        sealed.prepare(&database).await;
        database.fail_payload(&given_up.batch, &failure(PayloadFailure::GIVEN_UP)).await.unwrap();
        let malformed = Load::delta(6);
        database.fail_payload(&malformed.batch, &failure("MALFORMED_JSON")).await.unwrap();
        done.run(&database).await;
        test.keep_since(20).await;
        for (load, status) in [
            (&fresh, BatchStatus::Failed),
            (&begun, BatchStatus::Failed),
            (&sealed, BatchStatus::Processing),
            (&given_up, BatchStatus::Failed),
            (&malformed, BatchStatus::Failed),
            (&done, BatchStatus::Completed),
        ] {
            for _ in 0..2 {
                let begun = database.begin_chunking(&load.batch, Plan::default()).await.unwrap();
                assert_eq!(begun, Begun::TooOld(status));
            }
        }
        let code = async |load| shown(&database, load).await.unwrap().error.map(|error| error.code);
        for load in [&fresh, &begun, &given_up] {
            assert_eq!(code(load).await.as_deref(), Some("TOO_OLD"));
        }
        assert_eq!(code(&malformed).await.as_deref(), Some("MALFORMED_JSON"));
        assert_eq!(code(&done).await, None);
        // Given up by somebody who has not heard.
        let unheard = Load::delta(7);
        database.fail_payload(&unheard.batch, &failure(PayloadFailure::GIVEN_UP)).await.unwrap();
        assert_eq!(code(&unheard).await.as_deref(), Some("TOO_OLD"));
        assert_eq!(replay(&database, &unheard).await, ReplayOutcome::NotReplayable(NotReplayable::TooOld));
    });
}

/// A run of the chunker that began before goes on to its end, which does no harm.
#[test]
fn what_is_sealed_when_it_is_too_old_is_ended() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::full(10).keys(0..3);
        database.begin_chunking(&load.batch, Plan::default()).await.unwrap();
        test.keep_since(20).await;
        let sealed = database.seal(load.id(), Generation::FIRST, &load.seal()).await.unwrap();
        assert_eq!(sealed, SealOutcome::Sealed(BatchStatus::Processing));
        assert_eq!(database.write_chunk(&load.chunks[0]).await.unwrap(), Written::TooOld);
        database.end_too_old(10).await.unwrap();
        assert_eq!(shown(&database, &load).await.unwrap().status, BatchStatus::Failed);
    });
}

#[test]
fn a_full_load_that_is_too_old_decides_nothing() {
    database_test(async |test| {
        let database = test.open();
        Load::delta(5).keys(0..10).run(&database).await;
        let load = Load::full(10).keys(0..8);
        load.prepare(&database).await;
        // Confirmed by a batch that is deleted by the time at which the load comes to its end.
        Load::delta(15).keys(8..10).run(&database).await;
        test.execute(
            "UPDATE batches SET deactivation = '{\"state\": \"not_applicable\"}' WHERE load_type = 'full'",
        )
        .await;
        database.write_chunk(&load.chunks[0]).await.unwrap();
        test.execute(
            "UPDATE batches SET deactivation = '{\"state\": \"pending\"}', status = 'PROCESSING', finished_at = NULL \
             WHERE load_type = 'full'",
        )
        .await;
        test.keep_since(20).await;
        test.prune().await;
        let end = database.finalize(load.id()).await.unwrap();
        assert!(end.became_final && end.status == BatchStatus::Completed, "{end:?}");
        let batch = shown(&database, &load).await.unwrap();
        assert_eq!(
            (batch.deactivation.state, batch.deactivation.reason),
            ("skipped", Some(SkipReason::TooLate))
        );
        assert_eq!(test.products().await.1, Vec::<String>::new(), "nothing is inactive");
    });
}

/// A full load that was received when the history begins decides by what came since, which is all there.
#[test]
fn a_full_load_that_is_not_too_old_decides_without_what_was_deleted() {
    database_test(async |test| {
        let database = test.open();
        Load::full(5).keys(0..10).run(&database).await;
        test.keep_since(10).await;
        assert_eq!(test.prune().await.batches, 1);
        let load = Load::full(10).keys(0..8);
        load.prepare(&database).await;
        Load::delta(15).keys(8..9).run(&database).await;
        database.write_chunk(&load.chunks[0]).await.unwrap();
        assert_eq!(test.products().await.1, ["p0009"]);
    });
}

#[test]
fn with_the_history_deleted_the_row_s_own_version_decides() {
    database_test(async |test| {
        let database = test.open();
        Load::delta(10).items(&[dated(1, 1, 8)]).run(&database).await;
        Load::delta(10).items(&[dated(3, 1, 8)]).run(&database).await;
        test.keep_since(20).await;
        assert_eq!(test.prune().await.batches, 2);
        let older = Load::delta(30).items(&[dated(1, 2, 7)]);
        let newer = Load::delta(40).items(&[dated(3, 2, 9)]);
        for load in [&older, &newer] {
            load.prepare(&database).await;
        }
        assert_eq!(changes(&database, &older).await, Changes { stale: 1, ..Changes::default() });
        assert_eq!(changes(&database, &newer).await, Changes { updated: 1, ..Changes::default() });
        assert_eq!(titles(test).await, "Dipirona 1, Dipirona 2");
    });
}

/// What lost against a confirmation must not win when it is replayed after the confirmation is deleted.
#[test]
fn what_was_overtaken_stays_so_after_what_overtook_it_is_deleted() {
    database_test(async |test| {
        let database = test.open();
        // One row that its source does not date, and one that it dated ahead of its receipt.
        for load in [Load::delta(0), Load::delta(10)] {
            load.items(&[Item::of(1, 1), dated(3, 1, 15)]).run(&database).await;
        }
        let stale = Load::delta(30).items(&[dated(1, 2, 5), dated(3, 2, 5)]);
        stale.prepare(&database).await;
        assert_eq!(changes(&database, &stale).await, Changes { stale: 2, ..Changes::default() });
        let before = titles(test).await;
        test.keep_since(20).await;
        assert_eq!(test.prune().await.batches, 2);
        assert!(matches!(replay(&database, &stale).await, ReplayOutcome::Begun(_)));
        database.write_chunk(&stale.chunks[0].clone().of_generation(Generation::FIRST.next())).await.unwrap();
        assert_eq!((titles(test).await, before.as_str()), (before.clone(), "Dipirona 1, Dipirona 1"));
        // Dated after the history begins, or not at all, an item is compared with the row.
        let newer = Load::delta(40).items(&[dated(1, 3, 25), Item::of(3, 3)]);
        newer.prepare(&database).await;
        assert_eq!(changes(&database, &newer).await, Changes { updated: 2, ..Changes::default() });
    });
}

#[test]
fn a_new_product_of_an_old_date_is_written() {
    database_test(async |test| {
        let database = test.open();
        test.keep_since(20).await;
        let load = Load::delta(20).products([product(dated(1, 1, -1000)), product(Item::of(3, 1))]);
        assert_eq!(load.run(&database).await, BatchStatus::Completed);
        assert_eq!(test.products().await.0.len(), 2);
    });
}
