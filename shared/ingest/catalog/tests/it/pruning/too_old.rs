//! Tests of chunks, payloads, full loads and replays of batches that are too old: they were
//! received before the start of the history of loads (the period for which batches are retained).

use catalog::{ChunkingOutcome, PayloadFailure, ReplayOutcome, SealOutcome, WriteOutcome};
use ingestion::batch::{BatchStatus, Changes, ReplayRefusal, SkipReason};
use ingestion::chunk::{Generation, Plan};

use super::{changes, dated, replay, shown, titles};
use crate::support::{Item, Load, database_test, product};

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
            assert_eq!(database.write_chunk(chunk).await.unwrap(), WriteOutcome::TooOld);
        }
        assert!(matches!(database.write_chunk(done).await.unwrap(), WriteOutcome::AlreadyDone { .. }));
        assert_eq!(test.number("SELECT count(*) FROM products").await, 3);

        let ended = database.end_too_old(10).await.unwrap();
        assert_eq!(ended.iter().map(|batch| batch.batch_id).collect::<Vec<_>>(), [load.id()]);
        assert_eq!(database.end_too_old(10).await.unwrap(), []);
        let batch = shown(&database, &load).await.unwrap();
        assert_eq!((batch.status, batch.chunks.done, batch.chunks.failed), (BatchStatus::PartialFail, 1, 3));
        assert_eq!(batch.error.unwrap().code, PayloadFailure::TOO_OLD);
        assert_eq!(batch.deactivation.reason, Some(SkipReason::TooLate));
        assert_eq!(batch.items_parsed, batch.items_processed + batch.items_failed);
        assert_eq!(replay(&database, &load).await, ReplayOutcome::Refused(ReplayRefusal::TooOld));
        assert_eq!(database.write_chunk(pending).await.unwrap(), WriteOutcome::TooOld);
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
        database.fail_payload(&given_up.batch, &failure(PayloadFailure::GIVEN_UP), None).await.unwrap();
        let malformed = Load::delta(6);
        database.fail_payload(&malformed.batch, &failure("MALFORMED_JSON"), None).await.unwrap();
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
                assert_eq!(begun, ChunkingOutcome::TooOld(status));
            }
        }
        let code = async |load| shown(&database, load).await.unwrap().error.map(|error| error.code);
        for load in [&fresh, &begun, &given_up] {
            assert_eq!(code(load).await.as_deref(), Some("TOO_OLD"));
        }
        assert_eq!(code(&malformed).await.as_deref(), Some("MALFORMED_JSON"));
        assert_eq!(code(&done).await, None);
        // Nobody waits for a deactivation that will not be decided.
        let full = Load::full(8);
        let begun = database.begin_chunking(&full.batch, Plan::default()).await.unwrap();
        assert_eq!(begun, ChunkingOutcome::TooOld(BatchStatus::Failed));
        let deactivation = shown(&database, &full).await.unwrap().deactivation;
        assert_eq!((deactivation.state, deactivation.reason), ("skipped", Some(SkipReason::TooLate)));
        // Given up by somebody who has not heard.
        let unheard = Load::delta(7);
        database.fail_payload(&unheard.batch, &failure(PayloadFailure::GIVEN_UP), None).await.unwrap();
        assert_eq!(code(&unheard).await.as_deref(), Some("TOO_OLD"));
        assert_eq!(replay(&database, &unheard).await, ReplayOutcome::Refused(ReplayRefusal::TooOld));
    });
}

/// Checks that a batch is ended if its receipt becomes too old (before the start of the history of
/// loads) while the chunker is cutting it. The batch is still sealed (its chunks are recorded), but
/// none is written.
#[test]
fn what_is_sealed_when_it_is_too_old_is_ended() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::full(10).keys(0..3);
        database.begin_chunking(&load.batch, Plan::default()).await.unwrap();
        test.keep_since(20).await;
        let sealed = database.seal(load.id(), Generation::FIRST, &load.seal()).await.unwrap();
        assert_eq!(sealed, SealOutcome::Sealed(BatchStatus::Processing));
        assert_eq!(database.write_chunk(&load.chunks[0]).await.unwrap(), WriteOutcome::TooOld);
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

/// Checks that a full load that was received exactly at the start of the history of loads (the
/// retained period) deactivates the right products although earlier batches are deleted. Only later
/// batches matter, and none of them is deleted.
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

/// Checks that an item stays stale when it is replayed after the batch that made it stale is
/// deleted. That batch had contained the product, with the content that the table has, after the
/// source date of the item.
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
