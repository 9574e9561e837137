//! What the end of a full load with many establishments costs, and what it leaves if it is cut off.

use std::time::Duration;

use catalog::{Database, Written};
use ingestion::Viewer;
use ingestion::batch::{BatchStatus, ReplayScope};
use ingestion::product::{Attributes, MemberSet, Product, ProductKey};
use serde_json::{Value, json};

use crate::replay::{again, begin};
use crate::support::{Load, TestDatabase, cnpj, database_test};

async fn shown(test: &TestDatabase, load: &Load) -> Value {
    let metadata = &load.batch.metadata;
    let view =
        test.open().batch(&Viewer::whole(metadata.tenant_id), metadata.batch_id).await.unwrap().unwrap();
    serde_json::to_value(view).unwrap()
}

fn product(establishment: u32, id: &str) -> Product<'static> {
    let key = ProductKey { cnpj: cnpj(establishment), shop_id: 1, product_id: id.to_owned() };
    Product { key, attributes: Attributes::default(), members: MemberSet::default() }
}

/// One product of each of so many establishments, a thousand a chunk.
fn one_each(mut load: Load, establishments: u32, id: &str) -> Load {
    let all: Vec<u32> = (0..establishments).collect();
    for some in all.chunks(1000) {
        load = load.products(some.iter().map(|establishment| product(*establishment, id)));
    }
    load
}

/// Notes each statement that updates products or decides about establishments, with the locks that its transaction holds.
const STEPS: &str = "CREATE TABLE steps (step xid8, what text, locks bigint); \
     CREATE FUNCTION note_step() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO steps \
         SELECT pg_current_xact_id(), TG_TABLE_NAME, count(*) FROM pg_locks \
         WHERE pid = pg_backend_pid() AND locktype = ''advisory''; RETURN NULL; END'; \
     CREATE TRIGGER note_step AFTER UPDATE ON products FOR EACH STATEMENT EXECUTE FUNCTION note_step(); \
     CREATE TRIGGER note_step AFTER UPDATE ON batch_cnpjs FOR EACH STATEMENT EXECUTE FUNCTION note_step()";

/// Writes all chunks of a load but the last, so that the next call ends it.
async fn all_but_the_end(database: &Database, load: &Load) {
    load.prepare(database).await;
    let (_, others) = load.chunks.split_last().unwrap();
    for chunk in others {
        database.write_chunk(chunk).await.unwrap();
    }
}

#[test]
fn the_end_of_a_full_load_goes_on_in_slices_whose_number_is_linear_in_its_establishments() {
    let mut steps = Vec::new();
    for establishments in [512, 1024, 2048] {
        database_test(async |test| {
            let database = test.open();
            one_each(Load::full(1), establishments, "old").run(&database).await;
            let load = one_each(Load::full(2), establishments, "new");
            all_but_the_end(&database, &load).await;
            test.execute(STEPS).await;
            let written = database.write_chunk(load.chunks.last().unwrap()).await.unwrap();
            assert!(matches!(written, Written::Done { batch: BatchStatus::Completed, .. }), "{written:?}");
            assert_eq!(shown(test, &load).await["changes"]["deactivated"], establishments);
            assert_eq!(test.products().await.1.len(), usize::try_from(establishments).unwrap());
            let slices = test.number("SELECT count(DISTINCT step) FROM steps").await;
            // One statement deactivates, and one decides.
            assert_eq!(test.number("SELECT count(*) FROM steps").await, 2 * slices);
            let most = test.number("SELECT max(locks) FROM steps").await;
            assert!(most <= 257, "{most} locks at once");
            steps.push(slices);
        });
    }
    assert_eq!(steps, [2, 4, 8]);
}

#[test]
fn an_end_that_is_cut_off_between_two_slices_is_taken_up_where_it_stopped() {
    database_test(async |test| {
        let database = test.open();
        one_each(Load::full(1), 600, "old").run(&database).await;
        let load = one_each(Load::full(2), 600, "new");
        test.execute(
            "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN \
                 IF (SELECT count(*) FROM batch_cnpjs WHERE deactivation = ''done'') > 900 \
                 THEN RAISE ''no''; END IF; RETURN NULL; END'; \
             CREATE TRIGGER no_end AFTER UPDATE ON batch_cnpjs FOR EACH STATEMENT EXECUTE FUNCTION fail()",
        )
        .await;
        load.prepare(&database).await;
        database.write_chunk(&load.chunks[0]).await.unwrap_err();
        let view = shown(test, &load).await;
        assert_eq!(
            (&view["status"], &view["deactivation"]["state"]),
            (&json!("PROCESSING"), &json!("pending"))
        );
        assert_eq!(test.products().await.1.len(), 256);
        // What is decided holds: an earlier batch that comes late brings it back no more, and what is not decided yet it does.
        let late = Load::delta(1).products([product(0, "old"), product(599, "old")]);
        late.run(&database).await;
        assert_eq!(test.products().await.1.len(), 256);
        test.execute("DROP FUNCTION fail CASCADE").await;
        let end = database.finalize(load.id()).await.unwrap();
        assert_eq!((end.status, end.became_final), (BatchStatus::Completed, true));
        assert_eq!(test.products().await.1.len(), 600);
        assert_eq!(shown(test, &load).await["changes"]["deactivated"], 600);
    });
}

#[test]
fn the_guard_looks_at_every_establishment_before_the_first_is_decided() {
    database_test(async |test| {
        let database = test.open();
        let last = 399;
        let many = (0..150).map(|number| product(last, &format!("p{number:03}")));
        one_each(Load::full(1), 400, "old").products(many).run(&database).await;
        let load = one_each(Load::full(2), 400, "new");
        load.run(&database).await;
        let held = json!({"state": "held", "would_deactivate": 550, "reason": null});
        assert_eq!(shown(test, &load).await["deactivation"], held);
        assert_eq!(test.products().await.1.len(), 0);
        assert_eq!(test.number("SELECT count(*) FROM batch_cnpjs WHERE deactivation = 'done'").await, 400);
    });
}

#[test]
fn two_that_end_a_load_at_once_deactivate_once_and_report_it() {
    database_test(async |test| {
        let database = test.open();
        Load::full(1).keys([2, 4, 6]).run(&database).await;
        let load = Load::full(2).keys([2]);
        all_but_the_end(&database, &load).await;
        // As it is when the last chunk is written and the end is missing.
        test.execute(
            "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''no''; END'; \
             CREATE TRIGGER no_end BEFORE UPDATE ON batch_cnpjs EXECUTE FUNCTION fail()",
        )
        .await;
        database.write_chunk(&load.chunks[0]).await.unwrap_err();
        test.execute("DROP FUNCTION fail CASCADE").await;
        test.execute("BEGIN; SELECT FROM batches FOR UPDATE").await;
        let (one, two) = (test.open(), test.open());
        let release = async {
            let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                 AND wait_event_type = 'Lock'";
            while test.number(waiting).await < 2 {
                tokio::time::sleep(Duration::from_millis(20)).await;
                test.execute("SELECT pg_stat_clear_snapshot()").await;
            }
            test.execute("COMMIT").await;
        };
        let (first, second, ()) = tokio::join!(one.finalize(load.id()), two.finalize(load.id()), release);
        let ended = [first.unwrap(), second.unwrap()];
        assert_eq!(ended.iter().filter(|end| end.became_final).count(), 1, "{ended:?}");
        assert!(ended.iter().all(|end| end.status == BatchStatus::Completed), "{ended:?}");
        assert_eq!(shown(test, &load).await["changes"]["deactivated"], 2);
    });
}

/// So many chunks of a batch that was received later.
async fn many_later_chunks(test: &TestDatabase, chunks: u32) {
    let later = Load::delta(100).keys([2]);
    later.run(&test.open()).await;
    test.execute(&format!(
        "INSERT INTO batch_chunks (chunk_id, batch_id, generation, chunk_index, chunk_uri, first_cnpj, last_cnpj, items, \
             status, key_hashes, row_hashes) \
         SELECT gen_random_uuid(), batch_id, 1, i, chunk_uri, first_cnpj, last_cnpj, 0, 'DONE', key_hashes, row_hashes \
         FROM batch_chunks, generate_series(1, {chunks}) AS i WHERE batch_id = '{}'",
        later.id()
    ))
    .await;
}

#[test]
fn a_load_that_decided_asks_no_later_batch_when_it_is_replayed() {
    database_test(async |test| {
        let database = test.open();
        Load::full(1).keys([2, 4, 6]).run(&database).await;
        let load = Load::full(2).keys([2]);
        load.run(&database).await;
        many_later_chunks(test, 8192).await;
        let begun = begin(&database, &load, ReplayScope::All).await;
        database.write_chunk(&again(&load.chunks[0], begun.generation)).await.unwrap();
        let view = shown(test, &load).await;
        assert_eq!((&view["status"], &view["deactivation"]["state"]), (&json!("COMPLETED"), &json!("done")));
        assert_eq!(test.products().await.0.len(), 1);
    });
}

#[test]
fn a_load_after_which_too_much_has_come_decides_nothing_and_says_so() {
    database_test(async |test| {
        let database = test.open();
        Load::full(1).keys([2, 4, 6]).run(&database).await;
        let load = Load::full(2).keys([2]);
        load.prepare(&database).await;
        many_later_chunks(test, 8192).await;
        database.write_chunk(&load.chunks[0]).await.unwrap();
        let skipped = json!({"state": "skipped", "would_deactivate": 0, "reason": "too_late"});
        let view = shown(test, &load).await;
        assert_eq!((&view["status"], &view["deactivation"]), (&json!("COMPLETED"), &skipped));
        assert_eq!(test.products().await.0.len(), 3);
    });
}
