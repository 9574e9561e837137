mod effects;

use catalog::{
    BegunReplay, ChunkingOutcome, Database, PayloadFailure, ReplayOutcome, ReplayRequest, SealOutcome,
    WriteOutcome,
};
use ingestion::Viewer;
use ingestion::batch::{BatchStatus, Changes, Replay, ReplayRefusal, ReplayScope};
use ingestion::chunk::{Chunk, ChunkId, Generation, Plan};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Item, Load, TENANT, TestDatabase, at, database_test};

const SECOND: Generation = Generation::FIRST.next();
/// Query for a hash over all rows of `products`, including their physical positions. Any write of a
/// row changes it, even without a change of content.
const ROWS: &str =
    "SELECT COALESCE(sum(hashtext(xmin::text || ctid::text || p::text)), 0)::bigint FROM products p";

fn asked(scope: ReplayScope, confirm_deactivation: bool) -> ReplayRequest {
    ReplayRequest {
        replay: Replay { scope, confirm_deactivation },
        idempotency_key: Uuid::new_v4().to_string(),
        requested_at: at(0),
    }
}

pub(crate) async fn begin(database: &Database, load: &Load, scope: ReplayScope) -> BegunReplay {
    confirm(database, load, scope, false).await
}

pub(crate) async fn confirm(
    database: &Database,
    load: &Load,
    scope: ReplayScope,
    confirmed: bool,
) -> BegunReplay {
    let viewer = Viewer::whole(load.tenant());
    let outcome = database.replay(&viewer, load.id(), &asked(scope, confirmed)).await.unwrap();
    let ReplayOutcome::Begun(begun) = outcome else { panic!("{outcome:?}") };
    begun
}

async fn refused(database: &Database, load: &Load, scope: ReplayScope) -> ReplayRefusal {
    let outcome = database.replay(&Viewer::whole(TENANT), load.id(), &asked(scope, false)).await.unwrap();
    let ReplayOutcome::Refused(reason) = outcome else { panic!("{outcome:?}") };
    reason
}

pub(crate) fn again(chunk: &Chunk, generation: Generation) -> Chunk {
    chunk.clone().of_generation(generation)
}

async fn write(database: &Database, chunk: &Chunk) -> (Changes, BatchStatus) {
    let written = database.write_chunk(chunk).await.unwrap();
    let WriteOutcome::Done { result, batch, .. } = written else { panic!("{written:?}") };
    (result.changes(), batch)
}

async fn shown(test: &TestDatabase, load: &Load) -> Value {
    serde_json::to_value(test.open().batch(&Viewer::whole(TENANT), load.id()).await.unwrap().unwrap())
        .unwrap()
}

#[test]
fn replaying_everything_changes_no_product() {
    database_test(async |test| {
        let database = test.open();
        Load::full(1).keys([2, 4, 6]).run(&database).await;
        let load = Load::full(2).keys([2, 4]).items(&[Item::of(2, 1), Item::of(8, 1)]);
        load.run(&database).await;
        let before = test.number(ROWS).await;
        let begun = begin(&database, &load, ReplayScope::All).await;
        let expected = BegunReplay {
            generation: SECOND,
            status: BatchStatus::Processing,
            chunks: 2,
            payload_uri: load.batch.payload_uri.clone(),
        };
        assert_eq!(begun, expected);
        let view = shown(test, &load).await;
        assert_eq!((&view["status"], &view["generation"]), (&json!("PROCESSING"), &json!(2)));
        assert_eq!(view["chunks"], json!({"total": 2, "done": 0, "failed": 0, "pending": 2}));
        assert_eq!((&view["items_processed"], &view["finished_at"]), (&json!(0), &Value::Null));
        let first = write(&database, &again(&load.chunks[0], SECOND)).await;
        assert_eq!(
            first,
            (Changes { unchanged: 1, stale: 1, ..Changes::default() }, BatchStatus::Processing)
        );
        let last = write(&database, &again(&load.chunks[1], SECOND)).await;
        assert_eq!(last, (Changes { unchanged: 2, ..Changes::default() }, BatchStatus::Completed));
        assert_eq!(test.number(ROWS).await, before);
        let view = shown(test, &load).await;
        assert_eq!(view["deactivation"]["state"], "done");
        assert_eq!((&view["items_processed"], &view["changes"]["deactivated"]), (&json!(4), &json!(0)));
    });
}

#[test]
fn the_chunks_of_a_replay_are_announced_with_the_objects_that_they_were_cut_into() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::delta(1).keys([2]).keys([4]);
        load.run(&database).await;
        begin(&database, &load, ReplayScope::All).await;
        let begun = database.begin_chunking(&load.batch, Plan::default()).await.unwrap();
        let ChunkingOutcome::Sealed { generation, pending } = begun else { panic!("{begun:?}") };
        assert_eq!(generation, SECOND);
        let seal = load.seal();
        for (chunk, sealed) in pending.iter().zip(&seal.chunks) {
            let found = (chunk.generation, chunk.chunk_index, &chunk.chunk_uri);
            assert_eq!(found, (SECOND, sealed.index, &sealed.uri));
        }
        assert_eq!(pending.len(), 2);
        let id = ChunkId::of(load.id(), SECOND, 1);
        assert_eq!(
            test.number(&format!("SELECT count(*) FROM batch_chunks WHERE chunk_id = '{id}'")).await,
            1
        );
    });
}

#[test]
fn a_message_of_an_earlier_generation_finds_nothing_to_do() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::delta(1).keys([2]).keys([4]);
        load.prepare(&database).await;
        test.give_up(&load.chunks[0]).await;
        write(&database, &load.chunks[1]).await;
        begin(&database, &load, ReplayScope::Failed).await;
        assert_eq!(database.write_chunk(&load.chunks[0]).await.unwrap(), WriteOutcome::Superseded);
        // What was done stays of its generation, and done.
        let before = database.write_chunk(&load.chunks[1]).await.unwrap();
        assert_eq!(before, WriteOutcome::AlreadyDone { batch: BatchStatus::Processing, became_final: false });
        assert_eq!(test.products().await.0.len(), 1);
        let (changes, status) = write(&database, &again(&load.chunks[0], SECOND)).await;
        assert_eq!((changes.inserted, status), (1, BatchStatus::Completed));
        let view = shown(test, &load).await;
        assert_eq!((&view["items_processed"], &view["items_failed"]), (&json!(2), &json!(0)));
    });
}

#[test]
fn a_replay_that_meets_a_chunk_being_written_lets_one_of_them_win() {
    database_test(async |test| {
        let database = test.open();
        for round in 0..12 {
            let load = Load::delta(round).keys([2]).keys((0..300).map(|key| key * 2));
            load.prepare(&database).await;
            test.give_up(&load.chunks[1]).await;
            write(&database, &load.chunks[0]).await;
            let other = test.open();
            let request = asked(ReplayScope::Failed, false);
            let viewer = Viewer::whole(TENANT);
            let (written, replayed) = tokio::join!(
                database.write_chunk(&load.chunks[1]),
                other.replay(&viewer, load.id(), &request)
            );
            match (written.unwrap(), replayed.unwrap()) {
                (WriteOutcome::Superseded, ReplayOutcome::Begun(begun)) => {
                    write(&database, &again(&load.chunks[1], begun.generation)).await;
                }
                (
                    WriteOutcome::Done { .. },
                    ReplayOutcome::Refused(ReplayRefusal::NothingFailed | ReplayRefusal::UnderWay(_)),
                ) => {}
                outcome => panic!("{outcome:?}"),
            }
            let view = shown(test, &load).await;
            assert_eq!((&view["status"], &view["items_processed"]), (&json!("COMPLETED"), &json!(301)));
        }
    });
}

#[test]
fn a_request_that_is_executed_again_finds_what_it_began() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::delta(1).keys([2]);
        load.run(&database).await;
        let request = asked(ReplayScope::All, false);
        assert_eq!(
            database.objects_to_replay(&Viewer::whole(TENANT), load.id(), &request).await.unwrap().len(),
            2
        );
        let outcome = database.replay(&Viewer::whole(TENANT), load.id(), &request).await.unwrap();
        let ReplayOutcome::Begun(begun) = outcome else { panic!("{outcome:?}") };
        for _ in 0..2 {
            let repeated = database.replay(&Viewer::whole(TENANT), load.id(), &request).await.unwrap();
            assert_eq!(repeated, ReplayOutcome::Repeated(begun.clone()));
            assert_eq!(
                database.objects_to_replay(&Viewer::whole(TENANT), load.id(), &request).await.unwrap(),
                [""; 0]
            );
            // Also when it has long come to its end.
            if shown(test, &load).await["status"] == "PROCESSING" {
                write(&database, &again(&load.chunks[0], SECOND)).await;
            }
        }
        // Claimed again after its record expired, the key is free.
        let later = ReplayRequest { requested_at: at(86_400), ..request };
        let outcome = database.replay(&Viewer::whole(TENANT), load.id(), &later).await.unwrap();
        assert!(
            matches!(outcome, ReplayOutcome::Begun(BegunReplay { generation, .. }) if generation > SECOND)
        );
    });
}

#[test]
fn of_two_requests_at_once_one_begins() {
    database_test(async |test| {
        let load = Load::delta(1).keys([2]).keys([4]);
        let (first, second) = (test.open(), test.open());
        load.run(&first).await;
        let (one, other) = (asked(ReplayScope::All, false), asked(ReplayScope::All, false));
        let viewer = Viewer::whole(TENANT);
        let (one, other) =
            tokio::join!(first.replay(&viewer, load.id(), &one), second.replay(&viewer, load.id(), &other));
        let outcomes = [one.unwrap(), other.unwrap()];
        let under_way = ReplayRefusal::UnderWay(BatchStatus::Processing);
        assert!(outcomes.contains(&ReplayOutcome::Refused(under_way)), "{outcomes:?}");
        assert!(outcomes.iter().any(|outcome| matches!(outcome, ReplayOutcome::Begun(_))), "{outcomes:?}");
        assert_eq!(shown(test, &load).await["generation"], 2);
    });
}

#[test]
fn what_is_under_way_or_has_nothing_to_do_is_refused_with_its_reason() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::full(1).keys([2]);
        database.begin_chunking(&load.batch, Plan::default()).await.unwrap();
        let under_way = ReplayRefusal::UnderWay;
        assert_eq!(refused(&database, &load, ReplayScope::All).await, under_way(BatchStatus::Chunking));
        load.prepare(&database).await;
        assert_eq!(refused(&database, &load, ReplayScope::All).await, under_way(BatchStatus::Processing));
        write(&database, &load.chunks[0]).await;
        assert_eq!(refused(&database, &load, ReplayScope::Failed).await, ReplayRefusal::NothingFailed);
        let empty = Load::delta(2);
        empty.run(&database).await;
        assert_eq!(refused(&database, &empty, ReplayScope::All).await, ReplayRefusal::NoChunks);
        // A refused replay changes nothing and leaves no record.
        assert_eq!(test.number("SELECT count(*) FROM batch_replays").await, 0);
        assert_eq!(test.number("SELECT max(generation)::bigint FROM batches").await, 1);
        let request = asked(ReplayScope::Failed, false);
        assert_eq!(
            database.objects_to_replay(&Viewer::whole(TENANT), load.id(), &request).await.unwrap(),
            [""; 0]
        );
    });
}

#[test]
fn another_tenant_s_batch_is_not_known() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::delta(1).keys([2]);
        load.run(&database).await;
        let request = asked(ReplayScope::All, false);
        for (tenant, batch) in [(Uuid::new_v4(), load.id()), (TENANT, Uuid::new_v4())] {
            assert_eq!(
                database.replay(&Viewer::whole(tenant), batch, &request).await.unwrap(),
                ReplayOutcome::Unknown
            );
            assert_eq!(
                database.objects_to_replay(&Viewer::whole(tenant), batch, &request).await.unwrap(),
                [""; 0]
            );
        }
        assert_eq!(shown(test, &load).await["generation"], 1);
    });
}

#[test]
fn what_is_left_of_a_batch_may_expire_unless_it_is_replayed() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::delta(1).keys([2]).keys([4]);
        load.prepare(&database).await;
        test.give_up(&load.chunks[0]).await;
        write(&database, &load.chunks[1]).await;
        let seal = load.seal();
        let failed = database
            .objects_to_replay(&Viewer::whole(TENANT), load.id(), &asked(ReplayScope::Failed, false))
            .await
            .unwrap();
        assert_eq!(failed, [load.batch.payload_uri.clone(), seal.chunks[0].uri.clone()]);
        let all = database
            .objects_to_replay(&Viewer::whole(TENANT), load.id(), &asked(ReplayScope::All, false))
            .await
            .unwrap();
        assert_eq!(all.len(), 3);
        // While it is replayed, nothing of it is let go.
        let last = database.final_batch(load.id()).await.unwrap().unwrap();
        assert_eq!((last.generation, last.uris.len()), (Generation::FIRST, 3));
        assert!(database.is_final_in(load.id(), Generation::FIRST).await.unwrap());
        begin(&database, &load, ReplayScope::Failed).await;
        assert_eq!(database.final_batch(load.id()).await.unwrap(), None);
        assert!(!database.is_final_in(load.id(), Generation::FIRST).await.unwrap());
        write(&database, &again(&load.chunks[0], SECOND)).await;
        assert!(!database.is_final_in(load.id(), Generation::FIRST).await.unwrap(), "another generation");
        assert!(database.is_final_in(load.id(), SECOND).await.unwrap());
    });
}

#[test]
fn what_a_request_looks_at_does_not_grow_with_the_chunks() {
    database_test(async |test| {
        let database = test.open();
        for chunks in [2_u32, 20, 40] {
            let load = (0..chunks).fold(Load::delta(chunks.into()), |load, chunk| load.keys([chunk * 2]));
            load.run(&database).await;
            let uris = database
                .objects_to_replay(&Viewer::whole(TENANT), load.id(), &asked(ReplayScope::All, false))
                .await
                .unwrap();
            let seal = load.seal();
            let (first, last) = (&seal.chunks[0].uri, &seal.chunks[seal.chunks.len() - 1].uri);
            assert_eq!(uris, [load.batch.payload_uri.clone(), first.clone(), last.clone()]);
        }
    });
}

#[test]
fn a_payload_that_failed_is_cut_again_in_a_new_generation() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::full(1).keys([2]).error(Some(4));
        let plan = Plan { items: 700.try_into().unwrap(), ..Plan::default() };
        database.begin_chunking(&load.batch, plan).await.unwrap();
        database.record_item_errors(load.id(), Generation::FIRST, &load.errors).await.unwrap();
        let failure = PayloadFailure { code: "GIVEN_UP".into(), detail: String::new(), byte_offset: None };
        database.fail_payload(&load.batch, &failure, None).await.unwrap();
        let begun = begin(&database, &load, ReplayScope::Failed).await;
        assert_eq!((begun.status, begun.chunks), (BatchStatus::Chunking, 0));
        let view = shown(test, &load).await;
        assert_eq!(
            (&view["status"], &view["error"], &view["finished_at"]),
            (&json!("CHUNKING"), &Value::Null, &Value::Null)
        );
        assert_eq!(test.number("SELECT count(*) FROM batch_item_errors").await, 0);
        // A run of the first generation is too late with everything.
        database.record_item_errors(load.id(), Generation::FIRST, &load.errors).await.unwrap();
        assert_eq!(test.number("SELECT count(*) FROM batch_item_errors").await, 0);
        let late = database.seal(load.id(), Generation::FIRST, &load.seal()).await.unwrap();
        assert_eq!(late, SealOutcome::Superseded);
        // The new one cuts by the plan of the first.
        let cut = database.begin_chunking(&load.batch, Plan::default()).await.unwrap();
        assert_eq!(cut, ChunkingOutcome::Chunk { plan, generation: SECOND });
        database.record_item_errors(load.id(), SECOND, &load.errors).await.unwrap();
        let sealed = database.seal(load.id(), SECOND, &load.seal()).await.unwrap();
        assert_eq!(sealed, SealOutcome::Sealed(BatchStatus::Processing));
        let (changes, status) = write(&database, &again(&load.chunks[0], SECOND)).await;
        assert_eq!((changes.inserted, status), (1, BatchStatus::Completed));
        let view = shown(test, &load).await;
        assert_eq!((&view["items_parsed"], &view["items_failed"]), (&json!(2), &json!(1)));
        assert_eq!(view["deactivation"]["state"], "done");
    });
}

#[test]
fn a_replay_of_a_payload_that_an_older_planner_cut_begins_one_generation() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::delta(1).keys([2]);
        database.begin_chunking(&load.batch, Plan::default()).await.unwrap();
        test.execute("UPDATE batches SET planner = 1").await;
        let failure = PayloadFailure { code: "GIVEN_UP".into(), detail: String::new(), byte_offset: None };
        database.fail_payload(&load.batch, &failure, None).await.unwrap();
        assert_eq!(begin(&database, &load, ReplayScope::All).await.generation, SECOND);
        let plan = Plan { items: 700.try_into().unwrap(), ..Plan::default() };
        for later in [plan, Plan::default()] {
            let cut = database.begin_chunking(&load.batch, later).await.unwrap();
            assert_eq!(cut, ChunkingOutcome::Chunk { plan, generation: SECOND });
        }
    });
}
