use attempt::Retryable as _;
use catalog::{ChunkingOutcome, DatabaseError, FailedChunking, PayloadFailure, Seal, SealOutcome};
use ingestion::Viewer;
use ingestion::batch::BatchStatus;
use ingestion::chunk::{Generation, Plan};
use ingestion::product::CnpjAccess;
use serde_json::json;
use uuid::Uuid;

use crate::support::{Load, TENANT, cnpj, database_test};

fn plan(items: u16) -> Plan {
    Plan { items: items.try_into().unwrap(), ..Plan::default() }
}

#[test]
fn a_run_that_starts_over_keeps_the_first_ones_plan() {
    database_test(async |test| {
        let database = test.open();
        let mut load = Load::full(0);
        load.batch.payload_bytes = Some(2200);
        for items in [700, 900] {
            let begun = database.begin_chunking(&load.batch, plan(items)).await.unwrap();
            assert_eq!(begun, ChunkingOutcome::Chunk { plan: plan(700), generation: Generation::FIRST });
        }
        let view =
            database.batch(&Viewer::whole(load.batch.metadata.tenant_id), load.id()).await.unwrap().unwrap();
        assert_eq!((view.status, view.chunks.total), (BatchStatus::Chunking, 0));
        assert_eq!(view.payload.bytes, Some(2200), "as it was accepted, before it is read");
        assert!(view.started_at.is_some() && view.finished_at.is_none());
    });
}

#[test]
fn a_batch_that_an_older_planner_began_begins_again_in_its_next_generation() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::full(0).keys(0..10).error(Some(3));
        let second = Generation::FIRST.next();
        database.begin_chunking(&load.batch, plan(700)).await.unwrap();
        database.record_item_errors(load.id(), Generation::FIRST, &load.errors).await.unwrap();
        test.execute("UPDATE batches SET planner = 1").await;
        for items in [900, 1000] {
            let begun = database.begin_chunking(&load.batch, plan(items)).await.unwrap();
            assert_eq!(begun, ChunkingOutcome::Chunk { plan: plan(900), generation: second });
            assert_eq!(test.number("SELECT count(*) FROM batch_item_errors").await, 0);
        }
        // The older run is slow, and ends after all.
        let late = database.seal(load.id(), Generation::FIRST, &load.seal()).await.unwrap();
        assert_eq!(late, SealOutcome::Superseded);
        let sealed = database.seal(load.id(), second, &load.seal()).await.unwrap();
        assert_eq!(sealed, SealOutcome::Sealed(BatchStatus::Processing));
    });
}

#[test]
fn what_a_batch_may_load_is_kept_with_it() {
    database_test(async |test| {
        let database = test.open();
        let only = |cnpjs: &[u32]| CnpjAccess::Only(cnpjs.iter().map(|number| cnpj(*number)).collect());
        for cnpjs in [CnpjAccess::Any, only(&[]), only(&[1, 2])] {
            let mut load = Load::full(0);
            load.batch.cnpjs = cnpjs.clone();
            assert_eq!(database.allowed_cnpjs(TENANT, load.id()).await.unwrap(), None);
            database.begin_chunking(&load.batch, plan(700)).await.unwrap();
            assert_eq!(database.allowed_cnpjs(TENANT, load.id()).await.unwrap(), Some(cnpjs));
            assert_eq!(database.allowed_cnpjs(Uuid::nil(), load.id()).await.unwrap(), None);
        }
    });
}

#[test]
fn two_runs_at_once_make_one_batch() {
    database_test(async |test| {
        let load = Load::full(0).keys(0..10).keys(10..20);
        let (first, second) = (test.open(), test.open());
        let begun = tokio::join!(
            first.begin_chunking(&load.batch, plan(700)),
            second.begin_chunking(&load.batch, plan(900))
        );
        assert_eq!(begun.0.unwrap(), begun.1.unwrap());
        let seal = load.seal();
        let sealed = tokio::join!(
            first.seal(load.id(), Generation::FIRST, &seal),
            second.seal(load.id(), Generation::FIRST, &seal)
        );
        let mut outcomes = [sealed.0.unwrap(), sealed.1.unwrap()];
        outcomes.sort_by_key(|outcome| matches!(outcome, SealOutcome::AlreadySealed(_)));
        let expected = [
            SealOutcome::Sealed(BatchStatus::Processing),
            SealOutcome::AlreadySealed(BatchStatus::Processing),
        ];
        assert_eq!(outcomes, expected);
        assert_eq!(test.number("SELECT count(*) FROM batch_chunks").await, 2);
    });
}

#[test]
fn runs_that_insert_one_batch_at_once_meet_no_deadlock() {
    database_test(async |test| {
        let runs = [test.open(), test.open(), test.open()];
        for _ in 0..100 {
            let load = Load::delta(0);
            let [first, second, third] =
                runs.each_ref().map(|database| database.begin_chunking(&load.batch, plan(700)));
            let begun = tokio::join!(first, second, third);
            let expected = ChunkingOutcome::Chunk { plan: plan(700), generation: Generation::FIRST };
            assert_eq!(
                [begun.0.unwrap(), begun.1.unwrap(), begun.2.unwrap()],
                [expected.clone(), expected.clone(), expected]
            );
        }
    });
}

#[test]
fn after_the_seal_a_run_announces_what_is_pending_and_nothing_once_it_is_done() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::delta(0).keys(0..10).keys(10..20);
        load.prepare(&database).await;
        database.write_chunk(&load.chunks[0]).await.unwrap();
        let begun = database.begin_chunking(&load.batch, Plan::default()).await.unwrap();
        let ChunkingOutcome::Sealed { generation: Generation::FIRST, pending } = begun else {
            panic!("{begun:?}")
        };
        let [chunk] = &pending[..] else { panic!("{pending:?}") };
        assert_eq!((chunk.chunk_index, chunk.items, chunk.cnpj), (1, 10, load.chunks[1].cnpjs()[0]));
        assert_eq!(chunk.chunk_uri, load.seal().chunks[1].uri);
        database.write_chunk(&load.chunks[1]).await.unwrap();
        let begun = database.begin_chunking(&load.batch, Plan::default()).await.unwrap();
        assert_eq!(begun, ChunkingOutcome::Final(BatchStatus::Completed));
        let outcome = database.seal(load.id(), Generation::FIRST, &load.seal()).await.unwrap();
        assert_eq!(outcome, SealOutcome::AlreadySealed(BatchStatus::Completed));
    });
}

#[test]
fn a_seal_that_does_not_add_up_is_refused() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::delta(0).keys(0..10);
        database.begin_chunking(&load.batch, Plan::default()).await.unwrap();
        let seal = Seal { items_parsed: 11, ..load.seal() };
        let error = database.seal(load.id(), Generation::FIRST, &seal).await.unwrap_err();
        assert!(matches!(error, DatabaseError::Unbalanced(_)), "{error:?}");
        assert_eq!(test.number("SELECT count(*) FROM batch_chunks").await, 0);
    });
}

#[test]
fn a_run_of_an_earlier_generation_changes_nothing() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::delta(0).keys(0..10).error(Some(1));
        database.begin_chunking(&load.batch, Plan::default()).await.unwrap();
        test.execute("UPDATE batches SET generation = 2").await;
        database.record_item_errors(load.id(), Generation::FIRST, &load.errors).await.unwrap();
        assert_eq!(test.number("SELECT count(*) FROM batch_item_errors").await, 0);
        let outcome = database.seal(load.id(), Generation::FIRST, &load.seal()).await.unwrap();
        assert_eq!(outcome, SealOutcome::Superseded);
        assert_eq!(test.number("SELECT count(*) FROM batch_chunks").await, 0);
        let failure =
            PayloadFailure { code: "MALFORMED_JSON".into(), detail: String::new(), byte_offset: None };
        for (generation, expected) in
            [(Generation::FIRST, BatchStatus::Chunking), (Generation::FIRST.next(), BatchStatus::Failed)]
        {
            let chunking = FailedChunking { generation, errors_omitted: 1 };
            let status = database.fail_payload(&load.batch, &failure, Some(chunking)).await.unwrap();
            assert_eq!(status, expected, "{generation:?}");
        }
    });
}

#[test]
fn a_payload_that_cannot_be_read_fails_its_batch_once() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::full(0).keys(0..10);
        let failure = PayloadFailure {
            code: "MALFORMED_JSON".into(),
            detail: "it breaks off".to_owned(),
            byte_offset: Some(1234),
        };
        for _ in 0..2 {
            let status = database.fail_payload(&load.batch, &failure, None).await.unwrap();
            assert_eq!(status, BatchStatus::Failed);
        }
        let view =
            database.batch(&Viewer::whole(load.batch.metadata.tenant_id), load.id()).await.unwrap().unwrap();
        let view = serde_json::to_value(view).unwrap();
        let error = json!({"code": "MALFORMED_JSON", "detail": "it breaks off", "byte_offset": 1234});
        assert_eq!((&view["status"], &view["error"]), (&json!("FAILED"), &error));
        assert!(view["finished_at"].is_string());
        let begun = database.begin_chunking(&load.batch, Plan::default()).await.unwrap();
        assert_eq!(begun, ChunkingOutcome::Final(BatchStatus::Failed));
    });
}

#[test]
fn a_batch_whose_payload_is_gone_tells_whether_it_had_failed_before() {
    database_test(async |test| {
        let database = test.open();
        let of = |code: &'static str| PayloadFailure {
            code: code.into(),
            detail: "it did not work".to_owned(),
            byte_offset: None,
        };
        let gone = of(PayloadFailure::GIVEN_UP);
        let (begun, malformed, sealed) = (Load::delta(0), Load::delta(1), Load::delta(2).keys(0..10));
        database.begin_chunking(&begun.batch, Plan::default()).await.unwrap();
        database.fail_payload(&malformed.batch, &of("MALFORMED_JSON"), None).await.unwrap();
        sealed.prepare(&database).await;
        for (load, states) in [
            (&begun, [BatchStatus::Chunking, BatchStatus::Failed]),
            (&begun, [BatchStatus::Failed; 2]),
            (&malformed, [BatchStatus::Failed; 2]),
            (&sealed, [BatchStatus::Processing; 2]),
        ] {
            assert_eq!(database.fail_without_payload(load.id(), &gone).await.unwrap(), Some(states));
        }
        assert_eq!(database.fail_without_payload(Uuid::nil(), &gone).await.unwrap(), None);
    });
}

#[test]
fn a_batch_that_was_sealed_is_not_failed_by_a_run_that_comes_late() {
    database_test(async |test| {
        let database = test.open();
        let load = Load::delta(0).keys(0..10);
        load.prepare(&database).await;
        let failure =
            PayloadFailure { code: "CONTENT_CORRUPT".into(), detail: String::new(), byte_offset: None };
        let status = database.fail_payload(&load.batch, &failure, None).await.unwrap();
        assert_eq!(status, BatchStatus::Processing);
        database.write_chunk(&load.chunks[0]).await.unwrap();
    });
}

#[test]
fn another_batch_by_the_same_key_is_refused() {
    database_test(async |test| {
        let database = test.open();
        let first = Load::delta(0);
        let mut second = Load::delta(0);
        second.batch.metadata.idempotency_key.clone_from(&first.batch.metadata.idempotency_key);
        database.begin_chunking(&first.batch, Plan::default()).await.unwrap();
        let error = database.begin_chunking(&second.batch, Plan::default()).await.unwrap_err();
        assert!(matches!(error, DatabaseError::Rejected(_)) && !error.retry().is_transient(), "{error:?}");
    });
}
