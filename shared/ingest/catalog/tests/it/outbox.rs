//! Tests of the outbox: an event is written in the transaction that makes the change which it
//! reports, or not at all.

use std::collections::BTreeSet;
use std::time::Duration;

use catalog::{
    Database, GivenUp, OutboxEvent, OutboxMode, PayloadFailure, ReplayOutcome, ReplayRequest, Seal,
    WriteOutcome,
};
use events::Event;
use ingestion::Viewer;
use ingestion::batch::{BatchStatus, Replay, ReplayScope};
use ingestion::chunk::{Generation, Plan};
use ingestion::payload::errors_key;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Load, TENANT, TestDatabase, at, database_test};

const FINAL: &str = "integrahub.batch.final";
const HELD: &str = "integrahub.batch.held";
const GIVEN_UP: &str = "integrahub.chunk.given_up";

fn open(test: &TestDatabase) -> Database {
    test.open().with_outbox(OutboxMode::Written)
}

async fn events(database: &Database, load: &Load) -> Vec<OutboxEvent> {
    let events = database.events_of(load.id(), 100).await.unwrap();
    for event in &events {
        conforms(event);
        assert_eq!((event.batch_id, event.tenant_id, &*event.trace_id), (load.id(), TENANT, "trace"));
        assert_eq!(event.idempotency_key, load.batch.metadata.idempotency_key);
    }
    let ids: BTreeSet<Uuid> = events.iter().map(|event| event.event_id).collect();
    assert_eq!(ids.len(), events.len(), "each event has an id of its own");
    events
}

fn types(events: &[OutboxEvent]) -> Vec<&str> {
    events.iter().map(|event| event.event_type.as_str()).collect()
}

/// Checks that an event's data match the schema of its type, and have no member that the schema
/// does not name.
fn conforms(event: &OutboxEvent) {
    let (_, schema) =
        Event::DATA_SCHEMAS.into_iter().find(|(of_type, _)| *of_type == event.event_type).unwrap();
    let mut schema: Value = serde_json::from_str(schema).unwrap();
    close(&mut schema);
    let mut data = event.data.clone();
    data["source_idempotency_key"] = event.idempotency_key.as_str().into();
    let validator = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(&data).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?} in {data}");
}

/// Changes a JSON schema so that its objects allow only the members that it names.
fn close(schema: &mut Value) {
    if let Value::Object(members) = schema {
        members.values_mut().for_each(close);
        if members.get("properties").is_some_and(Value::is_object) && members.contains_key("type") {
            members.entry("additionalProperties").or_insert(json!(false));
        }
    }
}

#[test]
fn a_batch_is_final_with_its_account() {
    database_test(async |test| {
        let database = open(test);
        let load = Load::full(0).keys(0..3).keys(3..6).error(Some(7)).error(Some(8));
        assert_eq!(load.run(&database).await, BatchStatus::Completed);
        assert_eq!(database.batches_with_events(), [load.id()]);
        assert_eq!(database.batches_with_events(), [] as [Uuid; 0], "it is named once");
        let events = events(&database, &load).await;
        assert_eq!(types(&events), [FINAL]);
        let data = &events[0].data;
        assert_eq!((&data["status"], &data["generation"]), (&json!("COMPLETED"), &json!(1)));
        assert_eq!(data["errors_by_code"], json!({"FIELD_INVALID": 2}));
        assert_eq!((&data["items_processed"], &data["items_failed"]), (&json!(6), &json!(2)));
        assert_eq!(data["changes"]["inserted"], 6);
        assert_eq!(data["chunks"], json!({"total": 2, "done": 2, "failed": 0, "pending": 0}));
        assert_eq!(data["deactivation"]["state"], "done");
        assert_eq!(data["links"]["errors"], format!("/v1/inovafarma/batches/{}/errors", load.id()));
        assert!(data["finished_at"].is_string(), "the account is that of the end");
    });
}

#[test]
fn the_end_links_the_file_of_items_in_error_if_there_is_one() {
    database_test(async |test| {
        let database = open(test);
        let with_file = |load: &Load| {
            let key = errors_key(load.id(), Generation::FIRST);
            Seal { errors_uri: Some(format!("s3://payloads/{key}")), ..load.seal() }
        };
        let (with, without) = (Load::delta(0).keys(0..3).error(Some(7)), Load::delta(1).keys(0..3));
        for (load, seal) in [(&with, with_file(&with)), (&without, without.seal())] {
            database.begin_chunking(&load.batch, Plan::default()).await.unwrap();
            database.seal(load.id(), Generation::FIRST, &seal).await.unwrap();
            database.write_chunk(&load.chunks[0]).await.unwrap();
        }
        let link =
            async |load: &Load| events(&database, load).await[0].data["links"].get("errors_file").cloned();
        assert_eq!(link(&with).await, Some(json!(catalog::errors_url(with.id()))));
        assert_eq!(link(&without).await, None);
    });
}

#[test]
fn nothing_is_written_where_events_have_no_destination() {
    database_test(async |test| {
        let database = test.open();
        Load::full(0).keys(0..3).run(&database).await;
        let load = Load::delta(1).keys(0..3);
        load.prepare(&database).await;
        database.fail_chunk(&load.announced(0, &load.uri(0)), "given up").await.unwrap();
        assert_eq!(test.number("SELECT count(*) FROM outbox").await, 0);
        assert_eq!(
            test.number(
                "SELECT COALESCE(last_value, 0) FROM pg_sequences WHERE sequencename = 'outbox_sequence_seq'"
            )
            .await,
            0
        );
        assert_eq!(database.batches_with_events(), [] as [Uuid; 0]);
    });
}

#[test]
fn a_fact_that_is_rolled_back_is_no_event() {
    database_test(async |test| {
        let database = open(test);
        let load = Load::delta(0).keys(0..3);
        // It fails when everything is written and the transaction commits.
        test.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not now'; END $$; \
             CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON outbox DEFERRABLE INITIALLY DEFERRED \
                 FOR EACH ROW EXECUTE FUNCTION refuse()",
        )
        .await;
        let failure =
            PayloadFailure { code: "MALFORMED_JSON".into(), detail: String::new(), byte_offset: None };
        database.fail_payload(&load.batch, &failure, None).await.unwrap_err();
        assert_eq!(test.number("SELECT count(*) FROM outbox").await, 0);
        assert_eq!(test.number("SELECT count(*) FROM batches").await, 0);
        assert_eq!(database.batches_with_events(), [] as [Uuid; 0]);

        test.execute("DROP TRIGGER refuse ON outbox").await;
        load.run(&database).await;
        assert_eq!(types(&events(&database, &load).await), [FINAL]);
    });
}

#[test]
fn a_chunk_is_given_up_once_and_its_batch_is_final_again_when_it_is_written_after_all() {
    database_test(async |test| {
        let database = open(test);
        let load = Load::delta(0).keys(0..3).keys(3..10);
        load.prepare(&database).await;
        database.write_chunk(&load.chunks[0]).await.unwrap();
        for _ in 0..2 {
            database.fail_chunk(&load.announced(1, &load.uri(1)), "no answer").await.unwrap();
        }
        let found = events(&database, &load).await;
        assert_eq!(types(&found), [GIVEN_UP, FINAL]);
        assert_eq!(found[1].data["status"], "PARTIAL_FAIL");
        let chunk = &found[0].data;
        assert_eq!((&chunk["chunk_index"], &chunk["items"]), (&json!(1), &json!(7)));
        assert_eq!((&chunk["error"], &chunk["generation"]), (&json!("no answer"), &json!(1)));

        database.write_chunk(&load.chunks[1]).await.unwrap();
        let again = database.write_chunk(&load.chunks[1]).await.unwrap();
        assert!(matches!(again, WriteOutcome::AlreadyDone { .. }), "{again:?}");
        let found = events(&database, &load).await;
        assert_eq!(types(&found), [GIVEN_UP, FINAL, FINAL]);
        assert_eq!(found[2].data["status"], "COMPLETED");
    });
}

#[test]
fn a_full_load_of_chunks_that_were_given_up_is_final_again_only_when_it_is_decided() {
    database_test(async |test| {
        let database = open(test);
        let load = Load::full(0).keys(0..3).keys(3..10);
        load.prepare(&database).await;
        for index in 0..2 {
            let given_up = database.fail_chunk(&load.announced(index, &load.uri(index)), "no answer").await;
            assert!(matches!(given_up.unwrap(), GivenUp::Failed { .. }));
        }
        for chunk in &load.chunks {
            database.write_chunk(chunk).await.unwrap();
        }
        let found = events(&database, &load).await;
        assert_eq!(types(&found), [GIVEN_UP, GIVEN_UP, FINAL, FINAL, FINAL]);
        let outcome =
            |event: &OutboxEvent| (event.data["status"].clone(), event.data["chunks"]["failed"].clone());
        assert_eq!(outcome(&found[2]), (json!("FAILED"), json!(2)));
        assert_eq!(outcome(&found[3]), (json!("PARTIAL_FAIL"), json!(1)));
        assert_eq!(outcome(&found[4]), (json!("COMPLETED"), json!(0)));
        assert_eq!(found[4].data["deactivation"]["state"], "done");
    });
}

#[test]
fn a_load_that_the_guard_holds_is_held_and_final_and_final_again_once_it_is_confirmed() {
    database_test(async |test| {
        let database = open(test);
        Load::full(0).keys((0..200).map(|key| key * 2)).run(&database).await;
        let load = Load::full(1).keys((0..60).map(|key| key * 2));
        load.run(&database).await;
        let found = events(&database, &load).await;
        assert_eq!(types(&found), [HELD, FINAL]);
        assert_eq!(
            (&found[0].data["would_deactivate"], &found[0].data["deactivated"]),
            (&json!(140), &json!(0))
        );
        assert_eq!(found[1].data["deactivation"]["state"], "held");

        let request = ReplayRequest {
            replay: Replay { scope: ReplayScope::Failed, confirm_deactivation: true },
            idempotency_key: Uuid::new_v4().to_string(),
            requested_at: at(2),
        };
        let outcome = database.replay(&Viewer::whole(TENANT), load.id(), &request).await.unwrap();
        assert!(matches!(outcome, ReplayOutcome::Begun(_)), "{outcome:?}");
        assert_eq!(events(&database, &load).await.len(), 2, "a replay that begins is no event");
        database.finalize(load.id()).await.unwrap();
        database.finalize(load.id()).await.unwrap();
        let found = events(&database, &load).await;
        assert_eq!(types(&found), [HELD, FINAL, FINAL]);
        let data = &found[2].data;
        assert_eq!((&data["generation"], &data["changes"]["deactivated"]), (&json!(2), &json!(140)));
    });
}

#[test]
fn a_payload_that_cannot_be_read_is_final_with_its_error() {
    database_test(async |test| {
        let database = open(test);
        let load = Load::delta(0);
        let failure = PayloadFailure {
            code: PayloadFailure::GIVEN_UP.into(),
            detail: "its processing failed repeatedly".to_owned(),
            byte_offset: None,
        };
        for _ in 0..2 {
            database.fail_payload(&load.batch, &failure, None).await.unwrap();
        }
        let found = events(&database, &load).await;
        assert_eq!(types(&found), [FINAL]);
        assert_eq!(
            (&found[0].data["status"], &found[0].data["error"]["code"]),
            (&json!("FAILED"), &json!("GIVEN_UP"))
        );

        // It is cut after all, and turns out to be broken.
        database.begin_chunking(&load.batch, Plan::default()).await.unwrap();
        let broken = PayloadFailure { code: "MALFORMED_JSON".into(), byte_offset: Some(17), ..failure };
        for _ in 0..2 {
            database.fail_payload(&load.batch, &broken, None).await.unwrap();
        }
        let found = events(&database, &load).await;
        assert_eq!(types(&found), [FINAL, FINAL]);
        assert_eq!(found[1].data["error"]["byte_offset"], 17);
    });
}

#[test]
fn batches_that_end_because_they_are_too_old_are_final_without_an_event_for_each_chunk() {
    database_test(async |test| {
        let database = open(test);
        let (sealed, uncut) = (Load::full(10).keys(0..3).keys(3..6), Load::delta(10).keys(20..23));
        sealed.prepare(&database).await;
        database.begin_chunking(&uncut.batch, Plan::default()).await.unwrap();
        test.keep_since(20).await;
        database.end_too_old(10).await.unwrap();
        for load in [&sealed, &uncut] {
            let found = events(&database, load).await;
            assert_eq!(types(&found), [FINAL]);
            assert_eq!(found[0].data["error"]["code"], "TOO_OLD");
        }
    });
}

#[test]
fn two_publishers_at_once_see_the_same_events_and_each_may_take_them_out() {
    database_test(async |test| {
        let database = open(test);
        let loads = [0, 1, 2].map(|second| Load::delta(second).keys(0..3));
        for load in &loads {
            load.run(&database).await;
        }
        let (one, other) = (open(test), open(test));
        let (found, same) =
            tokio::join!(one.events_left(Duration::ZERO, 2), other.events_left(Duration::ZERO, 2));
        let (found, same) = (found.unwrap(), same.unwrap());
        assert_eq!(found, same);
        assert_eq!(types(&found), [FINAL, FINAL], "in the order of the facts");
        let places: Vec<i64> = found.iter().map(|event| event.sequence).collect();
        let taken = tokio::join!(one.note_published(&places, &[]), other.note_published(&places, &[]));
        taken.0.unwrap();
        taken.1.unwrap();
        let left = one.events_left(Duration::ZERO, 100).await.unwrap();
        assert_eq!((types(&left), left[0].batch_id), (vec![FINAL], loads[2].id()));
        assert_eq!(one.events_left(Duration::from_mins(1), 100).await.unwrap(), [], "not yet left behind");
    });
}

#[test]
fn an_event_that_is_refused_comes_last_and_counts_as_waiting() {
    database_test(async |test| {
        let database = open(test);
        assert_eq!(database.backlog().await.unwrap(), catalog::Backlog::default());
        for second in 0..4 {
            Load::delta(second).keys(0..3).run(&database).await;
        }
        test.execute("UPDATE outbox SET occurred_at = occurred_at - interval '1 hour'").await;
        let found = database.events_left(Duration::from_mins(1), 100).await.unwrap();
        database.note_published(&[found[1].sequence], &[found[0].sequence]).await.unwrap();
        let left = database.events_left(Duration::from_mins(1), 100).await.unwrap();
        assert_eq!(left, [found[2].clone(), found[3].clone(), found[0].clone()]);
        let backlog = database.backlog().await.unwrap();
        assert_eq!((backlog.events, backlog.oldest.as_secs() / 60), (3, 60));
    });
}
