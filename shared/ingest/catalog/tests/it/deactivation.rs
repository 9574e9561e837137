use catalog::{PayloadFailure, Seal, WriteOutcome};
use ingestion::Viewer;
use ingestion::batch::{BatchStatus, DeactivationGuard, ReplayScope};
use ingestion::chunk::{Generation, Plan};
use ingestion::product::ItemErrorCode;
use serde_json::{Value, json};

use crate::replay::confirm;
use crate::support::{Load, TestDatabase, database_test};

async fn shown(test: &TestDatabase, load: &Load) -> Value {
    let metadata = &load.batch.metadata;
    let view =
        test.open().batch(&Viewer::whole(metadata.tenant_id), metadata.batch_id).await.unwrap().unwrap();
    serde_json::to_value(view).unwrap()
}

async fn report(test: &TestDatabase, load: &Load) -> (Value, Value) {
    let view = shown(test, load).await;
    (view["deactivation"].clone(), view["changes"]["deactivated"].clone())
}

fn ids(keys: impl IntoIterator<Item = u32>) -> Vec<String> {
    keys.into_iter().map(|key| format!("p{key:04}")).collect()
}

#[test]
fn what_a_full_load_lacks_becomes_inactive_and_comes_back_when_it_is_sent_again() {
    database_test(async |test| {
        let database = test.open();
        // All of one establishment, so that products are listed in their order.
        Load::full(1).keys([2, 4]).keys([6, 8]).run(&database).await;
        let shorter = Load::full(2).keys([2]).keys([6]);
        assert_eq!(shorter.run(&database).await, BatchStatus::Completed);
        assert_eq!(test.products().await, (ids([2, 6]), ids([4, 8])));
        let (deactivation, deactivated) = report(test, &shorter).await;
        assert_eq!(deactivation, json!({"state": "done", "would_deactivate": 0, "reason": null}));
        assert_eq!(deactivated, 2);
        let since = "SELECT count(*) FROM products WHERE active = (deactivated_at IS NULL)";
        assert_eq!(test.number(since).await, 4);

        let returning = Load::delta(3).keys([4]);
        returning.prepare(&database).await;
        let written = database.write_chunk(&returning.chunks[0]).await.unwrap();
        let WriteOutcome::Done { result, .. } = written else { panic!("{written:?}") };
        assert_eq!(result.changes().updated, 1);
        assert_eq!(test.products().await, (ids([2, 4, 6]), ids([8])));
        assert_eq!(test.number(since).await, 4);
    });
}

#[test]
fn a_product_that_is_unchanged_in_a_full_load_stays_active_and_a_delta_deactivates_nothing() {
    database_test(async |test| {
        let database = test.open();
        for load in [Load::full(1), Load::full(2)] {
            load.keys([2, 4, 6]).run(&database).await;
        }
        let delta = Load::delta(3).keys([2]);
        delta.run(&database).await;
        assert_eq!(test.products().await, (ids([2, 4, 6]), ids([])));
        assert_eq!(report(test, &delta).await.0["state"], "not_applicable");
    });
}

#[test]
fn a_full_load_that_finishes_late_spares_what_later_batches_contain() {
    database_test(async |test| {
        let database = test.open();
        Load::full(1).keys([2, 4, 6]).run(&database).await;
        let slow = Load::full(2).keys([2]).keys([8]);
        slow.prepare(&database).await;
        database.write_chunk(&slow.chunks[0]).await.unwrap();
        // It changes nothing of product 4, so only its hashes tell that it was there.
        Load::delta(3).keys([4]).run(&database).await;
        database.write_chunk(&slow.chunks[1]).await.unwrap();
        assert_eq!(test.products().await, (ids([2, 4, 8]), ids([6])));
    });
}

#[test]
fn a_full_load_leaves_it_to_a_later_one() {
    database_test(async |test| {
        let database = test.open();
        Load::full(1).keys([2, 4, 6]).run(&database).await;
        let earlier = Load::full(2).keys([2]);
        earlier.prepare(&database).await;
        let later = Load::full(3).keys([4]);
        assert_eq!(later.run(&database).await, BatchStatus::Completed);
        assert_eq!(test.products().await, (ids([4]), ids([2, 6])));
        database.write_chunk(&earlier.chunks[0]).await.unwrap();
        // Product 2 is in the earlier one only, and stays what the later one made of it.
        assert_eq!(test.products().await, (ids([4]), ids([2, 6])));
        let skipped = json!({"state": "skipped", "would_deactivate": 0, "reason": "later_full_load"});
        assert_eq!(report(test, &earlier).await.0, skipped);
    });
}

#[test]
fn a_full_load_decides_itself_what_a_later_one_does_not_know() {
    for later_is_first in [false, true] {
        database_test(async |test| {
            let database = test.open();
            Load::full(1).keys([2, 4, 6]).run(&database).await;
            let earlier = Load::full(2).keys([2]);
            let later = Load::full(3).keys([2, 6]).error(Some(4));
            let order = if later_is_first { [&later, &earlier] } else { [&earlier, &later] };
            for load in [&earlier, &later] {
                load.prepare(&database).await;
            }
            for load in order {
                database.write_chunk(&load.chunks[0]).await.unwrap();
            }
            assert_eq!(
                test.products().await,
                (ids([2, 6]), ids([4])),
                "the later one first: {later_is_first}"
            );
        });
    }
}

#[test]
fn a_full_load_decides_itself_where_a_later_one_had_a_key_that_cannot_be_read() {
    database_test(async |test| {
        let database = test.open();
        Load::full(1).keys([2, 4, 6]).run(&database).await;
        let earlier = Load::full(2).keys([2]);
        earlier.prepare(&database).await;
        Load::full(3).keys([2, 6]).error(None).run(&database).await;
        database.write_chunk(&earlier.chunks[0]).await.unwrap();
        assert_eq!(test.products().await, (ids([2, 6]), ids([4])));
        assert_eq!(report(test, &earlier).await.0["state"], "done");
    });
}

#[test]
fn a_late_batch_brings_no_product_back_that_a_later_full_load_lacks() {
    database_test(async |test| {
        let database = test.open();
        Load::full(1).keys([2, 4]).run(&database).await;
        Load::full(5).keys([2]).run(&database).await;
        let late = Load::delta(3).keys([4, 6]);
        late.run(&database).await;
        assert_eq!(test.products().await, (ids([2]), ids([4, 6])));
        Load::delta(6).keys([6]).run(&database).await;
        assert_eq!(test.products().await, (ids([2, 6]), ids([4])));
    });
}

#[test]
fn an_item_in_error_counts_as_present_if_its_key_was_read() {
    database_test(async |test| {
        let database = test.open();
        Load::full(1).keys([2, 4, 6]).run(&database).await;
        let readable = Load::full(2).keys([2]).error(Some(4));
        readable.run(&database).await;
        assert_eq!(test.products().await, (ids([2, 4]), ids([6])));
        let unreadable = Load::full(3).keys([2]).error(None);
        assert_eq!(unreadable.run(&database).await, BatchStatus::Completed);
        assert_eq!(test.products().await, (ids([2, 4]), ids([6])));
        let skipped = json!({"state": "skipped", "would_deactivate": 0, "reason": "unreadable_key"});
        assert_eq!(report(test, &unreadable).await.0, skipped);
    });
}

/// Checks that a full load with text that is not JSON deactivates no (further) products, even if an
/// earlier version of the chunker recorded it as a load that may deactivate products. Versions
/// before planner 2 did so if the text began with a product key.
#[test]
fn a_load_that_an_earlier_version_sealed_or_replayed_does_not_decide_with_text_that_is_not_json() {
    database_test(async |test| {
        let database = test.open();
        Load::full(1).keys([2, 4, 6]).run(&database).await;
        let mut load = Load::full(2).keys([2]).error(Some(4));
        load.errors[0].code = ItemErrorCode::MalformedJson;
        database.begin_chunking(&load.batch, Plan::default()).await.unwrap();
        database.record_item_errors(load.id(), Generation::FIRST, &load.errors).await.unwrap();
        let seal = Seal { unreadable_keys: 0, ..load.seal() };
        database.seal(load.id(), Generation::FIRST, &seal).await.unwrap();
        database.write_chunk(&load.chunks[0]).await.unwrap();
        let skipped = json!({"state": "skipped", "would_deactivate": 0, "reason": "unreadable_key"});
        assert_eq!(report(test, &load).await, (skipped.clone(), json!(0)));
        // The guard of the earlier version held it, and somebody confirms that.
        test.execute(
            "UPDATE batches SET deactivation = '{\"state\": \"held\", \"would_deactivate\": 2}' \
             WHERE items_in_error = 1",
        )
        .await;
        confirm(&database, &load, ReplayScope::Failed, true).await;
        let end = database.finalize(load.id()).await.unwrap();
        assert_eq!((end.status, end.became_final), (BatchStatus::Completed, true));
        assert_eq!(report(test, &load).await, (skipped, json!(0)));
        // A slice of it was decided before the functions were replaced.
        test.execute(
            "UPDATE batches SET deactivation = '{\"state\": \"pending\"}', status = 'PROCESSING', \
             deactivated_so_far = 3, finished_at = NULL WHERE items_in_error = 1",
        )
        .await;
        database.finalize(load.id()).await.unwrap();
        let done = json!({"state": "done", "would_deactivate": 0, "reason": "unreadable_key"});
        assert_eq!(report(test, &load).await, (done, json!(3)));
        assert_eq!(test.products().await, (ids([2, 4, 6]), ids([])));
    });
}

#[test]
fn a_load_with_more_errors_than_are_recorded_deactivates_nothing() {
    database_test(async |test| {
        let database = test.open();
        Load::full(1).keys([2, 4, 6]).run(&database).await;
        let load = Load::full(2).keys([2]).error(Some(4));
        database.begin_chunking(&load.batch, Plan::default()).await.unwrap();
        // Nothing is recorded of product 4, so nobody can tell that it was in the payload.
        let seal = Seal { errors_omitted: 1, ..load.seal() };
        database.seal(load.id(), Generation::FIRST, &seal).await.unwrap();
        database.write_chunk(&load.chunks[0]).await.unwrap();
        assert_eq!(test.products().await, (ids([2, 4, 6]), ids([])));
        let skipped = json!({"state": "skipped", "would_deactivate": 0, "reason": "too_many_errors"});
        assert_eq!(report(test, &load).await.0, skipped);
        assert_eq!(shown(test, &load).await["errors_omitted"], 1);
    });
}

#[test]
fn an_empty_load_deactivates_nothing() {
    database_test(async |test| {
        let database = test.open();
        Load::full(1).keys([2, 4, 6]).run(&database).await;
        let empty = Load::full(2);
        assert_eq!(empty.run(&database).await, BatchStatus::Completed);
        assert_eq!(test.products().await, (ids([2, 4, 6]), ids([])));
        let skipped = json!({"state": "skipped", "would_deactivate": 0, "reason": "empty_load"});
        assert_eq!(report(test, &empty).await.0, skipped);
    });
}

#[test]
fn a_load_that_would_deactivate_most_of_a_catalogue_is_held() {
    database_test(async |test| {
        let database = test.open();
        Load::full(1).keys((0..240).map(|key| key * 2)).run(&database).await;
        let suspicious = Load::full(2).keys((0..100).map(|key| key * 2));
        assert_eq!(suspicious.run(&database).await, BatchStatus::Completed);
        let (active, _) = test.products().await;
        assert_eq!(active.len(), 240);
        let held = json!({"state": "held", "would_deactivate": 140, "reason": null});
        assert_eq!(report(test, &suspicious).await, (held, json!(0)));
        // Who allows more gets more.
        let lenient = test.open().with_guard(DeactivationGuard { percent: 60, small: 100 });
        Load::full(3).keys((0..100).map(|key| key * 2)).run(&lenient).await;
        assert_eq!(test.products().await.0.len(), 100);
    });
}

#[test]
fn a_large_establishment_does_not_hide_a_small_one_that_vanishes() {
    database_test(async |test| {
        let database = test.open();
        let odd = |number: u32| (0..number).map(|key| key * 2 + 1);
        let even = |number: u32| (0..number).map(|key| key * 2);
        Load::full(1).keys(even(900)).keys(odd(120)).run(&database).await;
        let load = Load::full(2).keys(even(900)).keys(odd(1));
        load.run(&database).await;
        assert_eq!(report(test, &load).await.0["would_deactivate"], 119);
        assert_eq!(test.products().await.0.len(), 1020);
    });
}

#[test]
fn other_establishments_are_left_alone() {
    database_test(async |test| {
        let database = test.open();
        Load::full(1).keys([1, 2, 3, 4]).run(&database).await;
        Load::full(2).keys([2]).run(&database).await;
        assert_eq!(test.products().await.1, ids([4]));
    });
}

#[test]
fn an_end_that_a_crash_prevented_is_made_up_for() {
    database_test(async |test| {
        let database = test.open();
        Load::full(1).keys([2, 4]).run(&database).await;
        for by_delivery in [true, false] {
            let load = Load::full(if by_delivery { 2 } else { 3 }).keys([2]);
            load.prepare(&database).await;
            // As if the function had died between the two transactions.
            test.execute(
                "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''no''; END'; \
                 CREATE TRIGGER no_end BEFORE UPDATE ON batch_cnpjs EXECUTE FUNCTION fail()",
            )
            .await;
            database.write_chunk(&load.chunks[0]).await.unwrap_err();
            assert_eq!(shown(test, &load).await["status"], "PROCESSING");
            assert_eq!(shown(test, &load).await["chunks"]["done"], 1);
            test.execute("DROP FUNCTION fail CASCADE").await;
            if by_delivery {
                let written = database.write_chunk(&load.chunks[0]).await.unwrap();
                let done = WriteOutcome::AlreadyDone { batch: BatchStatus::Completed, became_final: true };
                assert_eq!(written, done);
            } else {
                let end = database.finalize(load.id()).await.unwrap();
                assert_eq!((end.status, end.became_final), (BatchStatus::Completed, true));
                assert!(!database.finalize(load.id()).await.unwrap().became_final);
            }
            assert_eq!(test.products().await, (ids([2]), ids([4])));
            assert!(shown(test, &load).await["finished_at"].is_string());
        }
    });
}

#[test]
fn a_failed_chunk_keeps_a_full_load_from_deactivating_until_it_is_done() {
    database_test(async |test| {
        let database = test.open();
        Load::full(1).keys([2, 4, 6]).run(&database).await;
        let load = Load::full(2).keys([2]).keys([4]);
        load.prepare(&database).await;
        test.execute(
            "UPDATE batch_chunks SET status = 'FAILED' WHERE status = 'PENDING' AND chunk_index = 0",
        )
        .await;
        let written = database.write_chunk(&load.chunks[1]).await.unwrap();
        let WriteOutcome::Done { batch, became_final, .. } = written else { panic!("{written:?}") };
        assert_eq!((batch, became_final), (BatchStatus::PartialFail, true));
        assert_eq!(test.products().await.1, ids([]));
        assert_eq!(shown(test, &load).await["items_failed"], 1);
        // Slow, but not dead.
        let written = database.write_chunk(&load.chunks[0]).await.unwrap();
        let WriteOutcome::Done { batch, became_final, .. } = written else { panic!("{written:?}") };
        assert_eq!((batch, became_final), (BatchStatus::Completed, false));
        assert_eq!(test.products().await, (ids([2, 4]), ids([6])));
        assert_eq!(shown(test, &load).await["items_failed"], 0);
    });
}

#[test]
fn a_full_load_that_failed_says_that_it_decided_nothing_at_every_exit() {
    database_test(async |test| {
        let database = test.open();
        let failure = |code: &'static str| PayloadFailure {
            code: code.into(),
            detail: "it did not work".to_owned(),
            byte_offset: None,
        };
        let malformed = Load::full(11);
        database.fail_payload(&malformed.batch, &failure("MALFORMED_JSON"), None).await.unwrap();
        let given_up = Load::full(12);
        database.fail_payload(&given_up.batch, &failure(PayloadFailure::GIVEN_UP), None).await.unwrap();
        let gone = Load::full(13);
        database.begin_chunking(&gone.batch, Plan::default()).await.unwrap();
        database.fail_without_payload(gone.id(), &failure("CONTENT_CORRUPT")).await.unwrap();
        let (some, all) = (Load::full(14).keys([2]).keys([4]), Load::full(15).keys([6]).keys([8]));
        for (load, failed) in [(&some, 1), (&all, 2)] {
            load.prepare(&database).await;
            for index in 0..failed {
                let uri = load.uri(index);
                database.fail_chunk(&load.announced(index, &uri), "given up").await.unwrap();
            }
        }
        database.write_chunk(&some.chunks[1]).await.unwrap();
        let old = Load::full(1);
        test.keep_since(10).await;
        database.begin_chunking(&old.batch, Plan::default()).await.unwrap();
        for (load, status) in [
            (&malformed, "FAILED"),
            (&given_up, "FAILED"),
            (&gone, "FAILED"),
            (&some, "PARTIAL_FAIL"),
            (&all, "FAILED"),
            (&old, "FAILED"),
        ] {
            let shown = shown(test, load).await;
            assert_eq!(
                (&shown["status"], &shown["deactivation"]["state"]),
                (&json!(status), &json!("skipped"))
            );
        }
    });
}
