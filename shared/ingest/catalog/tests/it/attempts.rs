//! Tests of chunks that cannot be written: failed attempts, chunks and batches that are given up,
//! and chunks that are written after all.

use attempt::Retryable as _;
use catalog::{
    BatchView, ChangesView, ChunkingOutcome, ChunksView, Database, DatabaseError, GivenUp, PayloadFailure,
    SealOutcome, WriteOutcome,
};
use futures_util::future::join_all;
use ingestion::Viewer;
use ingestion::batch::{BatchStatus, ChunkStatus};
use ingestion::chunk::{ChunkReady, Generation, Plan};
use uuid::Uuid;

use crate::support::{Load, database_test};

async fn give_up(database: &Database, load: &Load, index: u32) -> GivenUp {
    let uri = load.uri(index);
    database.fail_chunk(&load.announced(index, &uri), "given up").await.unwrap()
}

async fn shown(database: &Database, load: &Load) -> BatchView {
    database.batch(&Viewer::whole(load.batch.metadata.tenant_id), load.id()).await.unwrap().unwrap()
}

const fn chunks(done: u64, failed: u64) -> ChunksView {
    ChunksView { total: done + failed, done, failed, pending: 0 }
}

#[test]
fn failed_attempts_are_noted_until_the_chunk_is_done() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::delta(0).keys(0..3).keys(3..6);
        load.prepare(&database).await;
        let chunk = &load.chunks[0];
        let uris = [load.uri(0), load.uri(1)];
        let first = load.announced(0, &uris[0]);
        for error in ["the first", "the second\0"] {
            database.note_failed_attempt(&first, error).await.unwrap();
        }
        // What another object's event came to says nothing of the chunk.
        database.note_failed_attempt(&load.announced(0, &uris[1]), "of another object").await.unwrap();
        let noted = async || {
            let rows = test.rows("SELECT attempts, last_error FROM batch_chunks ORDER BY chunk_index").await;
            rows.iter().map(|row| (row.get(0), row.get(1))).collect::<Vec<(i32, Option<String>)>>()
        };
        assert_eq!(noted().await, [(2, Some("the second".to_owned())), (0, None)]);
        database.write_chunk(chunk).await.unwrap();
        // One that comes late, and one of a generation that is none any more.
        database.note_failed_attempt(&first, "too late").await.unwrap();
        test.execute("UPDATE batch_chunks SET chunk_id = gen_random_uuid() WHERE chunk_index = 1").await;
        database.note_failed_attempt(&load.announced(1, &uris[1]), "another generation's").await.unwrap();
        assert_eq!(noted().await, [(3, None), (0, None)]);
    });
}

#[test]
fn a_chunk_that_is_given_up_fails_its_batch_in_part_until_it_is_written_after_all() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::delta(0).keys(0..3).keys(3..10).error(None);
        load.prepare(&database).await;
        database.write_chunk(&load.chunks[0]).await.unwrap();
        let given_up = give_up(&database, &load, 1).await;
        let (batch, error) = (BatchStatus::PartialFail, "given up".to_owned());
        assert_eq!(given_up, GivenUp::Failed { batch, became_final: true, error });
        let view = shown(&database, &load).await;
        assert_eq!((view.status, view.chunks), (BatchStatus::PartialFail, chunks(1, 1)));
        assert_eq!((view.items_parsed, view.items_processed, view.items_failed), (11, 3, 8));
        assert!(view.finished_at.is_some());
        let usage = async || {
            let rows = test
                .rows("SELECT ARRAY[sum(batches), sum(inserted), sum(failed)]::bigint[] FROM usage_additions")
                .await;
            rows[0].get::<_, Vec<i64>>(0)
        };
        assert_eq!(usage().await, [1, 3, 8]);

        let written = database.write_chunk(&load.chunks[1]).await.unwrap();
        let WriteOutcome::Done { batch: BatchStatus::Completed, became_final: false, .. } = written else {
            panic!("{written:?}")
        };
        let view = shown(&database, &load).await;
        assert_eq!((view.status, view.chunks), (BatchStatus::Completed, chunks(2, 0)));
        assert_eq!((view.items_parsed, view.items_processed, view.items_failed), (11, 10, 1));
        assert_eq!(view.changes, ChangesView { inserted: 10, ..ChangesView::default() });
        assert_eq!(usage().await, [1, 10, 1], "it is still one batch");
        assert_eq!(test.number("SELECT count(*) FROM batch_chunks WHERE last_error IS NULL").await, 2);
    });
}

#[test]
fn a_batch_fails_when_all_of_its_chunks_are_given_up() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::full(0).keys(0..3).keys(3..10);
        load.prepare(&database).await;
        let uri = load.uri(0);
        database.note_failed_attempt(&load.announced(0, &uri), "what really happened").await.unwrap();
        let first = give_up(&database, &load, 0).await;
        let (batch, error) = (BatchStatus::Processing, "what really happened".to_owned());
        assert_eq!(first, GivenUp::Failed { batch, became_final: false, error });
        let second = give_up(&database, &load, 1).await;
        let (batch, error) = (BatchStatus::Failed, "given up".to_owned());
        assert_eq!(second, GivenUp::Failed { batch, became_final: true, error });
        let view = shown(&database, &load).await;
        assert_eq!((view.chunks, view.items_failed, view.items_processed), (chunks(0, 2), 10, 0));
        let rows = test.rows("SELECT last_error FROM batch_chunks ORDER BY chunk_index").await;
        let errors: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
        assert_eq!(errors, ["what really happened", "given up"]);
        let written = database.write_chunk(&load.chunks[0]).await.unwrap();
        assert!(matches!(written, WriteOutcome::Done { batch: BatchStatus::PartialFail, .. }), "{written:?}");
    });
}

#[test]
fn only_a_pending_chunk_of_the_same_generation_is_given_up() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::delta(0).keys(0..3).keys(3..6).keys(6..9);
        load.prepare(&database).await;
        database.write_chunk(&load.chunks[0]).await.unwrap();
        give_up(&database, &load, 1).await;
        let state = "SELECT sum(hashtext(c::text || c.xmin::text || b::text || b.xmin::text)) FROM batch_chunks c, batches b";
        let before = test.number(state).await;
        assert_eq!(give_up(&database, &load, 0).await, GivenUp::Before(ChunkStatus::Done));
        assert_eq!(give_up(&database, &load, 1).await, GivenUp::Before(ChunkStatus::Failed));
        let other = database.fail_chunk(&load.announced(2, &load.uri(1)), "of another object").await.unwrap();
        assert_eq!(other, GivenUp::OtherObject);
        assert_eq!(test.number(state).await, before);

        // A replay took up the second and the third; the second failed in it already.
        test.execute(
            "UPDATE batches SET generation = 2; UPDATE batch_chunks SET generation = 2 WHERE chunk_index > 0",
        )
        .await;
        let before = test.number(state).await;
        assert_eq!(give_up(&database, &load, 0).await, GivenUp::Before(ChunkStatus::Done));
        for index in [1, 2] {
            assert_eq!(give_up(&database, &load, index).await, GivenUp::Superseded);
        }
        assert_eq!(test.number(state).await, before);
        test.execute("DELETE FROM batch_chunks").await;
        assert_eq!(give_up(&database, &load, 0).await, GivenUp::Superseded);
    });
}

#[test]
fn a_chunk_that_is_not_known_is_an_error_that_stays() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::delta(0).keys(0..3);
        load.prepare(&database).await;
        let unknown = Uuid::now_v7();
        let uri = load.uri(0);
        let announced = load.announced(0, &uri);
        let foreign = ChunkReady { batch_id: unknown, ..announced.clone() };
        let error = database.fail_chunk(&foreign, "given up").await.unwrap_err();
        assert!(matches!(error, DatabaseError::UnknownBatch(id) if id == unknown), "{error:?}");
        for (generation, chunk_index) in
            [(Generation::FIRST, 1), (2.try_into().unwrap(), 0), (2.try_into().unwrap(), 1)]
        {
            let unknown = ChunkReady { generation, chunk_index, ..announced.clone() };
            let error = database.fail_chunk(&unknown, "given up").await.unwrap_err();
            assert!(matches!(error, DatabaseError::UnknownChunk { .. }), "{error:?}");
            assert!(!error.retry().is_transient());
        }
    });
}

#[test]
fn a_late_success_and_the_dead_letter_at_once_end_with_the_chunk_done_and_the_full_load_carried_out() {
    database_test(async |test| {
        Load::full(1).keys((0..40).map(|key| key * 2)).run(&test.open()).await;
        for round in 2..8 {
            // Every second of the products is missing, and comes back for the next round.
            let kept = (0..40).map(|key| key * 2).filter(|key| round % 2 == 0 || key % 4 == 0);
            let kept: Vec<u32> = kept.collect();
            let load = kept.chunks(5).fold(Load::full(round), |load, keys| load.keys(keys.iter().copied()));
            load.prepare(&test.open()).await;
            let writing = join_all(load.chunks.iter().map(async |chunk| {
                let written = test.open().write_chunk(chunk).await.unwrap();
                assert!(matches!(written, WriteOutcome::Done { .. }), "{written:?}");
            }));
            let giving_up = join_all(load.chunks.iter().map(async |chunk| {
                let given_up = give_up(&test.open(), &load, chunk.index).await;
                assert!(!matches!(given_up, GivenUp::Superseded), "{given_up:?}");
            }));
            tokio::join!(giving_up, writing);
            let view = shown(&test.open(), &load).await;
            let total = u64::try_from(load.chunks.len()).unwrap();
            assert_eq!((view.status, view.chunks), (BatchStatus::Completed, chunks(total, 0)), "{view:?}");
            let items = u64::try_from(kept.len()).unwrap();
            assert_eq!((view.items_processed, view.items_failed), (items, 0), "{view:?}");
            assert_eq!(view.changes.deactivated, 40 - items, "{view:?}");
            assert_eq!(test.products().await.0.len(), kept.len());
        }
    });
}

async fn give_up_payload(database: &Database, load: &Load, code: &'static str) -> BatchStatus {
    let failure = PayloadFailure { code: code.into(), detail: "it failed".to_owned(), byte_offset: None };
    database.fail_payload(&load.batch, &failure, None).await.unwrap()
}

#[test]
fn a_run_that_is_under_way_ends_as_if_its_batch_had_not_been_given_up() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::full(0).keys(0..3).error(Some(7)).error(Some(8));
        database.begin_chunking(&load.batch, Plan::default()).await.unwrap();
        database.record_item_errors(load.id(), Generation::FIRST, &load.errors[..1]).await.unwrap();
        assert_eq!(give_up_payload(&database, &load, PayloadFailure::GIVEN_UP).await, BatchStatus::Failed);
        let given_up = shown(&database, &load).await;
        assert!(given_up.error.is_some() && given_up.finished_at.is_some());
        database.record_item_errors(load.id(), Generation::FIRST, &load.errors[1..]).await.unwrap();
        let outcome = database.seal(load.id(), Generation::FIRST, &load.seal()).await.unwrap();
        assert_eq!(outcome, SealOutcome::Sealed(BatchStatus::Processing));
        let view = shown(&database, &load).await;
        assert_eq!((view.status, view.error, view.finished_at), (BatchStatus::Processing, None, None));
        // From here on it is not given up for its payload any more.
        assert_eq!(
            give_up_payload(&database, &load, PayloadFailure::GIVEN_UP).await,
            BatchStatus::Processing
        );
        database.write_chunk(&load.chunks[0]).await.unwrap();
        let view = shown(&database, &load).await;
        assert_eq!((view.status, view.items_parsed, view.items_failed), (BatchStatus::Completed, 5, 2));
        assert_eq!(test.number("SELECT count(*) FROM batch_item_errors").await, 2);
    });
}

#[test]
fn a_batch_that_was_given_up_is_cut_when_its_news_comes_once_more() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::delta(0).keys(0..3);
        for _ in 0..2 {
            assert_eq!(
                give_up_payload(&database, &load, PayloadFailure::GIVEN_UP).await,
                BatchStatus::Failed
            );
        }
        let begun = database.begin_chunking(&load.batch, Plan::default()).await.unwrap();
        assert_eq!(begun, ChunkingOutcome::Chunk { plan: Plan::default(), generation: Generation::FIRST });
        let view = shown(&database, &load).await;
        assert_eq!((view.status, view.error, view.finished_at), (BatchStatus::Chunking, None, None));
        // What the chunker finds out about the payload is the last word, also where the batch was
        // given up meanwhile.
        give_up_payload(&database, &load, PayloadFailure::GIVEN_UP).await;
        give_up_payload(&database, &load, "MALFORMED_JSON").await;
        give_up_payload(&database, &load, PayloadFailure::GIVEN_UP).await;
        assert_eq!(shown(&database, &load).await.error.unwrap().code, "MALFORMED_JSON");
        let begun = database.begin_chunking(&load.batch, Plan::default()).await.unwrap();
        assert_eq!(begun, ChunkingOutcome::Final(BatchStatus::Failed));
        let outcome = database.seal(load.id(), Generation::FIRST, &load.seal()).await.unwrap();
        assert_eq!(outcome, SealOutcome::AlreadySealed(BatchStatus::Failed));
    });
}
